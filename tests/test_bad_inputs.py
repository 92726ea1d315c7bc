"""One table of bad rows, targets and numbers, given to every verb that takes them: one sentence says what is wrong."""

import math

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.solving.ridge_path import ridge_path
from tests.compiler.tasks import model, task

pytestmark = pytest.mark.usefixtures("unchecked")


def spoiled(X, value):
    X = X.clone()
    X[1, 1] = value
    return X


BAD_ROWS = {
    "a vector": (lambda X: X[0], errors.ShapeError, "was expected"),
    "no rows": (lambda X: X[:0], errors.ShapeError, "at least one row"),
    "no features": (lambda X: X[:, :0], errors.ShapeError, "features?"),
    "NaN": (
        lambda X: spoiled(X, math.nan),
        errors.InputError,
        r"the first \(nan\) at index \(1, 1\)",
    ),
    "infinity": (lambda X: spoiled(X, math.inf), errors.InputError, "NaN or infinite"),
    "text": (lambda X: [["a"] * X.shape[1]] * len(X), errors.DtypeError, "encode text"),
    "objects": (lambda X: np.full(X.shape, "a", dtype=object), errors.DtypeError, "not a number"),
    "complex numbers": (lambda X: X + 0j, errors.DtypeError, "complex"),
    "a sparse tensor": (lambda X: X.to_sparse(), errors.DtypeError, "to_dense"),
    "rows of two lengths": (lambda X: [[1.0, 2.0, 3.0], [1.0]], errors.ShapeError, "same length"),
}

BAD_TARGETS = {
    "too few": (lambda y: y[:-1], errors.ShapeError, "rows?"),
    "NaN": (lambda y: y * math.nan, errors.InputError, "y has .* entries that are NaN or infinite"),
    "infinity": (lambda y: y / 0.0, errors.InputError, "NaN or infinite"),
    "text": (lambda y: [["a"]] * len(y), errors.DtypeError, "encode text"),
    "complex numbers": (lambda y: y + 0j, errors.DtypeError, "complex"),
}

NOT_POSITIVE = (0, -1.0, math.nan, math.inf, "much", None)

KERNELS = {
    "dot_product": rf.DotProduct(),
    "exponential": rf.Exponential(1.0),
    "gaussian": rf.Gaussian(1.0),
    "relu_ntk": rf.ReluNTK(),
}

VERBS = {
    **{f"{name} kernel": lambda X, y, Xq, ridge, kernel=kernel: kernel(X) for name, kernel in KERNELS.items()},
    "solve": lambda X, y, Xq, ridge: rf.solve(rf.Exponential(1.0), X, y, ridge),
    "ridge_path": lambda X, y, Xq, ridge: ridge_path(rf.Exponential(1.0), X, y, [ridge]),
    "influence": lambda X, y, Xq, ridge: rf.influence.influence(
        rf.solve(rf.Exponential(1.0), X, y, ridge, algorithm="direct"), Xq
    ),
    "compiled model": lambda X, y, Xq, ridge: model("softmax cg")(X, y, Xq),
    "certify": lambda X, y, Xq, ridge: rf.certify(model("softmax cg"), X, y, Xq),
}

TAKE_TARGETS = [verb for verb in VERBS if not verb.endswith("kernel")]
TAKE_A_RIDGE = ["solve", "ridge_path", "influence"]


def call(verb, ridge=0.1, **changed):
    X, y, Xq = task()
    VERBS[verb](changed.get("X", X), changed.get("y", y), changed.get("Xq", Xq), ridge)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_rows(verb, bad):
    change, error, words = BAD_ROWS[bad]
    with pytest.raises(error, match=words):
        call(verb, X=change(task()[0]))


@pytest.mark.parametrize("verb", ["influence", "compiled model", "certify"])
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_bad_queries(verb, bad):
    change, error, words = BAD_ROWS[bad]
    with pytest.raises(error, match=words):
        call(verb, Xq=change(task()[2]))


@pytest.mark.parametrize("verb", TAKE_TARGETS)
@pytest.mark.parametrize("bad", BAD_TARGETS)
def test_bad_targets(verb, bad):
    change, error, words = BAD_TARGETS[bad]
    with pytest.raises(error, match=words):
        call(verb, y=change(task()[1]))


@pytest.mark.parametrize("verb", TAKE_A_RIDGE)
@pytest.mark.parametrize("ridge", NOT_POSITIVE)
def test_a_ridge_that_is_not_positive(verb, ridge):
    with pytest.raises(errors.InputError, match="ridge is"):
        call(verb, ridge=ridge)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"tol": 2.0}, "between 0 and 1"),
        ({"seed": -1}, "seed is -1"),
        ({"ridge": 1e305}, "every prediction would be zero"),
        ({"algorithm": "gc"}, "did you mean 'cg'"),
        ({"kernel": "exponential"}, "a kernel object was expected"),
    ],
)
def test_other_arguments_of_solve(arguments, words):
    X, y, _ = task()
    with pytest.raises(errors.InputError, match=words):
        rf.solve(**{"kernel": rf.Exponential(1.0), "X": X, "y": y, "ridge": 0.1, **arguments})


@pytest.mark.parametrize("kernel", [rf.Exponential, rf.Gaussian])
@pytest.mark.parametrize("temperature", NOT_POSITIVE)
def test_a_temperature_that_is_not_positive(kernel, temperature):
    with pytest.raises(errors.InputError, match="temperature is"):
        kernel(temperature)
