"""A claim: what a source says, what is true, and a check that decides between them.

A check yields its evidence: trials, figures and a plot. `outcome` derives the verdict from the evidence by one rule for
all claims, and the ledger compares it with the verdict on record: a record cannot drift from what the code finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias


class Verdict(StrEnum):
    """What is on record about a claim."""

    TRUE = "true"
    AMENDED = "amended"
    """It fails as published; every conclusion that fails holds again after a named change."""
    FALSE = "false"
    """A conclusion fails, and no change that was tried restores it on the cases it was published for."""
    UNDEFINED = "undefined"
    """The source does not define the quantity: interpretations that it allows disagree."""
    PENDING = "pending"
    """Needs work that is not there yet; counted, never passed off as checked."""


class Origin(StrEnum):
    """Where the statement of a claim comes from."""

    QUOTED = "a sentence of the source"
    SUMMARY = "other summaries of the study; not on the page of it that was supplied"
    IMPLIED = "not a sentence of the sources; their construction relies on it"
    OWN = "not from the sources; ridge regression's own closed form"


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
    role: str = "figure"

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
        conclusion: What is concluded, in a few words: a corrected trial with a stated one's conclusion restores it.
        kept: Of a corrected trial: the fraction of the published cases that its changed condition leaves; 1 where only
            a constant or a formula changed.
        role: "stated" for a trial of the claim as published, "corrected" for one of the corrected statement.
    """

    statement: str
    cases: int
    violations: int
    worst: float = math.nan
    seed: int | None = None
    conclusion: str = ""
    kept: float = 1.0
    role: str = "stated"

    @property
    def holds(self) -> bool:
        """Whether it was tried and never failed."""
        return self.cases > 0 and self.violations == 0

    @property
    def fails(self) -> bool:
        """Whether it was seen to fail."""
        return self.violations > 0


def interpretation(name: str, value: float) -> Figure:
    """Return the value of the claim's quantity under one of the interpretations that its source allows."""
    return Figure(name, value, role="interpretation")


@dataclass(frozen=True)
class Plot:
    """Curves over one horizontal axis, as plain data.

    Attributes:
        x, y: What the axes measure.
        at: Where along the horizontal axis the values are.
        solid: Values by the name of their curve: what was measured.
        dashed: The same for bounds, published statements and other comparisons.
        caption: What to see in it.
        log: The logarithmic axes: "", "x", "y" or "xy".
    """

    x: str
    y: str
    at: Sequence[int | float]
    solid: Mapping[str, Sequence[int | float]]
    dashed: Mapping[str, Sequence[int | float]] = field(default_factory=dict)
    caption: str = ""
    log: str = ""


Curve: TypeAlias = Iterable[int | float] | Callable[[Any], Any] | float
"""Values, a function of the place on the horizontal axis, or one number for a horizontal line."""


def plot(
    x: str,
    y: str,
    at: Iterable[int | float],
    solid: Mapping[str, Curve],
    dashed: Mapping[str, Curve] | None = None,
    caption: str = "",
    log: str = "",
) -> Plot:
    """Return a plot whose curves are values, functions of the place, or single numbers.

    Example:
        >>> plot("m", "error", [1, 2, 4], {"1/m": lambda m: 1 / m}, {"limit": 0.1}).solid
        {'1/m': [1.0, 0.5, 0.25]}
    """
    places = list(at)

    def values(curve: Curve) -> list[float]:
        if callable(curve):
            return [float(curve(place)) for place in places]
        return [float(curve)] * len(places) if isinstance(curve, int | float) else [float(value) for value in curve]

    measured, compared = ({name: values(curve) for name, curve in each.items()} for each in (solid, dashed or {}))
    return Plot(x, y, [float(place) for place in places], measured, compared, caption, log)


