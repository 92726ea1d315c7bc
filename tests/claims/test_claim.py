"""The outcome follows from the evidence, and from nothing else."""

import math

import pytest

from ridgeformer.claims import Evidence, Figure, Trial, Verdict, outcome

HOLDS, FAILS, UNTRIED = Trial("A <= B", 10, 0), Trial("A <= B", 10, 3), Trial("A <= B", 0, 0)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (Evidence(stated=(HOLDS,)), Verdict.TRUE),
        (Evidence(stated=(HOLDS, FAILS)), Verdict.FALSE),
        (Evidence(stated=(FAILS,), corrected=(HOLDS,), relation="amends"), Verdict.AMENDED),
        (Evidence(stated=(FAILS,), corrected=(HOLDS,), relation="replaces"), Verdict.FALSE),
        (Evidence(stated=(HOLDS,), corrected=(HOLDS,), relation="amends"), Verdict.TRUE),
        (Evidence(stated=(FAILS,), corrected=(FAILS,), relation="amends"), None),
        (Evidence(stated=(FAILS,), corrected=(FAILS,), relation="replaces"), None),
        (Evidence(stated=(FAILS,), relation="amends"), None),
        (Evidence(stated=(UNTRIED,)), Verdict.FALSE),
        (Evidence(stated=(FAILS,), corrected=(UNTRIED,), relation="amends"), None),
        (Evidence(readings=(Figure("one", 1.0), Figure("other", 2.0))), Verdict.UNDEFINED),
        (Evidence(readings=(Figure("one", 1.0), Figure("other", 1.001))), None),
        (Evidence(), None),
    ],
)
def test_outcome(evidence, expected):
    assert outcome(evidence) is expected


@pytest.mark.parametrize(
    ("value", "shown", "agrees"),
    [
        (86.2069, "86.21", True), (86.2049, "86.21", False), (86.2151, "86.21", False), (2591.3, "2591", True),
        (3.4e15, "3.4e15", True), (3.46e15, "3.4e15", False), (6.04e-4, "6e-4", True), (-1.0, "1", False),
        (math.nan, "1", False), (math.inf, "1", False), (123.0, "", True),
    ],
)  # fmt: skip
def test_figures_are_held_to_the_digits_shown(value, shown, agrees):
    assert Figure("x", value, shown).agrees is agrees
