from dataclasses import replace

import numpy as np
import pytest

from ridgeformer.compiler.certificate.certificate import Certificate, TaskCheck, merge
from ridgeformer.core.words import percent_at_most


def finding(measured, bound, met=True):
    return TaskCheck("name", "what", "condition", np.array(measured, float), np.array(bound, float), met=met)


@pytest.mark.parametrize(
    ("measured", "bound", "met", "holds"),
    [
        ([1.0, 2.0], [1.0, 2.0], True, True),
        ([1.0, 2.1], [1.0, 2.0], True, False),
        ([np.nan, 1.0], [1.0, 2.0], True, False),
        ([1.0, 1.0], [np.nan, 2.0], True, False),
        ([1.0, 1.0], [np.inf, 2.0], True, False),
        ([0.0, 0.0], [1.0, 2.0], False, False),
        ([], [], True, False),
    ],
)
def test_only_what_is_finite_below_and_met_holds(measured, bound, met, holds):
    if measured:
        assert merge([[finding(measured, bound, met)]])[0][0].holds is holds
    else:
        with pytest.raises(ValueError):
            merge([[finding(measured, bound, met)]])


def test_the_tightest_point_over_tasks_is_shown():
    checks, curves = merge([[finding([0.1, 0.2], [1.0, 1.0])], [finding([0.3, 4.0], [1.0, 100.0])]])
    assert (checks[0].measured, checks[0].bound) == (0.3, 1.0)
    assert curves["name"].measured.shape == (2, 2)


def test_a_nan_is_the_tightest_point():
    assert np.isnan(merge([[finding([0.9, np.nan], [1.0, 1.0])]])[0][0].measured)


def test_nothing_checked_is_not_certified():
    one = np.ones((1, 1, 1))
    assert not Certificate("nothing", 0.01, (), {}, np.ones(1), np.ones(1), one, one, one).holds


def certificate(within, *failing, tolerance=0.01, advice=""):
    findings = [TaskCheck("accuracy", "what", "none", np.array([within]), np.array([tolerance]), kind="proved")]
    findings += [replace(finding([2.0], [1.0]), name=name) for name in failing]
    checks, curves = merge([findings])
    one = np.ones((1, 1, 1))
    return Certificate("subject", tolerance, checks, curves, np.ones(1), np.ones(1), one, one, one, advice)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (certificate(0.00795), "Proved within 0.8 % of exact ridge regression."),
        (certificate(0.0), "Proved within 0 % of exact ridge regression."),
        (
            certificate(0.001, "leakage"),
            "Proved within 0.1 % of exact ridge regression, but other checks fail: leakage.",
        ),
        (
            certificate(2.45, advice="run 14 more steps"),
            "Not shown to be accurate: proved only within 250 % of exact ridge regression; run 14 more steps.",
        ),
        (
            certificate(np.inf, "weights", advice="compile the model again"),
            "Not shown to be accurate: no distance from exact ridge regression could be proved; compile the model "
            "again. Other checks that fail: weights.",
        ),
    ],
)
def test_the_verdict_leads_with_what_is_proved(made, verdict):
    assert made.verdict == str(made).splitlines()[0] == made.as_dict()["verdict"] == verdict
    assert made.holds is (verdict.startswith("Proved") and "but" not in verdict)


@pytest.mark.parametrize("fraction", [1e-12, 3.14e-5, 0.0123, 0.1, 0.999, 1.0, 2.4401, 99.5, 12345.6, 7e9])
def test_a_percentage_is_never_rounded_down(fraction):
    shown = float(percent_at_most(fraction).removesuffix(" %").replace(",", "")) / 100
    assert fraction <= shown * (1 + 1e-12)
    assert shown <= max(1.1 * fraction, 1e-6)
