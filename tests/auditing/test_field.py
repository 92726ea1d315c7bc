"""The field: exact shortcuts against refits, one rule for all, and a certificate that covers the truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.certified import safe_decisions
from ridgeformer.auditing.drivers import examine_drivers
from ridgeformer.auditing.field import METHODS, run_field
from ridgeformer.auditing.metrics import measure
from ridgeformer.auditing.rivals import make_rivals, out_of_fold
from ridgeformer.core.errors import InputError
from ridgeformer.core.statistics import mean_interval, proportion_interval
from ridgeformer.datasets import Dataset, Split
from ridgeformer.solving.tuning import class_odds, make_folds

KERNELS = Settings(methods=("attention", "constant", "smoother"), few_rows=0)


@pytest.fixture(scope="module")
def diabetes():
    data = Split.of(datasets.load("diabetes"))
    return data, *run_field([data], KERNELS)


def test_the_bound_covers_the_distance_to_an_independent_solution(diabetes):
    data, _, certified = diabetes
    kernel = certified.fit.kernel
    A = kernel(data.X) + certified.fit.ridge * torch.eye(len(data.X), dtype=torch.float64)
    values, Q = torch.linalg.eigh(A)
    exact = kernel(data.Xt, data.X) @ (Q @ ((Q.T @ data.y) / values[:, None]))
    assert float((certified.fit.predict(data.Xt) - exact).abs().max()) <= certified.worst_bound
    assert certified.safe_decisions is None


def test_decisions_are_counted_safe_only_while_the_bound_is_below_the_margin():
    outputs = torch.tensor([[1.0, 0.0], [0.5, 0.4]])
    found = [safe_decisions(outputs, torch.full((2, 2), bound)) for bound in (0.01, 0.06, 0.6)]
    assert found == [1.0, 0.5, 0.0]


def test_scores_are_means_over_rows_and_differences_are_paired(diabetes):
    _, field, _ = diabetes
    for one in field.scored:
        assert one.test_score == pytest.approx(one.row_scores.mean())
        assert one.interval == mean_interval(one.row_scores)
    own, other = field.own, field.of("smoother")
    found = field.compare(own, other)
    assert found.lead == pytest.approx(own.test_score - other.test_score)
    assert found.level == pytest.approx(1 - 0.05 / 2)  # two comparisons
    assert {one.key for one in field.learnt} == {"attention", "smoother"}


def test_the_interval_of_an_accuracy_is_exact():
    wine = Split.of(datasets.load("wine"))
    field, certified = run_field([wine], KERNELS)
    own = field.own
    assert own.interval == proportion_interval(int(own.row_scores.sum()), len(own.row_scores))
    assert certified.safe_decisions == 1.0


def test_no_method_loses_because_its_grid_is_too_short():
    """Nadaraya-Watson scored 96.5 % on digits with a grid that ended at 1/16, where its choice sat on the edge."""
    digits = Split.of(datasets.load("digits"), max_rows=900)
    found, best = (
        run_field([digits], replace(KERNELS, temperatures=grid))[0].of("smoother")
        for grid in ((1.0, 0.0625), (0.0625, 0.0625 / 64))
    )
    assert found.choices[0]["temperature"] < 1 / 60
    assert found.test_score == pytest.approx(best.test_score, abs=0.012)


def test_every_method_has_the_same_budget():
    g = np.random.default_rng(0)
    X = g.standard_normal((120, 3))
    data = Split.of(Dataset("waves", X, np.sin(2 * X[:, 0]) + X[:, 1]))
    field, _ = run_field([data], Settings(trees=4, tries=12))
    tried = {one.key: one.tried for one in field.scored}
    assert "centres" not in tried  # every method has all rows here
    assert tried.pop("constant") == 1
    assert max(tried.values()) == 12
    assert min(tried.values()) >= 8  # k of nearest neighbours is a whole number: few are left between two


def test_boosting_stopped_early_is_boosting_with_fewer_iterations():
    wine = Split.of(datasets.load("wine"), max_rows=60)
    axes, make = make_rivals(wine, Settings(trees=8))["boosting"]
    folds = make_folds(wine, 0)
    choices = [{"rate": 0.1, "leaves": 4.0, "iterations": float(k)} for k in (3, 7, 9)]
    together = out_of_fold(wine, folds, make, choices)
    for choice, found in zip(choices, together, strict=True):
        np.testing.assert_allclose(found, out_of_fold(wine, folds, make, [choice])[0])
    assert set(axes) == set(choices[0])


def test_imbalanced_classes_count_alike():
    y = np.array([0] * 90 + [1] * 10)
    X = np.random.default_rng(0).standard_normal((100, 2)) + 3.0 * y[:, None]
    data = Split.of(Dataset("rare", X, y, "classification", ("no", "yes")))
    assert class_odds(data).tolist() == pytest.approx([100 / 2 / 90, 5.0], rel=0.1)
    field, _ = run_field([data], KERNELS)
    assert field.balanced
    assert field.of("constant").test_score == pytest.approx(0.5)
    even = Split.of(datasets.load("wine"))
    assert (class_odds(even) == 1).all()


def test_metrics_are_scikit_learns():
    wine = datasets.load("wine")
    split = Split.of(wine)
    field, _ = run_field([split], KERNELS)
    found = measure(field, field.own, wine.classes)
    assert found.accuracy == pytest.approx(field.own.test_score)
    assert found.auc == pytest.approx(roc_auc_score(wine.y[split.rows_t], field.own.outputs, multi_class="ovr"))
    assert sum(map(sum, found.confusion)) == len(split.rows_t)
    assert found.classes[0].recall == found.confusion[0][0] / sum(found.confusion[0])
    assert 0 <= found.calibration_error < 0.5
    assert sum(rows for _, _, rows in found.calibration) == len(split.rows_t)


def test_the_column_that_matters_is_found(tmp_path):
    X = np.random.default_rng(0).standard_normal((150, 3))
    data = Split.of(Dataset("one", X, 2 * X[:, 1], features=("a", "b", "c")))
    _, certified = run_field([data], KERNELS)
    found = examine_drivers(data, certified, KERNELS)
    first, *rest = found.drivers
    assert first.name == "b"
    assert first.low > 1
    assert all(abs(one.loss) < 0.1 for one in rest)
    effect = found.dependence[0]
    slope = np.polyfit(effect.values, effect.effect, 1)[0]
    assert slope == pytest.approx(2, abs=0.2)
    with pytest.raises(InputError, match="pixels"):
        examine_drivers(Split.of(datasets.load("digits"), max_rows=60), certified, KERNELS)


def test_every_method_of_the_settings_is_known():
    assert set(Settings().methods) == set(METHODS)
