from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeformer.core.errors import DtypeError, InputError, ShapeError, UnknownNameError
from ridgeformer.datasets.labels import MOST_CLASSES, code_target


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["b", "a", "b"], "classification", ("a", "b")),
        ([True, False], "classification", ("False", "True")),
        ([3, 10, 3, 10], "classification", ("3", "10")),
        ([b"x", b"y", b"x"], "classification", ("x", "y")),
        ([0, 1, 2, 0, 1, 2], "classification", ("0", "1", "2")),
        ([1, 2, 3, 4], "regression", ()),
        (list(range(1, 11)) * 20, "regression", ()),  # a rating
        ([5, 5, 5, 5], "regression", ()),
        (list(range(MOST_CLASSES + 1)) * 4, "regression", ()),
        ([0.0, 1.0, 0.0, 1.0], "regression", ()),
        ([[1, 2], [1, 2]], "regression", ()),
    ],
)
def test_the_task_follows_from_the_values(values: Any, task: str, classes: tuple[str, ...]) -> None:
    target = code_target(np.array(values), None, "y")
    assert (target.task, target.classes) == (task, classes)
    assert target.y.dtype == (np.int64 if classes else np.float64)


def test_codes_point_at_their_labels() -> None:
    values = np.array([7, -1, 7, 3, 3, -1])
    target = code_target(values, "classification", "y")
    assert [int(target.classes[code]) for code in target.y] == values.tolist()


def test_an_explicit_task_overrides() -> None:
    assert code_target(np.array([0, 1, 0, 1]), "regression", "y").task == "regression"
    assert code_target(np.array([0.0, 2.0, 0.0]), "classification", "y").classes == ("0", "2")
    assert code_target(np.array([True, False]), "regression", "y").y.tolist() == [1.0, 0.0]


def test_one_column_is_a_vector() -> None:
    assert code_target(np.ones((3, 1)), None, "y").y.shape == (3,)


@pytest.mark.parametrize(
    ("values", "task", "error", "words"),
    [
        (["a", "a"], None, InputError, "one class only \\('a'\\)"),
        (["a", "b", "c"], None, InputError, "different label in each of its 3 rows"),
        (["1", "n/a", "1"], "regression", InputError, "text such as 'n/a'.*task=classification"),
        ([0.5, 1.0], "classification", InputError, "0.5, which is no class label"),
        ([[0, 1], [1, 0]], "classification", InputError, "2 columns"),
        ([1.0, np.nan, 2.0], None, InputError, "1 missing or infinite values, the first in row 1"),
        ([1j], None, DtypeError, "complex"),
        ([None, {}], None, DtypeError, "object"),
        (["2020-01-01"], None, DtypeError, "datetime64"),
        ([], None, ShapeError, r"shape \(0,\)"),
        ([0, 1], "clasify", UnknownNameError, "unknown task 'clasify'"),
    ],
)
def test_what_cannot_be_a_target(values: Any, task: str | None, error: type[Exception], words: str) -> None:
    array = np.array(values, dtype="datetime64[D]") if words == "datetime64" else np.array(values)
    with pytest.raises(error, match=words):
        code_target(array, task, "column 'y'")
