"""Dask: the local answer, and the same one when a worker dies."""

import multiprocessing
import os
import signal
import sys
from math import exp

import distributed
import pytest
import torch

from ridgeformer.algorithms import Auto
from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving import RidgeSystem, solve
from ridgeformer.solving.engines import DaskTiles, Tiles
from ridgeformer.solving.plan import choose_plan, plan_in_float64
from ridgeformer.solving.preconditioners import PivotedCholesky
from ridgeformer.solving.preconditioners.pivoted_cholesky import default_rank

KERNEL = Exponential(0.5)


def rows(n):
    """Unit rows and two columns of targets."""
    X = torch.nn.functional.normalize(torch.randn(n, 5, generator=torch_generator(0, "rows"), dtype=torch.float64))
    return X, torch.stack([X[:, 0] * X[:, 1], X[:, 2]], 1)


@pytest.mark.parametrize(("n", "columns"), [(3, 2), (50, 1), (400, 3)])
def test_products_are_the_local_ones(client, n, columns):
    X, _ = rows(n)
    V = torch.randn(n, columns, generator=torch_generator(0, "V"), dtype=torch.float64)
    here, there = (engine(KERNEL, X, torch.float32) for engine in (Tiles, DaskTiles))
    torch.testing.assert_close(there.matmat64(V), here.matmat64(V), rtol=1e-13, atol=1e-12)
    torch.testing.assert_close(there.matmat(V), here.matmat(V), rtol=1e-4, atol=1e-4)
    assert torch.equal(there.matmat(V), there.matmat(V))


def test_the_preconditioner_is_the_inverse_it_says(client):
    X, V = rows(60)
    engine = DaskTiles(KERNEL, X, torch.float64, client)
    chosen = X[torch.randperm(60, generator=torch_generator(0, "p"))[:20].sort().values]
    low_rank = KERNEL(X, chosen) @ torch.linalg.solve(KERNEL(chosen), KERNEL(chosen, X))
    inverse = torch.linalg.inv(low_rank + 0.1 * torch.eye(60, dtype=torch.float64))
    found = engine.preconditioner(0.1, 20, torch_generator(0, "p"))(V)
    torch.testing.assert_close(found, inverse @ V, rtol=1e-8, atol=1e-8)


def test_rows_that_are_alike_do_not_stop_it(client):
    X = rows(10)[0].repeat(4, 1)
    engine = DaskTiles(KERNEL, X, torch.float64)
    inverse = torch.linalg.inv(KERNEL(X) + 0.1 * torch.eye(40, dtype=torch.float64))
    found = engine.preconditioner(0.1, 40, torch_generator(0, "p"))(X)
    torch.testing.assert_close(found, inverse @ X, rtol=1e-6, atol=1e-6)


def test_large_logits_by_name(client):
    X, y = rows(20)
    here, there = (
        solve(Exponential(1 / 400), X, y, exp(399), algorithm="pcg", engine=name) for name in ("tiles", "dask")
    )
    assert there.log_scale == here.log_scale > 0
    torch.testing.assert_close(there.alpha, here.alpha, rtol=1e-10, atol=0)


def test_the_same_answer_and_again_with_a_worker_killed_mid_solve(client):
    X, y = rows(120)
    here = solve(KERNEL, X, y, 5.0, algorithm="direct")
    asked = {"engine": "dask", "tol": 1e-12, "algorithm": Auto(preconditioner=PivotedCholesky(rank=60))}
    there = solve(KERNEL, X, y, 5.0, **asked)
    assert (there.plan.engine, there.status.value) == ("dask", "converged")
    torch.testing.assert_close(there.alpha, here.alpha, rtol=1e-10, atol=1e-10)
    killed = []

    def kill(step, alpha, residual):
        if step == 2:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    found = solve(KERNEL, X, y, 5.0, **asked, callback=kill)
    assert len(killed) == 1
    assert found.steps == there.steps > 3
    assert torch.equal(found.alpha, there.alpha)


def test_a_cluster_that_loses_everything_is_given_up(client, monkeypatch):
    engine = DaskTiles(KERNEL, rows(10)[0], torch.float64)

    def lose(*_):
        raise distributed.client.FutureCancelledError("x", "lost")

    monkeypatch.setattr(engine, "_gather", lose)
    monkeypatch.setattr("ridgeformer.solving.engines.dask_tiles.PAUSE", 0)
    with pytest.raises(RidgeformerError, match="lost parts of a step 6 times"):
        engine.matmat(torch.ones(10, 1, dtype=torch.float64))


def test_an_error_of_a_task_is_handed_on(client):
    with pytest.raises(InputError, match="largest logit"):
        DaskTiles(Exponential(1e-4), rows(10)[0], torch.float64).matmat(torch.ones(10, 1, dtype=torch.float64))


def test_the_plan_budgets_only_what_is_held_here():
    X, _ = rows(3000)
    system = RidgeSystem(KERNEL, X, 1.0, targets=X[:, :1], memory=100 << 20)
    plan = choose_plan(system, Auto(), "dask")
    assert plan.algorithm.name == "mixed_pcg"
    assert (plan.engine, plan.working, plan.rank) == ("dask", "float32", default_rank(3000))
    assert plan.needed < choose_plan(system, Auto(), "tiles").needed
    again = plan_in_float64(system, plan)
    assert (again.engine, again.working) == ("dask", "float64")


def test_no_workers():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(InputError, match="no workers"),
    ):
        DaskTiles(KERNEL, rows(10)[0], torch.float64, client)


def test_no_client(monkeypatch):
    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed.Client, "current", none)
    with pytest.raises(InputError, match="needs a client"):
        solve(KERNEL, *rows(10), 0.1, engine="dask")


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'ridgeformer\[cluster\]'"):
        solve(KERNEL, *rows(10), 0.1, engine="dask")
