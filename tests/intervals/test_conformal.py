"""Conformal intervals: the closed forms are those of real refits, and coverage is what is promised."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.statistics import mean_interval
from ridgeformer.intervals import full_conformal, rows_needed

KERNEL = rf.Gaussian(temperature=0.5)


def task(n, q, seed, *, noise=0.3, outputs=0, heavy=False):
    generator = torch_generator(seed, "intervals")
    X = torch.rand(n + q, 2, generator=generator, dtype=torch.float64) * 2 - 1
    truth = torch.sin(3 * X[:, :1]) + X[:, 1:] ** 2
    truth = truth.repeat(1, max(outputs, 1)) * torch.arange(1.0, max(outputs, 1) + 1)
    normal = torch.randn(truth.shape, generator=generator, dtype=torch.float64)
    y = truth + noise * (normal**3 if heavy else normal)
    y = y if outputs else y[:, 0]
    return X[:n], y[:n], X[n:], y[n:]


def refit(X, y, Xq, ridge, left_out):
    """Predictions at the queries, and residuals at the rows left out, of the plain fit of the other rows."""
    rest = [i for i in range(len(X)) if i not in set(left_out)]
    K = np.exp(-((X[rest, None] - X[None, rest]) ** 2).sum(2) / (2 * KERNEL.temperature))
    alpha = np.linalg.solve(K + ridge * np.eye(len(rest)), y[rest])

    def predict(Z):
        return np.exp(-((Z[:, None] - X[None, rest]) ** 2).sum(2) / (2 * KERNEL.temperature)) @ alpha

    return predict(Xq), y[left_out] - predict(X[left_out])


def by_refits(X, y, Xq, ridge, level, folds):
    """The definition of jackknife+ and CV+, in plain NumPy."""
    n = len(X)
    low, high = np.empty((n, len(Xq))), np.empty((n, len(Xq)))
    for rows in folds:
        values, residuals = refit(X, y, Xq, ridge, list(rows))
        for row, residual in zip(rows, residuals, strict=True):
            low[row], high[row] = values - abs(residual), values + abs(residual)
    missed = round((1 - level) * 1000) * (n + 1)
    return np.sort(low, 0)[missed // 1000 - 1], np.sort(high, 0)[-(-(1000 * (n + 1) - missed) // 1000) - 1]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_jackknife_plus_is_that_of_n_refits(ridge, level):
    X, y, Xq, _ = task(40, 7, 0)
    interval = rf.solve(KERNEL, X, y, ridge).interval(Xq, level)
    low, high = by_refits(*(one.numpy() for one in (X, y, Xq)), ridge, level, [[i] for i in range(40)])
    np.testing.assert_allclose(interval.low, low, rtol=0, atol=1e-10)
    np.testing.assert_allclose(interval.high, high, rtol=0, atol=1e-10)


def test_cv_plus_is_that_of_one_refit_a_fold():
    X, y, Xq, _ = task(40, 7, 1)
    interval = rf.solve(KERNEL, X, y, 0.1).interval(Xq, 0.8, "cv+", folds=6, seed=3)
    folds = torch.randperm(40, generator=torch_generator(3, "folds")).tensor_split(6)
    low, high = by_refits(*(one.numpy() for one in (X, y, Xq)), 0.1, 0.8, [fold.tolist() for fold in folds])
    np.testing.assert_allclose(interval.low, low, rtol=0, atol=1e-10)
    np.testing.assert_allclose(interval.high, high, rtol=0, atol=1e-10)


def test_cv_plus_with_a_fold_a_row_is_jackknife_plus():
    X, y, Xq, _ = task(30, 5, 2)
    fit = rf.solve(KERNEL, X, y, 0.1)
    one, other = fit.interval(Xq, 0.8, "cv+", folds=30), fit.interval(Xq, 0.8)
    torch.testing.assert_close(one.low, other.low, rtol=0, atol=1e-11)
    torch.testing.assert_close(one.high, other.high, rtol=0, atol=1e-11)


def test_full_conformal_is_the_hull_of_the_candidates_it_keeps():
    """Every candidate of a fine grid is tried with a real fit of n + 1 rows."""
    X, y, Xq, _ = task(19, 3, 3)
    level, ridge = 0.8, 0.05
    interval = rf.solve(KERNEL, X, y, ridge).interval(Xq, level, "full")
    for j, query in enumerate(Xq.numpy()):
        rows = np.vstack([X.numpy(), query])
        K = np.exp(-((rows[:, None] - rows[None]) ** 2).sum(2) / (2 * KERNEL.temperature))
        R = np.linalg.inv(K + ridge * np.eye(20))
        low, high = float(interval.low[j]), float(interval.high[j])
        grid = np.linspace(low - 0.5 * (high - low), high + 0.5 * (high - low), 4001)
        targets = np.vstack([np.repeat(y.numpy()[:, None], len(grid), 1), grid])
        strange = np.abs((R @ targets) / np.diag(R)[:, None])
        kept = grid[(strange >= strange[-1]).sum(0) > 0.2 * 20]
        step = grid[1] - grid[0]
        assert kept.min() == pytest.approx(low, abs=1.01 * step)
        assert kept.max() == pytest.approx(high, abs=1.01 * step)


def test_full_conformal_survives_rows_that_outweigh_the_query():
    """A slope beyond 1 means that a row stays stranger than the query however far its target is."""
    n = 9
    one = torch.ones(n, dtype=torch.float64)
    for weight in (0.1, -0.1):
        interval = full_conformal(one[:1] * 0, one, 0.01 * one, weight * one[:, None], one[:1], 0.5)
        assert float(interval.low) < 0 < float(interval.high)
        assert float(interval.high) == float("inf")


LEAST = {"jackknife+": 0.6, "cv+": 0.4, "full": 0.8, "split": 0.8, "normalised": 0.8}
"""Coverage that is proved at level 0.8."""


@pytest.mark.parametrize("method", LEAST)
@pytest.mark.parametrize("heavy", [False, True])
def test_coverage_is_at_the_level_and_within_the_guarantee(method, heavy):
    """The mean over draws of rows, noise and queries, with Student's t over the draws."""
    covered = []
    for seed in range(40):
        X, y, Xq, yq = task(60, 60, seed, heavy=heavy)
        given = {}
        if method in ("split", "normalised"):
            given["calibration"] = (X[30:], y[30:])
            X, y = X[:30], y[:30]
        fit = rf.solve(KERNEL, X, y, 0.3, algorithm="direct")
        covered.append(float(fit.interval(Xq, 0.8, method, **given).covers(yq).double().mean()))
    low, high = mean_interval(covered, level=0.999)
    assert high >= LEAST[method]
    assert low < 0.85  # not bought by width
    assert high > 0.78


