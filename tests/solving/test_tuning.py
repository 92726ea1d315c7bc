"""The rule of tuning: exact shortcuts against refits, the same budget for all, and the fit of every command."""

import numpy as np
import pytest
import torch

from ridgeformer import datasets
from ridgeformer.auditing import Settings
from ridgeformer.auditing.field import OWN, run_field
from ridgeformer.auditing.rivals import out_of_fold
from ridgeformer.core.errors import LogitRangeError
from ridgeformer.datasets import Split
from ridgeformer.datasets.split import number_folds
from ridgeformer.estimators import AttentionKernelClassifier, AttentionKernelRidge
from ridgeformer.kernels import Exponential
from ridgeformer.solving.tuning import Axis, choose_attention, kernel_out_of_fold, tune


def test_out_of_fold_predictions_are_those_of_refits():
    data = Split.of(datasets.load("diabetes"), max_rows=80)
    folds = number_folds(data.dataset, data.rows, 4, 0)
    kernel = Exponential(20.0)
    choices = [{"ridge": 0.5}, {"ridge": 5.0}]
    fast = kernel_out_of_fold(kernel(data.X), data, folds)([0.5, 5.0])
    slow = out_of_fold(data, folds, lambda ridge: AttentionKernelRidge(kernel, ridge=ridge), choices)
    np.testing.assert_allclose(fast, slow, rtol=1e-8)


def test_with_many_rows_one_third_judges():
    data = Split.of(datasets.load("wine"), max_rows=90)
    folds = np.where(number_folds(data.dataset, data.rows, 3, 0) == 2, 0, -1)
    kernel = Exponential(20.0)
    (fast,) = kernel_out_of_fold(kernel(data.X), data, folds)([0.5])
    (slow,) = out_of_fold(data, folds, lambda: AttentionKernelClassifier(kernel, ridge=0.5), [{}])
    np.testing.assert_allclose(fast, slow, rtol=1e-8, atol=1e-9)
    assert np.isnan(fast[folds < 0]).all()
    assert np.isfinite(fast[folds == 0]).all()


@pytest.fixture(scope="module")
def valley():
    """A loss that is least at a = 1/16 and b = 9."""
    data = Split.of(datasets.load("diabetes"), max_rows=60)
    truth = (data.y + data.mean).numpy()

    def predict(choices):
        return [truth + abs(np.log2(choice["a"]) + 4) + abs(choice["b"] - 9) for choice in choices]

    return data, predict


def test_a_grid_is_widened_until_its_choice_is_inside(valley):
    data, predict = valley
    found = tune(data, {"a": Axis(1.0, 0.125), "b": Axis(2.0, 8.0, whole=True)}, predict)
    assert found.chosen["a"] == pytest.approx(2.0**-4, rel=0.3)
    assert found.chosen["b"] == pytest.approx(9, abs=1)
    assert not found.on_edge
    stuck = tune(data, {"a": Axis(1.0, 0.5, least=0.25), "b": Axis(9.0, 9.0)}, predict)
    assert stuck.chosen == {"a": 0.25, "b": 9.0}
    far = tune(data, {"a": Axis(1024.0, 512.0), "b": Axis(9.0, 9.0)}, predict, tries=6)
    assert far.on_edge


def test_a_grid_is_refined_where_its_choice_is_inside(valley):
    data, predict = valley
    found = tune(data, {"a": Axis(1.0, 2.0**-9), "b": Axis(9.0, 9.0)}, predict)
    assert found.chosen["a"] == pytest.approx(2.0**-4, rel=0.1)


@pytest.mark.parametrize("tries", [6, 9, 24])
def test_the_budget_is_kept_by_any_number_of_settings(valley, tries):
    data, predict = valley
    for count in (1, 2, 3):
        axes = {"a": Axis(1.0, 2.0**-8), "b": Axis(1.0, 100.0), "c": Axis(1.0, 10.0)}
        asked = []

        def counted(choices, asked=asked):
            asked.extend(choices)
            return predict([{"b": 9.0, **choice} for choice in choices])

        found = tune(data, dict(list(axes.items())[:count]), counted, tries)
        assert found.tried == len(asked) <= max(tries, 8)
        assert len({tuple(choice.items()) for choice in asked}) == len(asked)


def test_settings_that_cannot_be_used_are_passed_over(valley):
    data, predict = valley

    def some(choices):
        return [one if choice["a"] > 0.2 else None for choice, one in zip(choices, predict(choices), strict=True)]

    assert tune(data, {"a": Axis(1.0, 0.01), "b": Axis(9.0, 9.0)}, some).chosen["a"] > 0.2
    with pytest.raises(LogitRangeError):
        tune(data, {"a": Axis(1.0, 0.01)}, lambda choices: [None] * len(choices))


def test_every_command_takes_the_fit_of_the_audit():
    split = Split.of(datasets.load("wine"))
    _, certified = run_field([split], Settings(methods=(OWN,), few_rows=0))
    kernel, ridge = choose_attention(split)
    assert (vars(kernel), ridge) == (vars(certified.fit.kernel), certified.fit.ridge)


def test_held_out_rows_have_no_say():
    split = Split.of(datasets.load("wine"))
    far = Split(**{**vars(split), "Xt": 1e3 * torch.ones_like(split.Xt)})
    (one, ridge), (other, same) = choose_attention(far), choose_attention(split)
    assert (vars(one), ridge) == (vars(other), same)
