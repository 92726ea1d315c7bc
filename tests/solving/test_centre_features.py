"""Leave-one-out, influences and intervals of a fit on centres, against refits."""

import pytest
import torch

from ridgeformer import errors, influence, intervals
from ridgeformer.algorithms import Centres
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving import centre_features, centres, plan, solve
from ridgeformer.solving import fit as fit_module
from tests.solving.solver_case import problem

N, KERNEL, RIDGE = 80, Gaussian(0.7), 0.3


@pytest.fixture(scope="module")
def fitted():
    X, y = problem(n=N, d=3, outputs=2)
    return solve(KERNEL, X, y, RIDGE, algorithm=Centres(count=12))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(centre_features, "BLOCK_ENTRIES", 60)  # 20 rows or 3 queries at a time


def refit(fit, keep, Xq, centred=False):
    """Predictions at queries of the normal equations on the same centres and fewer targets."""
    X, y = fit.X[keep], fit.y.reshape(N, -1)[keep]
    mean = y.mean(0) if centred else torch.zeros(y.shape[1], dtype=y.dtype)
    Z = fit.X[fit.centres]
    K_c, K_cc = KERNEL(X, Z), KERNEL(Z)
    b = torch.linalg.solve(K_c.T @ K_c + RIDGE * K_cc, K_c.T @ (y - mean))
    return KERNEL(Xq, Z) @ b + mean


def without(*rows):
    keep = torch.ones(N, dtype=torch.bool)
    keep[list(rows)] = False
    return keep


def test_leave_one_out_is_that_of_refits(fitted):
    refits = torch.stack([fitted.y[i] - refit(fitted, without(i), fitted.X[i : i + 1])[0] for i in range(N)])
    torch.testing.assert_close(fitted.leave_one_out, refits, rtol=1e-7, atol=1e-9)
    assert int(fitted.centres[0]) in range(N)  # centres are among the rows that were left out
    residual = fitted.y - refit(fitted, without(), fitted.X)
    torch.testing.assert_close(fitted.leverage, 1 - residual[:, 0] / refits[:, 0], rtol=1e-5, atol=1e-8)


def test_influences_are_those_of_refits(fitted):
    Xq = problem(n=7, d=3, seed=5)[0]
    whole = refit(fitted, without(), Xq)
    found = influence.influence(fitted, Xq)
    torch.testing.assert_close(found.predictions, whole, rtol=1e-7, atol=1e-9)
    expected = torch.stack([whole - refit(fitted, without(i), Xq) for i in range(N)])
    torch.testing.assert_close(influence.leave_one_out(fitted, Xq), expected, rtol=1e-6, atol=1e-9)
    group = [3, int(fitted.centres[1]), 41, 79]
    torch.testing.assert_close(
        influence.leave_group_out(fitted, Xq, group), whole - refit(fitted, without(*group), Xq), rtol=1e-6, atol=1e-9
    )
    new = fitted.y.clone()
    new[5] += 1
    changed = solve(KERNEL, fitted.X, new, RIDGE, algorithm=Centres(count=12))
    assert torch.equal(changed.centres, fitted.centres)
    torch.testing.assert_close(
        influence.label_change(fitted, Xq, new)[5], changed.predict(Xq) - fitted.predict(Xq), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("centred", [False, True])
def test_jackknife_plus_is_that_of_refits(fitted, centred):
    from ridgeformer.solving.uncertainty import fit_interval

    Xq = problem(n=7, d=3, seed=5)[0]
    fit = fitted
    if centred:
        y = fitted.y - fitted.y.mean(0)
        fit = solve(KERNEL, fitted.X, y, RIDGE, algorithm=Centres(count=12))
    found = fit_interval(fit, Xq, 0.8, centred=centred)
    left_out = torch.stack([refit(fit, without(i), Xq, centred) for i in range(N)])
    residuals = torch.stack([fit.y[i] - refit(fit, without(i), fit.X[i : i + 1], centred)[0] for i in range(N)])
    others = without(*fit.centres.tolist())
    for c in range(2):
        expected = intervals.jackknife_plus(residuals[others, c], left_out[others, :, c], 0.8)
        torch.testing.assert_close(found.low[:, c], expected.low, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.high[:, c], expected.high, rtol=1e-6, atol=1e-8)
    assert found.guarantee.startswith("covers a new target with probability at least 0.6")
    assert "not proved here, as the centres were chosen by a look at all rows" in found.guarantee


def test_centres_drawn_at_random_keep_the_guarantee(fitted, monkeypatch):
    for module in (centres, fit_module, plan):
        monkeypatch.setattr(module, "FACTORISED", 0)
    drawn = solve(KERNEL, fitted.X, fitted.y, RIDGE, algorithm=Centres(count=12))
    assert "not proved" not in drawn.interval(fitted.X[:2], 0.8).guarantee
    assert "not proved" in drawn.interval(fitted.X[:2], 0.987).guarantee  # 76 rows are needed, 68 are no centres


def test_split_intervals_are_the_prediction_and_a_quantile(fitted):
    Xq, (Xc, yc) = problem(n=4, d=3, seed=5)[0], problem(n=30, d=3, outputs=2, seed=6)
    found = fitted.interval(Xq, 0.8, "split", calibration=(Xc, yc))
    half = (yc - fitted.predict(Xc)).abs().kthvalue(25, 0).values  # ceil(0.8 * 31)
    torch.testing.assert_close(found.high, fitted.predict(Xq) + half)


@pytest.mark.parametrize("method", ["cv+", "full", "normalised"])
def test_other_intervals_are_refused(fitted, method):
    given = {"calibration": (fitted.X, fitted.y)} if method == "normalised" else {}
    with pytest.raises(errors.InputError, match=r"for one on centres take 'jackknife\+'"):
        fitted.interval(fitted.X[:2], method=method, **given)


def test_an_exact_fit_has_no_centres(fitted):
    with pytest.raises(errors.InputError, match="one on centres is 'subset'"):
        _ = solve(KERNEL, fitted.X, fitted.y, RIDGE).on_centres


def test_as_many_centres_as_rows_have_the_influences_of_the_exact_fit(monkeypatch):
    for module in (centres, plan):
        monkeypatch.setattr(module, "FACTORISED", 0)  # the pivoted factor would stop earlier
    X, y = problem(n=30, d=3, outputs=1)
    all_of_them = solve(Exponential(0.5), X, y[:, 0], 0.5, algorithm=Centres(count=30))
    exact = solve(Exponential(0.5), X, y[:, 0], 0.5, algorithm="direct")
    torch.testing.assert_close(all_of_them.leave_one_out, exact.leave_one_out, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(
        influence.leave_one_out(all_of_them, X[:3]), influence.leave_one_out(exact, X[:3]), rtol=1e-5, atol=1e-8
    )
    assert all_of_them.most_likely_scale == pytest.approx(exact.most_likely_scale, rel=1e-6)
