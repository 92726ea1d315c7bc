"""The regressions of the explorer, and the files a person hands over."""

import base64
import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

from ridgeformer.core.errors import DataFileError, InputError, RidgeformerError
from ridgeformer.views.explorer import data as uploads
from ridgeformer.views.explorer.data import (
    FUNCTIONS,
    HARMONICS,
    MOST_BYTES,
    MOST_COLUMNS,
    MOST_KEPT,
    MOST_RECORDS,
    find_upload,
    lift,
    load_regression,
    receive,
)
from ridgeformer.views.explorer.state import DRAWN, State


def test_features_of_a_line_are_a_fejer_kernel_of_the_distance():
    x = np.linspace(-1, 1, 15)
    phi = lift(x)
    gap = (x[:, None] - x[None, :]) * np.pi / 2
    n = HARMONICS + 1
    with np.errstate(invalid="ignore"):
        fejer = np.where(np.isclose(np.sin(gap / 2), 0), 1.0, (np.sin(n * gap / 2) / np.sin(gap / 2) / n) ** 2)
    assert np.allclose((phi @ phi.T).numpy(), fejer, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_toy_points_lie_near_their_function(name):
    task = load_regression(State(data=name, rows=100))
    assert task.X.shape == (100, 2 * HARMONICS + 1)
    assert (np.diff(task.x) >= 0).all()
    noise = task.targets - FUNCTIONS[name](task.x)
    assert 0.05 < noise.std() < 0.15
    assert abs(float(task.y.mean())) < 1e-12
    assert np.array_equal(task.truth, FUNCTIONS[name](task.grid))


def test_more_rows_keep_the_first_ones():
    few, many = load_regression(State(rows=10)), load_regression(State(rows=30))
    assert set(np.round(few.x, 12)) < set(np.round(many.x, 12))


def test_drawn_points_are_given_as_drawn():
    task = load_regression(State(data=DRAWN, points=((0.5, 2.0), (-3.0, 1.0), (0.0, 0.0))))
    assert task.x.tolist() == [-3.0, 0.0, 0.5]
    assert task.targets.tolist() == pytest.approx([1.0, 0.0, 2.0])
    assert task.grid[0] < -3.0 < 3.0 < task.grid[-1]
    assert task.truth is None


@pytest.mark.parametrize(
    ("points", "said"), [((), "0 points cannot be fitted"), (((0.0, 0.0),), "1 point cannot be fitted")]
)
def test_too_few_drawn_points_are_refused(points, said):
    with pytest.raises(InputError, match=said):
        load_regression(State(data=DRAWN, points=points))


@pytest.mark.parametrize(("name", "rows", "outputs"), [("digits", 200, 10), ("wine", 90, 3), ("diabetes", 50, 1)])
def test_embedded_data_are_one_output_of_held_out_rows(name, rows, outputs):
    task = load_regression(State(data=name, rows=rows))
    assert len(task.X) == len(task.labels) == rows
    assert len(task.Xq) == 50
    assert len(task.outputs) == outputs
    assert not task.line
    assert abs(float(task.y.mean())) < 1e-9
    assert task.truth.shape == (50,)
    if outputs > 1:
        assert set(task.truth) <= {-1.0, 1.0}
    if name == "digits":
        assert torch.allclose(task.X.square().sum(1), torch.ones(rows, dtype=torch.float64))


def test_every_class_can_be_asked_for_and_no_other():
    counts = [(load_regression(State(data="wine", output=j)).targets > 0).sum() for j in range(3)]
    assert sum(counts) == len(load_regression(State(data="wine")).X)
    with pytest.raises(InputError, match="no output 3"):
        load_regression(State(data="wine", output=3))


def url(raw):
    return "data:application/octet-stream;base64," + base64.b64encode(raw).decode()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def csv(rows=20):
    return ("a,b,y\n" + "".join(f"{i},{i * i % 7},{i / 3}\n" for i in range(rows))).encode()


def test_a_table_becomes_a_dataset():
    found = find_upload(receive("mine.csv", url(csv())))
    assert (found.name, found.n, found.d, found.task) == ("mine", 20, 1, "regression")  # one column numbers the rows


def test_arrays_become_a_dataset_and_a_regression():
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30.0)
    state = State(data=receive("mine.npz", url(npz(X=X, y=y))), rows=20)
    task = load_regression(state)
    assert len(task.X) + len(task.Xq) <= 30
    assert task.X.shape[1] == 4


def test_one_feature_is_drawn_over_its_own_range():
    x = np.linspace(100, 300, 40)
    task = load_regression(State(data=receive("line.npz", url(npz(X=x[:, None], y=np.sin(x / 50)))), rows=25))
    assert task.line
    assert len(task.x) == 25
    assert task.grid[0] < 105
    assert task.grid[-1] > 295
    assert "25 of 40 rows" in task.notes[0]


def test_the_target_may_be_named_and_makes_another_upload():
    first, second = receive("mine.csv", url(csv())), receive("mine.csv", url(csv()), "a")
    assert first != second
    assert find_upload(second).features == ("b", "y")
    assert receive("other-name.csv", url(csv())) == first


BAD = {
    "wrong-ending.txt": (b"a,y\n1,2\n", r"\.csv or \.npz was expected"),
    "model.pkl": (pickle.dumps([1]), r"\.csv or \.npz was expected"),
    "no-ending": (b"1", "ends in nothing"),
    "empty.csv": (b"", "is empty"),
    "notarget.csv": (b"a,b\n1,2\n3,4\n", "no target chosen"),
    "mixed.csv": (b"a,y\nred,1\n3,2\n", "a"),
    "ragged.csv": (b"a,y\n1,2\n1,2,3\n", "line"),
    "broken.npz": (b"PK\x03\x04 nothing", "truncated or damaged"),
    "zipped.npz": (b"not a zip", "something else inside"),
    "pickled.npz": (npz(X=np.array([[{}]], dtype=object), y=np.zeros(1)), "Python objects"),
    "one.npz": (npz(X=np.zeros((3, 1))), "keys"),
    "wide.npz": (npz(X=np.zeros((3, MOST_COLUMNS + 1)), y=np.arange(3.0)), "features"),
    "long.npz": (npz(X=np.zeros((MOST_RECORDS + 1, 1)), y=np.zeros(MOST_RECORDS + 1)), "rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_name_and_no_path(name):
    raw, said = BAD[name]
    with pytest.raises(RidgeformerError, match=said) as refusal:
        receive(name, url(raw))
    assert name in str(refusal.value)
    assert "/ridgeformer-" not in str(refusal.value)


def test_a_name_is_only_a_name():
    found = find_upload(receive("../../../etc/mine.csv", url(csv())))
    assert found.name == "mine"


def test_large_files_are_refused_before_they_are_decoded():
    with pytest.raises(DataFileError, match="more than 5 MB"):
        receive("big.csv", "data:;base64," + "!" * (MOST_BYTES * 4 // 3 + 8))


def test_half_a_file_is_refused():
    with pytest.raises(DataFileError, match="did not arrive whole"):
        receive("half.csv", "data:;base64,@@@")


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(65 * 1024 * 1024))
    assert len(file.getvalue()) < MOST_BYTES
    with pytest.raises(DataFileError, match="unpacks to 65 MB"):
        receive("bomb.npz", url(file.getvalue()))


def test_the_oldest_upload_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(uploads, "_kept", type(uploads._kept)())
    keys = [receive("mine.csv", url(csv(20 + i))) for i in range(MOST_KEPT + 1)]
    assert find_upload(keys[1]).n == 21
    with pytest.raises(InputError, match="upload it again"):
        find_upload(keys[0])