Pieces: TypeAlias = Iterable[Trial | Figure | Plot]
"""What a check yields."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of a check.

    Attributes:
        stated: Trials of the claim as its source states it; empty if it cannot be tried as it stands.
        corrected: Trials of the corrected statement; for a true claim, of what the project builds on it.
        interpretations: Values of one quantity under the interpretations that the source allows.
        figures: Measured numbers, the first of which goes into the ledger's line.
        plot: What to look at.
    """

    stated: tuple[Trial, ...] = ()
    corrected: tuple[Trial, ...] = ()
    interpretations: tuple[Figure, ...] = ()
    figures: tuple[Figure, ...] = ()
    plot: Plot | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of the ledger: a record that decorates its check.

    The name of the check is the claim's id in lower case, and its docstring the title.

    Attributes:
        id: Such as "W4".
        source: The document and its section.
        origin: Where the statement comes from.
        quote: The source's own words, symbols spelled out; empty unless the origin is a sentence of the source.
        title: One line in plain words.
        stated: The claim as its source gives it, in our words.
        formula: The same as a formula (LaTeX).
        verdict: What is on record.
        under: The criterion that the verdict is about, where the source does not name one and criteria disagree.
        corrected: What is true, in words; empty if the claim stands as it is.
        corrected_formula: The same as a formula (LaTeX).
        condition: Under which condition the true statement holds.
        check: Yields the evidence; takes the number of cases of each search, and scales its draws with it (`drawn`).
        computed: Why a deeper run has nothing more to try; empty for a check that searches or draws.
        arrays, arithmetic: A counterexample to verify by hand: small arrays, and the arithmetic in words.
        pending: Why the check cannot run yet.
    """

    id: str = ""
    title: str = ""
    source: str
    stated: str
    formula: str
    verdict: Verdict
    check: Callable[[int], Pieces] = lambda cases: ()
    origin: Origin = Origin.QUOTED
    quote: str = ""
    computed: str = ""
    under: str = ""
    corrected: str = ""
    corrected_formula: str = ""
    condition: str = ""
    arrays: Mapping[str, list[list[float]] | list[float] | float | str] = field(default_factory=dict)
    arithmetic: str = ""
    pending: str = ""

    def __call__(self, check: Callable[[int], Pieces]) -> Claim:
        """Return the claim with its check: `@Claim(...)` above the function."""
        title = (check.__doc__ or "").rstrip(".")
        return replace(self, id=check.__name__.upper(), title=title, check=check)

    def examine(self, cases: int) -> Evidence:
        """Run the check and sort what it yields."""
        pieces = list(self.check(cases))
        trials = [piece for piece in pieces if isinstance(piece, Trial)]
        figures = [piece for piece in pieces if isinstance(piece, Figure)]
        return Evidence(
            stated=tuple(trial for trial in trials if trial.role == "stated"),
            corrected=tuple(trial for trial in trials if trial.role == "corrected"),
            interpretations=tuple(figure for figure in figures if figure.role == "interpretation"),
            figures=tuple(figure for figure in figures if figure.role == "figure"),
            plot=next((piece for piece in pieces if isinstance(piece, Plot)), None),
        )

    @property
    def full_verdict(self) -> str:
        """The verdict, with the criterion it is about if there is one."""
        return self.verdict.value + (f" under {self.under}" if self.under else "")


def outcome(evidence: Evidence) -> Verdict | None:
    """Return what the evidence amounts to; None if it supports no verdict, such as a correction that fails.

    The rule, in this order:

    1. A corrected trial fails or was not tried: no verdict.
    2. Readings that the source allows disagree by more than 1 %: undefined.
    3. No stated trial, or one without a case: no verdict.
    4. Every stated trial holds: true.
    5. For every stated trial that fails there is a corrected trial with the same conclusion, which keeps some of the
       published cases: amended.
    6. Otherwise: false.

    Example:
        >>> fails, holds = Trial("A <= B", 100, 1, conclusion="A <= B"), Trial("A <= C", 100, 0)
        >>> outcome(Evidence(stated=(holds,))), outcome(Evidence(stated=(fails,), corrected=(holds,)))
        (<Verdict.TRUE: 'true'>, <Verdict.FALSE: 'false'>)
        >>> restored = Trial("A <= B where A >= 0", 100, 0, conclusion="A <= B", kept=0.5)
        >>> outcome(Evidence(stated=(fails,), corrected=(restored,)))
        <Verdict.AMENDED: 'amended'>
        >>> outcome(Evidence(stated=(fails,), corrected=(fails,))) is None
        True
    """
    if not all(trial.holds for trial in evidence.corrected):
        return None
    if evidence.interpretations:
        values = [reading.value for reading in evidence.interpretations]
        return Verdict.UNDEFINED if max(values) - min(values) > 0.01 * max(map(abs, values)) else None
    if not evidence.stated or not all(trial.cases for trial in evidence.stated):
        return None
    restored = {trial.conclusion for trial in evidence.corrected if trial.conclusion and trial.kept > 0}
    failed = [trial.conclusion for trial in evidence.stated if trial.fails]
    if not failed:
        return Verdict.TRUE
    return Verdict.AMENDED if restored.issuperset(failed) else Verdict.FALSE
