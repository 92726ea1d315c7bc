"""The width study: errors between the floor and the bounds, against a solve written out by hand."""

import pytest
import torch

from ridgeformer.studies.compiled_problem import SOFTMAX, problem_with_condition_number
from ridgeformer.studies.width_rank import FEATURES, KAPPA, SUPPORTS, measure


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize(("sketch", "dtype"), [("pca", "float64"), ("gaussian", "float32"), ("orthogonal", "float64")])
def test_the_error_is_below_its_bound(attention, sketch, dtype):
    for width in (4, 20):
        row = measure(attention, sketch, "log", width, dtype, seed=7)
        assert 0 < row["error"] <= row["bound"]
        if attention == "linear":
            assert row["floor"] <= row["kernel"] * (1 + 1e-9)
            assert row["best"] <= row["dimension"] * (1 + 1e-9)


def test_linear_pca_attains_the_floor_and_the_error_written_out():
    row = measure("linear", "pca", "log", 6, "float64", seed=7)
    problem = problem_with_condition_number("linear", SUPPORTS, FEATURES, KAPPA, "log", seed=7)
    values, Q = torch.linalg.eigh(problem.X @ problem.X.T)
    shrink = values / (values + problem.ridge)
    lost = (Q[:, :-6] * shrink[:-6]) @ (Q[:, :-6].T @ problem.y)
    assert row["kernel"] == pytest.approx(float(values[-7] / values[-1]), rel=1e-9)
    assert row["floor"] == pytest.approx(row["kernel"], rel=1e-9)
    assert row["error"] == pytest.approx(float(lost.norm() / problem.y.norm()), rel=1e-6)
    assert row["error"] <= row["best"]


def test_softmax_kernel_distance_written_out():
    row = measure("softmax", "pca", "log", 6, "float64", seed=7)
    problem = problem_with_condition_number("softmax", SUPPORTS, FEATURES, KAPPA, "log", seed=7)
    top = torch.linalg.svd(problem.X, full_matrices=False).Vh[:6]
    kernel = SOFTMAX
    K = kernel(problem.X)
    gap = torch.linalg.matrix_norm(K - kernel(problem.X @ top.T), ord=2) / torch.linalg.matrix_norm(K, ord=2)
    assert row["kernel"] == pytest.approx(float(gap), rel=1e-9)
    assert row["floor"] is None
