"""A claim: what a source says, what is true, and a check that decides between them.

A check returns evidence, which is figures and trials. The outcome is worked out from the evidence and compared with
the verdict on record, so that a record cannot drift from what the code finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["Claim", "Counterexample", "Curve", "Evidence", "Figure", "Plot", "Trial", "Verdict", "outcome"]


class Verdict(StrEnum):
    """What is on record about a claim."""

    TRUE = "true"
    AMENDED = "amended"
    """True after a named change: a condition, a constant, a scope."""
    FALSE = "false"
    """A counterexample runs; what is true instead is another statement."""
    UNDEFINED = "undefined"
    """The source does not define the quantity: readings that it allows disagree."""
    PENDING = "pending"
    """Needs work that is not there yet; counted, never passed off as checked."""


@dataclass(frozen=True)
class Figure:
    """A measured number, and the digits that the ledger shows for it.

    Example:
        >>> Figure("resolvent error", 86.2069, shown="86.21").agrees
        True
        >>> Figure("resolvent error", 86.2069, shown="86.22").agrees
        False
    """

    name: str
    value: float
    shown: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the value, rounded to the digits shown, is what is shown; always if nothing is shown."""
        if not self.shown:
            return True
        mantissa, _, exponent = self.shown.lower().partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        return math.isfinite(self.value) and abs(self.value - float(self.shown)) <= 0.5 * unit * (1 + 1e-9)


@dataclass(frozen=True)
class Trial:
    """A statement tried on cases where it could fail.

    Attributes:
        statement: What was tried, in words.
        cases: On how many cases.
        violations: On how many it failed.
        worst: The largest ratio of its two sides, left over right; NaN where it is not an inequality.
        seed: Of the search that found the worst case; None where there was no search.
    """

    statement: str
    cases: int
    violations: int
    worst: float = math.nan
    seed: int | None = None

    @property
    def holds(self) -> bool:
        """Whether it was tried and never failed."""
        return self.cases > 0 and self.violations == 0


@dataclass(frozen=True)
class Curve:
    """One line of a claim's plot."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """A claim's plot: curves, axes, and what to see in it."""

    curves: tuple[Curve, ...]
    x: str
    y: str
    caption: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Evidence:
    """What a check found.

    Attributes:
        stated: Trials of the claim as its source states it; empty if it cannot be tried as it stands.
        corrected: Trials of the corrected statement; for a true claim, of what the project builds on it.
        relation: How the correction stands to the claim: "amends" keeps its conclusion under a named change,
            "replaces" says something else. None if there is no correction.
        readings: Values of one quantity under the readings that a source allows.
        figures: Measured numbers, the first of which goes into the ledger's line.
        plot: What to look at.
    """

    stated: tuple[Trial, ...] = ()
    corrected: tuple[Trial, ...] = ()
    relation: Literal["amends", "replaces"] | None = None
    readings: tuple[Figure, ...] = ()
    figures: tuple[Figure, ...] = ()
    plot: Plot | None = None


@dataclass(frozen=True)
class Counterexample:
    """Small arrays that one can verify by hand, and the arithmetic in words."""

    arrays: Mapping[str, list[list[float]] | list[float] | float | str]
    arithmetic: str


@dataclass(frozen=True)
class Claim:
    """One row of the ledger.

    Attributes:
        id: Such as "W4".
        source: The document and its section.
        title: One line in plain words.
        stated: The claim as its source gives it, in our words.
        formula: The same as a formula (LaTeX).
        verdict: What is on record.
        corrected: What is true, in words; empty if the claim stands as it is.
        corrected_formula: The same as a formula (LaTeX).
        condition: Under which condition the true statement holds.
        check: Makes the evidence; takes the number of cases of each search.
        counterexample: Arrays to verify by hand.
        pending: Why the check cannot run yet.
    """

    id: str
    source: str
    title: str
    stated: str
    formula: str
    verdict: Verdict
    check: Callable[[int], Evidence]
    corrected: str = ""
    corrected_formula: str = ""
    condition: str = ""
    counterexample: Counterexample | None = None
    pending: str = ""


def outcome(evidence: Evidence) -> Verdict | None:
    """Return what the evidence amounts to; None if it supports no verdict, such as a correction that fails.

    Example:
        >>> never, once = Trial("A <= B", 100, 0), Trial("A <= B", 100, 1)
        >>> outcome(Evidence(stated=(never,))), outcome(Evidence(stated=(once,)))
        (<Verdict.TRUE: 'true'>, <Verdict.FALSE: 'false'>)
        >>> outcome(Evidence(stated=(once,), corrected=(never,), relation="amends"))
        <Verdict.AMENDED: 'amended'>
        >>> outcome(Evidence(stated=(once,), corrected=(once,), relation="amends")) is None
        True
    """
    if not all(trial.holds for trial in evidence.corrected):
        return None
    if evidence.readings:
        return Verdict.UNDEFINED if _disagree(evidence.readings) else None
    if not evidence.stated:
        return None
    if all(trial.holds for trial in evidence.stated):
        return Verdict.TRUE
    if evidence.relation == "amends":
        return Verdict.AMENDED if evidence.corrected else None
    return Verdict.FALSE


def _disagree(readings: tuple[Figure, ...]) -> bool:
    values = [reading.value for reading in readings]
    return max(values) - min(values) > 0.01 * max(map(abs, values))