def test_normalised_intervals_follow_the_noise():
    generator = torch_generator(0, "spread")
    X = torch.rand(600, 1, generator=generator, dtype=torch.float64)
    y = torch.randn(600, generator=generator, dtype=torch.float64) * (0.05 + X[:, 0])
    fit = rf.solve(KERNEL, X[:300], y[:300], 1.0)
    query = torch.tensor([[0.05], [0.95]], dtype=torch.float64)
    calibration = (X[300:], y[300:])
    plain, local = (fit.interval(query, 0.9, m, calibration=calibration).width for m in ("split", "normalised"))
    assert float(plain[0]) == pytest.approx(float(plain[1]))
    assert float(local[1]) > 3 * float(local[0])


def test_several_outputs_are_those_of_each():
    X, y, Xq, yq = task(50, 4, 5, outputs=3)
    fit = rf.solve(KERNEL, X, y, 0.1)
    for method in ("jackknife+", "cv+", "full"):
        together = fit.interval(Xq, 0.8, method)
        assert together.low.shape == (4, 3)
        assert together.covers(yq).shape == (4, 3)
        for c in range(3):
            alone = rf.solve(KERNEL, X, y[:, c], 0.1).interval(Xq, 0.8, method)
            torch.testing.assert_close(together.high[:, c], alone.high, rtol=0, atol=1e-9)


def class_task(n, q, seed):
    generator = torch_generator(seed, "classes")
    labels = (torch.rand(n + q, generator=generator) * torch.tensor(3)).long().clamp_max(2)
    labels[torch.rand(n + q, generator=generator) < 0.5] = 0  # unequal classes
    X = torch.randn(n + q, 2, generator=generator, dtype=torch.float64) + 1.3 * torch.eye(3, 2).double()[labels]
    targets = 2 * torch.nn.functional.one_hot(labels, 3).double() - 1
    return X[:n], targets[:n], X[n:], labels[n:]


def test_prediction_sets_are_those_of_n_refits():
    X, targets, Xq, _ = class_task(40, 9, 0)
    found = rf.solve(KERNEL, X, targets, 0.5).prediction_set(Xq, 0.8).member
    below = np.zeros((9, 3))
    for i in range(40):
        values, residual = refit(X.numpy(), targets.numpy(), Xq.numpy(), 0.5, [i])
        label = int(targets[i].argmax())
        below += values < (targets[i].numpy() - residual[0])[label]
    np.testing.assert_array_equal(found.numpy(), below < 0.8 * 41 - 1e-9)


@pytest.mark.parametrize("per_class", [False, True])
def test_sets_cover_the_true_class(per_class):
    covered, rare = [], []
    for seed in range(30):
        X, targets, Xq, labels = class_task(120, 60, seed)
        fit = rf.solve(KERNEL, X, targets, 1.0, algorithm="direct")
        held = fit.prediction_set(Xq, 0.8, per_class=per_class).covers(labels).double()
        covered.append(float(held.mean()))
        rare.append(float(held[labels == 2].mean()))
    low, high = mean_interval(covered, level=0.999)
    assert low < 0.85
    assert high > 0.78
    assert (mean_interval(rare)[1] < 0.8) is not per_class  # on average, at the expense of the rare class


# -- bad input ---------------------------------------------------------------------------------------


