import math

import numpy as np
import pytest
import torch

from ridgeformer.core import checks, errors


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16, np.float32, np.float64, ">f8", "longdouble"])
def test_numbers_of_any_width_become_floats(dtype):
    tensor = checks.as_tensor(np.ones((2, 2), dtype=dtype), "X")
    assert tensor.dtype == (torch.float32 if np.dtype(dtype) in (np.float16, np.float32) else torch.float64)
    assert tensor.sum() == 4


def test_tensors_keep_precision_and_gradient():
    X = torch.ones(2, 2, requires_grad=True)
    assert checks.as_tensor(X, "X") is X
    assert checks.as_tensor(torch.ones(2, dtype=torch.bfloat16), "X").dtype == torch.float32


def test_object_arrays_of_numbers_are_numbers():
    assert checks.as_tensor(np.array([1, 2.5], dtype=object), "X").tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([1.0, math.nan], errors.InputError, r"NaN or infinite, the first \(nan\) at index \(1,\)"),
        ([math.inf], errors.InputError, "drop those rows"),
        (["a"], errors.DtypeError, "encode text"),
        (np.array([1, "a", None], dtype=object), errors.DtypeError, "not a number"),
        ([[1, 2], [3]], errors.ShapeError, "same length"),
        (np.array([1j]), errors.DtypeError, "real numbers were expected"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), errors.DtypeError, "dates"),
    ],
)
def test_what_is_refused(value, error, words):
    with pytest.raises(error, match=words):
        checks.as_tensor(value, "X")


def test_targets_follow_the_rows():
    X = torch.ones(3, 2)
    assert checks.as_targets([1, 2, 3], X).dtype == torch.float64  # whatever the rows: targets are never rounded
    for bad, words in (
        ([1, 2], "2 rows and X has 3"),
        (np.ones((3, 0)), "no columns"),
        (np.ones((3, 1, 1)), "outputs"),
    ):
        with pytest.raises(errors.ShapeError, match=words):
            checks.as_targets(bad, X)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "warm", None])
def test_positive_says_why(value):
    with pytest.raises(errors.InputError, match=r"ridge is .*the system must be definite"):
        checks.positive(value, "ridge", "the system must be definite")


def test_errors_are_values_errors_for_callers_who_know_no_other():
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.DtypeError, TypeError)


def test_a_memory_mapped_array_stays_on_disk(tmp_path):
    np.save(tmp_path / "X.npy", np.arange(12.0).reshape(6, 2))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert checks.as_matrix(mapped, "X").data_ptr() == mapped.ctypes.data
    assert checks.as_matrix(mapped[2:], "X").tolist() == mapped[2:].tolist()
    assert checks.as_matrix(mapped[:, :1], "X").tolist() == mapped[:, :1].tolist()
