"""Every record agrees with what its check finds, and would be caught if it did not."""

import math
from dataclasses import replace

import pytest

from ridgeformer.claims import (
    CLAIMS,
    NORMAL_CASES,
    Evidence,
    Figure,
    Origin,
    Trial,
    Verdict,
    judge,
    run_claims,
)
from ridgeformer.claims.checks import ROUND_OFF
from ridgeformer.claims.linearised import functions, spectra
from ridgeformer.claims.route_b import rates
from tests.claims.findings import BY_ID, finding

LOOSE = {rates._b4["B4 Jacobi"].words, spectra._l3["L3 upper"].words, functions._l16_remainder.words}
"""Bounds that are proved and not attained."""


def tried(evidence):
    return sum(trial.cases for trial in (*evidence.stated, *evidence.corrected))


IDS = [claim.id for claim in CLAIMS]
CHECKED = [claim.id for claim in CLAIMS if claim.verdict is not Verdict.PENDING]


def test_the_ledger_has_every_claim_once():
    expected = [f"{letter}{n}" for letter, count in (("W", 10), ("A", 9), ("B", 6), ("L", 26), ("I", 3))
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
    assert all(math.isfinite(figure.value) for figure in (*evidence.figures, *evidence.interpretations))
    assert evidence.figures or evidence.interpretations
    if evidence.plot:
        plot = evidence.plot
        assert all(map(math.isfinite, plot.at))
        assert not ("x" in plot.log and min(plot.at) <= 0)
        for values in [*plot.solid.values(), *plot.dashed.values()]:
            assert 1 < len(values) <= len(plot.at)
            assert all(map(math.isfinite, values))
            assert not ("y" in plot.log and min(values) <= 0)


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_records_are_complete(claim):
    assert claim.title
    assert claim.stated
    assert claim.formula
    assert claim.source
    if claim.verdict in (Verdict.AMENDED, Verdict.FALSE):
        assert claim.corrected
    assert bool(claim.pending) == (claim.verdict is Verdict.PENDING)


@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_every_record_says_where_its_statement_comes_from(claim):
    assert bool(claim.quote) == (claim.origin is Origin.QUOTED)


def test_statements_that_are_not_on_the_supplied_pages_are_not_passed_off_as_quotes():
    by_origin = {origin: {c.id for c in CLAIMS if c.origin is origin} for origin in Origin}
    assert by_origin[Origin.SUMMARY] == {"L3", "L9", "L10", "L12"}
    assert by_origin[Origin.IMPLIED] == {"B3", "B4"}
    assert by_origin[Origin.OWN] == {"I1", "I2", "I3"}


EXPENSIVE = ("A6", "A7", "A8", "I1", "L12")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in EXPENSIVE else name for name in IDS]
)
def test_every_check_that_searches_or_draws_takes_its_number_of_cases_from_the_run(name):
    """A tenth of the cases stands in for the fifty times of --deep; what is drawn once is tried with twice."""
    claim, now = BY_ID[name], tried(finding(name).evidence)
    fewer = tried(claim.examine(NORMAL_CASES // 10))
    if claim.computed:
        assert fewer == now
    else:
        assert fewer < now or now < tried(claim.examine(2 * NORMAL_CASES))


def test_what_is_only_computed_says_why():
    assert {claim.id for claim in CLAIMS if claim.computed} == {"A4", "L18", "L22"}


@pytest.mark.parametrize("name", CHECKED)
def test_an_amendment_keeps_some_of_the_published_cases(name):
    found = finding(name)
    if found.claim.verdict is Verdict.AMENDED:
        failed = {trial.conclusion for trial in found.evidence.stated if trial.fails}
        kept = {trial.conclusion: trial.kept for trial in found.evidence.corrected if trial.conclusion in failed}
        assert set(kept) == failed
        assert all(0 < share <= 1 for share in kept.values())


def test_a_check_that_supports_nothing_is_a_problem():
    claim = replace(BY_ID["W2"], check=lambda cases: [Trial("A", 5, 5), replace(Trial("B", 5, 1), role="corrected")])
    (found,) = run_claims([claim])
    assert found.outcome is None
    assert "the correction fails: B" in found.problems


def test_a_claim_without_evidence_cannot_pass_as_checked():
    assert not judge(BY_ID["W1"], None).agrees
    assert not judge(replace(BY_ID["W1"], verdict=Verdict.PENDING), Evidence(figures=(Figure("x", 1.0),))).agrees


def test_a_verdict_names_its_criterion_where_criteria_disagree():
    assert BY_ID["L4"].full_verdict == "false under the multiplicative criterion"
    assert BY_ID["W1"].full_verdict == "false"
    figures = {figure.name: figure.value for figure in finding("L4").evidence.figures}
    assert figures["attention, m = 4e5: multiplicative"] < 0.5  # met
    assert figures["attention, m = 4e5: additive"] > 1  # not met: refuted by extrapolation alone
