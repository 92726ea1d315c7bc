"""Studies of `identify`: nulls are what they are called, answers are counted as they are stated."""

import numpy as np
import pytest
import torch

from ridgeformer.identification import FAMILIES, separating
from ridgeformer.studies import identified_models, null_learners, unlisted_algorithms
from ridgeformer.studies.identified_models import measure_null
from ridgeformer.studies.null_learners import KINDS, make_null


@pytest.fixture(scope="module")
def groups():
    return separating(3, tasks=12, seed=4).groups


def null(kind, seed=5):
    return make_null(kind, 3, seed, lambda route: identified_models._compiled(route, 3, seed))


def test_kinds_of_the_report_were_not_used_for_calibration():
    assert not set(KINDS["held out"]) & set(KINDS["calibration"])
    assert set(KINDS["relatives"]) <= set(KINDS["calibration"])
    made = {kind for kinds in KINDS.values() for kind in kinds if not kind.startswith("unlisted")}
    assert made - {"averaged descent iterates", "descent with growing momentum"} == set(null_learners._MAKERS)
    starts = identified_models.SPLITS
    assert starts["held out"] - starts["calibration"] >= 1000


@pytest.mark.parametrize("kind", sorted({kind for kinds in KINDS.values() for kind in kinds}))
def test_every_null_predicts_and_repeats_itself(kind, groups):
    for group in groups:
        f = null(kind).model(group.X, group.y, group.Xq)
        assert f.shape == group.Xq.shape[:2]
        assert torch.isfinite(f).all()
        assert torch.allclose(f, null(kind).model(group.X, group.y, group.Xq), rtol=1e-8)


def test_conjugate_residuals_and_partial_least_squares_end_at_least_squares(groups):
    group = groups[1]
    exact = unlisted_algorithms.ridge(1e-9)(group.X, group.y, group.Xq)
    assert torch.allclose(unlisted_algorithms.conjugate_residuals(0.0, 3)(group.X, group.y, group.Xq), exact, atol=1e-5)
    one = torch.ones(*group.X.shape[:2], 1, dtype=torch.float64), torch.ones(*group.Xq.shape[:2], 1).double()
    shifted = unlisted_algorithms.ridge(1e-9)(
        torch.cat([group.X, one[0]], -1), group.y, torch.cat([group.Xq, one[1]], -1)
    )
    found = unlisted_algorithms.partial_least_squares(3)(group.X, group.y, group.Xq)
    assert torch.allclose(found, shifted, atol=1e-5)


def test_averaged_iterates_are_the_mean_of_descents(groups):
    group, size = groups[0], 0.01
    w, total = np.zeros(3), np.zeros(3)
    X, y = group.X[0].numpy(), group.y[0].numpy()
    for _ in range(4):
        w = w + size * X.T @ (y - X @ w)
        total += w / 4
    found = unlisted_algorithms.fixed_polynomial(size, 4, growing=False)(group.X, group.y, group.Xq)
    assert np.allclose(found[0].numpy(), group.Xq[0].numpy() @ total)


def test_a_scaled_ridge_gets_no_answer_and_what_is_counted_is_written_down(monkeypatch):
    few = {name: FAMILIES[name] for name in ("ridge", "cg", "ols", "mean")}
    monkeypatch.setattr(identified_models, "FAMILIES", few)
    row = measure_null(kind="ridge times 1.25", features=3, noise=0.0, split="calibration", seed=1)
    assert row["outcome"] == "abstains"
    assert row["distance"] is None
    assert {"sim_e_false", "sim_w_false", "resolution", "reason"} <= set(row)
