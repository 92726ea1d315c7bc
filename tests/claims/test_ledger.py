"""Every record agrees with what its check finds, and would be caught if it did not."""

import math
from dataclasses import replace

import pytest
from findings import BY_ID, finding

from ridgeformer.claims import CLAIMS, NORMAL_CASES, Evidence, Figure, Trial, Verdict, judge, run_claims
from ridgeformer.claims.linearised import l3_row_normalisation, l16_taylor
from ridgeformer.claims.route_b import b4_preconditioning
from ridgeformer.claims.search import ROUND_OFF

LOOSE = {b4_preconditioning.SLUIS.words, l3_row_normalisation.UPPER.words, l16_taylor.REMAINDER.words}
"""Bounds that are proved and not attained."""

IDS = [claim.id for claim in CLAIMS]
CHECKED = [claim.id for claim in CLAIMS if claim.verdict is not Verdict.PENDING]


def test_the_ledger_has_every_claim_once():
    expected = [f"{letter}{n}" for letter, count in (("W", 8), ("A", 8), ("B", 4), ("L", 16), ("I", 3))
                for n in range(1, count + 1)]  # fmt: skip
    assert expected == IDS


@pytest.mark.parametrize("name", IDS)
def test_the_record_agrees_with_the_evidence(name):
    assert finding(name).problems == ()


@pytest.mark.parametrize("name", IDS)
def test_flipping_the_recorded_verdict_is_caught(name):
    found = finding(name)
    for verdict in set(Verdict) - {found.claim.verdict}:
        assert not judge(replace(found.claim, verdict=verdict), found.evidence).agrees, verdict


@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_figure_is_caught(name):
    evidence = finding(name).evidence
    for place, figure in enumerate(evidence.figures):
        if figure.shown:
            moved = replace(figure, value=figure.value * 1.2 + 1)
            figures = (*evidence.figures[:place], moved, *evidence.figures[place + 1 :])
            assert not judge(BY_ID[name], replace(evidence, figures=figures)).agrees, figure.name


@pytest.mark.parametrize("name", CHECKED)
def test_bounds_that_hold_are_unbroken_and_approached(name):
    """A bound that nothing comes near could hide a mistake in its search; the exceptions are named."""
    evidence = finding(name).evidence
    held = evidence.corrected + (evidence.stated if finding(name).claim.verdict is Verdict.TRUE else ())
    for trial in held:
        assert trial.holds
        assert not trial.worst > 1 + ROUND_OFF
        if trial.seed is not None:
            assert trial.cases >= NORMAL_CASES
            assert trial.worst > 0.9 or trial.statement in LOOSE, trial


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_not_true_is_seen_to_fail(name):
    found = finding(name)
    if found.claim.verdict in (Verdict.AMENDED, Verdict.FALSE):
        assert any(trial.violations > 0 for trial in found.evidence.stated)


@pytest.mark.parametrize("name", CHECKED)
def test_figures_are_numbers_and_plots_can_be_drawn(name):
    evidence = finding(name).evidence
    assert all(math.isfinite(figure.value) for figure in (*evidence.figures, *evidence.readings))
    assert evidence.figures or evidence.readings
    for curve in evidence.plot.curves if evidence.plot else ():
        assert len(curve.x) == len(curve.y) > 1
        assert all(map(math.isfinite, (*curve.x, *curve.y)))
        assert not (evidence.plot.log_x and min(curve.x) <= 0)
        assert not (evidence.plot.log_y and min(curve.y) <= 0)


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_records_are_complete(claim):
    assert claim.title
    assert claim.stated
    assert claim.formula
    assert claim.source
    if claim.verdict in (Verdict.AMENDED, Verdict.FALSE):
        assert claim.corrected
    assert bool(claim.pending) == (claim.verdict is Verdict.PENDING)


def test_a_check_that_supports_nothing_is_a_problem():
    broken = Evidence(stated=(Trial("A", 5, 5),), corrected=(Trial("B", 5, 1),), relation="amends")
    claim = replace(BY_ID["W2"], check=lambda cases: broken)
    (found,) = run_claims([claim])
    assert found.outcome is None
    assert "the correction fails: B" in found.problems


def test_a_claim_without_evidence_cannot_pass_as_checked():
    assert not judge(BY_ID["W1"], None).agrees
    assert not judge(replace(BY_ID["W1"], verdict=Verdict.PENDING), Evidence(figures=(Figure("x", 1.0),))).agrees
