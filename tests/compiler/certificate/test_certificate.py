import numpy as np
import pytest

from ridgeformer.compiler.certificate.certificate import Certificate, Finding, merge


def finding(measured, bound, met=True):
    return Finding("name", "what", "condition", np.array(measured, float), np.array(bound, float), met=met)


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
    empty = Certificate("nothing", (), {}, np.ones(1), np.ones(1), np.ones((1, 1, 1)))
    assert not empty.holds
    assert "nothing could be checked" in str(empty)
