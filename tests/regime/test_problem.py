import numpy as np
import pytest
import torch

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.datasets import load
from ridgeformer.regime import make_problem, problem_from


def test_rows_are_disjoint_and_of_unit_length():
    problem = problem_from(load("digits"), rows=60, test_rows=40, seed=3)
    assert (problem.X.shape, problem.y.shape) == ((60, 64), (60, 10))
    assert (problem.Xt.shape, problem.yt.shape) == ((40, 64), (40, 10))
    torch.testing.assert_close(problem.X.norm(dim=1), torch.ones(60, dtype=torch.float64))
    assert float((problem.X @ problem.Xt.T).max()) < 1 - 1e-9


def test_classes_are_coded_as_said():
    digits = load("digits")
    three = problem_from(digits, rows=30, test_rows=10, seed=0, classes=("1", "4", "7"), coding="one_hot")
    assert three.y.shape == (30, 3)
    assert three.y.sum(1).unique().tolist() == [1.0]
    two = problem_from(digits, rows=30, test_rows=10, seed=0, classes=("1", "4"))
    assert sorted(two.y.unique().tolist()) == [-1.0, 1.0]


def test_regression_keeps_its_targets():
    problem = problem_from(load("diabetes"), rows=30, test_rows=10, seed=0, unit_rows=False)
    assert not problem.classification
    assert problem.error(problem.yt + 2, test=True) == pytest.approx(4)


def test_errors_count_wrong_classes():
    eye = np.eye(2)
    two = make_problem(eye, [1, -1], eye, [1, -1], classification=True)
    assert two.error(torch.tensor([[3.0], [0.5]]), test=True) == 0.5
    many = make_problem(eye, eye, eye, eye, classification=True)
    assert many.error(torch.tensor([[0.1, 0.0], [0.1, 0.0]]), test=False) == 0.5


def test_refuses_bad_data():
    eye, y = np.eye(2), [1.0, -1.0]
    with pytest.raises(InputError, match="1 row; a kernel between rows needs at least 2"):
        make_problem(eye[:1], [1.0], eye, y, classification=True)
    with pytest.raises(InputError, match=r"row 1 of X is all zeros"):
        make_problem([[1.0, 0.0], [0.0, 0.0]], y, eye, y, classification=True)
    with pytest.raises(InputError, match=r"row 0 of Xt is all zeros"):
        make_problem(eye, y, [[0.0, 0.0]], [1.0], classification=True)
    with pytest.raises(InputError, match="one class"):
        make_problem(eye, [1.0, 1.0], eye, y, classification=True)
    with pytest.raises(ShapeError, match="same outputs"):
        make_problem(eye, y, eye, eye, classification=True)


def test_refuses_draws_that_cannot_be_made():
    digits = load("digits")
    with pytest.raises(InputError, match="ask for fewer"):
        problem_from(digits, rows=1500, test_rows=1000, seed=0)
    with pytest.raises(InputError, match="one class"):
        problem_from(digits, rows=20, test_rows=10, seed=0, classes=("3",))
    with pytest.raises(UnknownNameError, match="class 'x'"):
        problem_from(digits, rows=20, test_rows=10, seed=0, classes=("x", "3"))
    with pytest.raises(UnknownNameError, match="coding"):
        problem_from(digits, rows=20, test_rows=10, seed=0, coding="twohot")
