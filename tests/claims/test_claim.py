"""The verdict follows from the evidence by one rule, and from nothing else."""

import math
from dataclasses import replace

import pytest

from ridgeformer.claims import Claim, Evidence, Figure, Trial, Verdict, judge, outcome

HOLDS, FAILS, UNTRIED = Trial("A <= B", 10, 0), Trial("A <= B", 10, 3), Trial("A <= B", 0, 0)
SMALL, LARGE = "the error is small", "the error is large"


def says(conclusion, trial, kept=1.0):
    return (replace(trial, conclusion=conclusion, kept=kept),)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (Evidence(stated=(HOLDS,)), Verdict.TRUE),
        (Evidence(stated=(HOLDS,), corrected=(HOLDS,)), Verdict.TRUE),
        (Evidence(stated=says(SMALL, HOLDS), corrected=says(SMALL, HOLDS)), Verdict.TRUE),
        (Evidence(stated=(HOLDS, FAILS)), Verdict.FALSE),
        (Evidence(stated=(FAILS,), corrected=(HOLDS,)), Verdict.FALSE),
        (Evidence(stated=says(SMALL, FAILS), corrected=(HOLDS,)), Verdict.FALSE),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(LARGE, HOLDS)), Verdict.FALSE),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, HOLDS)), Verdict.AMENDED),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, HOLDS, kept=0.01)), Verdict.AMENDED),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, HOLDS, kept=0.0)), Verdict.FALSE),
        (Evidence(stated=says(SMALL, FAILS) + says(LARGE, FAILS), corrected=says(SMALL, HOLDS)), Verdict.FALSE),
        (Evidence(stated=says(SMALL, FAILS) + says(LARGE, HOLDS), corrected=says(SMALL, HOLDS)), Verdict.AMENDED),
        (
            Evidence(stated=says(SMALL, FAILS) + says(LARGE, FAILS), corrected=says(SMALL, HOLDS) + says(LARGE, HOLDS)),
            Verdict.AMENDED,
        ),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, FAILS)), None),
        (Evidence(stated=says(SMALL, FAILS), corrected=(*says(SMALL, HOLDS), FAILS)), None),
        (Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, UNTRIED)), None),
        (Evidence(stated=(UNTRIED,)), None),
        (Evidence(stated=(FAILS, UNTRIED)), None),
        (Evidence(interpretations=(Figure("one", 1.0), Figure("other", 2.0))), Verdict.UNDEFINED),
        (Evidence(interpretations=(Figure("one", 1.0), Figure("other", 1.001))), None),
        (Evidence(interpretations=(Figure("one", 1.0), Figure("other", 2.0)), corrected=(FAILS,)), None),
        (Evidence(), None),
    ],
)
def test_outcome(evidence, expected):
    assert outcome(evidence) is expected


def test_a_record_is_held_to_the_rule_and_not_to_a_field():
    """The same made-up claim is amended or false as its correction keeps some of the published cases or none."""
    claim = Claim(id="X1", source="made up", stated="s", formula="f", verdict=Verdict.AMENDED, corrected="c")
    some = Evidence(stated=says(SMALL, FAILS), corrected=says(SMALL, HOLDS, kept=0.5))
    none = replace(some, corrected=says(SMALL, HOLDS, kept=0.0))
    assert judge(claim, some).agrees
    assert judge(claim, none).problems == ("the record says amended, the evidence says false",)
    assert judge(replace(claim, verdict=Verdict.FALSE), none).agrees


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
