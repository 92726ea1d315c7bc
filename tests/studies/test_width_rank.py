"""The width study: errors between the floor and the bounds, against a solve written out by hand."""

import pytest
import torch

from ridgeformer.kernels import Exponential
from ridgeformer.studies.compiled_problem import TEMPERATURE, pose_with_condition_number
from ridgeformer.studies.width_rank import FEATURES, KAPPA, STUDY, SUPPORTS, make_page, measure


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
    posed = pose_with_condition_number("linear", SUPPORTS, FEATURES, KAPPA, "log", seed=7)
    values, Q = torch.linalg.eigh(posed.X @ posed.X.T)
    shrink = values / (values + posed.ridge)
    lost = (Q[:, :-6] * shrink[:-6]) @ (Q[:, :-6].T @ posed.y)
    assert row["kernel"] == pytest.approx(float(values[-7] / values[-1]), rel=1e-9)
    assert row["floor"] == pytest.approx(row["kernel"], rel=1e-9)
    assert row["error"] == pytest.approx(float(lost.norm() / posed.y.norm()), rel=1e-6)
    assert row["error"] <= row["best"]


def test_softmax_kernel_distance_written_out():
    row = measure("softmax", "pca", "log", 6, "float64", seed=7)
    posed = pose_with_condition_number("softmax", SUPPORTS, FEATURES, KAPPA, "log", seed=7)
    top = torch.linalg.svd(posed.X, full_matrices=False).Vh[:6]
    kernel = Exponential(TEMPERATURE)
    K = kernel(posed.X)
    gap = torch.linalg.matrix_norm(K - kernel(posed.X @ top.T), ord=2) / torch.linalg.matrix_norm(K, ord=2)
    assert row["kernel"] == pytest.approx(float(gap), rel=1e-9)
    assert row["floor"] is None


def test_the_page_counts_what_it_says():
    points = [p for p in STUDY.presets["quick"].points if p["width"] == 6 and p["dtype"] == "float64"]
    rows = [{**point, "seed": 0, **measure(**point, seed=1)} for point in points]
    nothing = {f"{name}_{end}": None for name in ("error", "kernel") for end in ("low", "high")}
    page = make_page(rows, [row | nothing for row in rows])
    above = sum(row["kernel"] > row["tail"] for row in rows if row["attention"] == "linear" and row["sketch"] != "pca")
    assert f"exceeded by {above} of 2 random sketches" in page.answer[1]
    assert "in every run" in page.answer[0]
    rows[0]["error"] = 9.0
    assert f"all but 1 of {len(rows)} runs" in make_page(rows, [row | nothing for row in rows]).answer[0]