def test_too_few_rows_say_how_many_are_needed():
    X, y, Xq, _ = task(20, 2, 0)
    fit = rf.solve(KERNEL, X, y, 0.1)
    assert rows_needed(0.95) == 19
    fit.interval(Xq, 0.95)
    with pytest.raises(InputError, match=r"20 training rows are too few for level 0.99; at least 99 were expected"):
        fit.interval(Xq, 0.99)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, float("nan"), True])
@pytest.mark.usefixtures("unchecked")
def test_levels_outside_0_and_1_are_refused(level):
    X, y, Xq, _ = task(20, 2, 0)
    with pytest.raises(InputError, match="a number between 0 and 1"):
        rf.solve(KERNEL, X, y, 0.1).interval(Xq, level)


def test_what_a_method_needs_is_asked_for():
    X, y, Xq, yq = task(30, 5, 0)
    fit = rf.solve(KERNEL, X, y, 0.1)
    with pytest.raises(InputError, match="needs calibration"):
        fit.interval(Xq, 0.8, "split")
    with pytest.raises(InputError, match="takes none"):
        fit.interval(Xq, 0.8, "full", calibration=(Xq, yq))
    with pytest.raises(InputError, match="jackknife"):
        fit.interval(Xq, 0.8, "bootstrap")
    with pytest.raises(InputError, match="folds is 31"):
        fit.interval(Xq, 0.8, "cv+", folds=31)
    with pytest.raises(InputError, match="one output"):
        fit.prediction_set(Xq)
    with pytest.raises(ShapeError, match="one target a query"):
        fit.interval(Xq, 0.8).covers(yq[:2])


def test_a_fit_that_is_not_exact_is_refused():
    X, y, Xq, _ = task(60, 2, 0)
    fit = rf.solve(KERNEL, X, y, 1e-6, algorithm=rf.ConjugateGradients(steps=2))
    with pytest.raises(InputError, match="leave-one-out needs the exact fit"):
        fit.interval(Xq)
    with pytest.raises(InputError, match="leave-one-out needs the exact fit"):
        _ = fit.leave_one_out


def test_the_words_name_method_width_and_guarantee():
    X, y, Xq, _ = task(30, 5, 0)
    said = str(rf.solve(KERNEL, X, y, 0.1).interval(Xq, 0.9))
    assert all(word in said for word in ("jackknife+", "at least 0.8", "exchangeable"))


def test_duplicates_are_said_to_shield_each_other():
    X, y, Xq, _ = task(30, 5, 0)
    single = rf.solve(KERNEL, X, y, 0.1).interval(Xq, 0.8)
    assert single.duplicates == 0
    assert "shield" not in str(single)
    twice = rf.solve(KERNEL, torch.cat([X, X]), torch.cat([y, y]), 0.1).interval(Xq, 0.8)
    assert twice.duplicates == 30
    assert "duplicates shield each other" in str(twice)
    assert float(twice.width.mean()) < float(single.width.mean())  # and they are too narrow


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_queries_and_calibration_rows_that_are_no_numbers_are_refused(bad):
    X, y, Xq, _ = task(30, 5, 0)
    fit = rf.solve(KERNEL, X, y, 0.1)
    broken = Xq.clone()
    broken[0, 0] = bad
    with pytest.raises(InputError, match="NaN or infinite"):
        fit.interval(broken, 0.8)
    with pytest.raises(InputError, match="NaN or infinite"):
        fit.posterior(broken)
    with pytest.raises(InputError, match="NaN or infinite"):
        fit.interval(Xq, 0.8, "split", calibration=(X, y * bad))
    with pytest.raises(ShapeError, match="features"):
        fit.interval(Xq[:, :1], 0.8)


def test_too_few_calibration_rows_say_how_many_are_needed():
    X, y, Xq, _ = task(30, 5, 0)
    with pytest.raises(InputError, match=r"5 calibration rows are too few for level 0.9; at least 9"):
        rf.solve(KERNEL, X[5:], y[5:], 0.1).interval(Xq, 0.9, "split", calibration=(X[:5], y[:5]))


def test_a_class_with_too_few_rows_is_named():
    X, targets, Xq, _ = class_task(40, 5, 0)
    with pytest.raises(InputError, match=r"training rows of class \d are too few for level 0.95"):
        rf.solve(KERNEL, X, targets, 0.5).prediction_set(Xq, 0.95, per_class=True)


def test_mapie_agrees():
    """MAPIE refits for every row; its quantiles are NumPy's 'higher' and 'lower' ones, the same order statistics."""
    from mapie.regression import CrossConformalRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import LeaveOneOut

    X, y, Xq, _ = task(59, 12, 8)
    theirs = CrossConformalRegressor(
        KernelRidge(kernel="rbf", gamma=1 / (2 * KERNEL.temperature), alpha=0.1), 0.8, cv=LeaveOneOut(), method="plus"
    ).fit_conformalize(X.numpy(), y.numpy())
    _, ends = theirs.predict_interval(Xq.numpy())
    ours = rf.solve(KERNEL, X, y, 0.1).interval(Xq, 0.8)
    np.testing.assert_allclose(ours.low, ends[:, 0, 0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.high, ends[:, 1, 0], rtol=0, atol=1e-10)
