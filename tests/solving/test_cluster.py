"""Centres on a Dask cluster: the local answer, and the same one when a worker dies."""

import multiprocessing
import os
import signal

import dask.array as da
import numpy as np
import pytest
import torch

from ridgeformer.algorithms import Centres
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.kernels import Gaussian
from ridgeformer.solving.cluster import solve_on_cluster

KERNEL, RIDGE, KIND = Gaussian(0.7), 0.1, Centres(count=25)


def rows(n=400, kind=np.float64):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(n, 3)).astype(kind)
    return X, np.sin(2 * X[:, 0]) + 0.1 * draw.normal(size=n)


def normal_equations(model, X, y):
    K_c, K_cc = KERNEL(X, model.Z), KERNEL(model.Z)
    b = torch.linalg.lstsq(K_c.T @ K_c + RIDGE * K_cc, K_c.T @ torch.from_numpy(y.reshape(len(y), -1))).solution
    return (K_c @ b).numpy()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_give_the_fit_of_all_their_rows(client, kind):
    X, y = rows(kind=kind)
    both = np.stack([y, y**2], 1)
    model = solve_on_cluster(
        KERNEL, da.from_array(X, chunks=(90, 2)), da.from_array(both, chunks=(90, 2)), RIDGE, algorithm=KIND
    )
    assert (model.status.value, model.rows, model.vector) == ("subset", 400, False)
    expected = normal_equations(model, X.astype(float), both)
    found = model.predict(X.astype(float)).numpy()
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 2e-4
    assert {tuple(row) for row in model.Z.numpy()} <= {tuple(row) for row in X.astype(float)}
    assert "of 400 rows" in model.advice


def test_a_dataframe_from_parquet_files_and_a_worker_that_is_killed(client, tmp_path):
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, y = rows()
    for part in range(5):
        some = slice(80 * part, 80 * part + 80)
        frame = pandas.DataFrame({"a": X[some, 0], "y": y[some], "b": X[some, 1], "c": X[some, 2]})
        frame.to_parquet(tmp_path / f"{part}.parquet")
    table = frames.read_parquet(tmp_path)
    whole = solve_on_cluster(KERNEL, table, "y", RIDGE, algorithm=KIND)
    killed = []

    def kill(step, relative):
        if step == 1 and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    again = solve_on_cluster(KERNEL, table, "y", RIDGE, algorithm=KIND, callback=kill)
    assert len(killed) == 1
    assert torch.equal(again.b, whole.b)
    assert again.advice == whole.advice
    expected = normal_equations(whole, X, y)[:, 0]
    assert np.linalg.norm(whole.predict(X).numpy() - expected) / np.linalg.norm(expected) < 2e-4
    with pytest.raises(InputError, match="name of a column"):
        solve_on_cluster(KERNEL, table, "z", RIDGE, algorithm=KIND)


def test_the_distance_and_the_leave_one_out_error_are_those_of_the_rows(client):
    X, y = rows()
    model = solve_on_cluster(
        KERNEL, da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90), RIDGE, algorithm=KIND
    )
    K_c, K_cc = KERNEL(X, model.Z), KERNEL(model.Z)
    H = (K_c @ torch.linalg.solve(K_c.T @ K_c + RIDGE * K_cc, K_c.T)).numpy()
    left_out = np.sqrt(np.mean(((y - H @ y) / (1 - H.diagonal())) ** 2))
    assert float(model.left_out[0]) == pytest.approx(left_out, rel=0.05)
    K = KERNEL(X).numpy()
    exact = K @ np.linalg.solve(K + RIDGE * np.eye(400), y)
    truth = np.sqrt(np.mean((exact - H @ y) ** 2))
    said = float(model.advice.split("by about ")[1].split()[0])
    assert truth / 3 < said < 3 * truth


def test_a_callback_stops_it(client):
    X, y = rows()
    given = (da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90))
    model = solve_on_cluster(KERNEL, *given, RIDGE, algorithm=KIND, callback=lambda step, _: step == 1)
    assert (model.status.value, model.steps) == ("stopped", 1)


def test_what_does_not_fit_together_is_refused(client):
    X, y = rows()
    blocks = da.from_array(X, chunks=(90, 3))
    with pytest.raises(ShapeError, match="the same chunks of rows"):
        solve_on_cluster(KERNEL, blocks, da.from_array(y, chunks=80), RIDGE)
    with pytest.raises(InputError, match="rows of this machine are for `solve`"):
        solve_on_cluster(KERNEL, X, y, RIDGE)
    with pytest.raises(InputError, match="with a number was expected"):
        solve_on_cluster(KERNEL, blocks, da.from_array(y, chunks=90), RIDGE, algorithm=Centres(count="auto"))
    X[200, 1] = np.nan
    with pytest.raises(InputError, match="missing or infinite"):
        solve_on_cluster(KERNEL, da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90), RIDGE)
