"""The certificate itself: what is proved of a run, what was expected of it, what was observed, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.words import percent_at_most

__all__ = [
    "FLOOR",
    "MODELLED",
    "Array",
    "Certificate",
    "CertificateCurve",
    "Check",
    "Kind",
    "TaskCheck",
    "check_lines",
    "merge",
]

Array = NDArray[np.float64]

Kind = Literal["proved", "expected", "observed"]
"""proved: a rigorous bound for this run, whatever the weights are. expected: a theorem of exact arithmetic plus a model
of rounding, named in the condition. observed: a comparison."""

FLOOR = 4.0
"""Rounding may leave a relative A-norm error of FLOOR (1 + largest logit) eps kappa (see `RunEvidence.floor`)."""

MODEL = (
    f"FLOOR (1 + largest logit) eps kappa is added to relative errors, with FLOOR = {FLOOR:g}, eps of the weights' "
    "precision, and kappa the condition number of the system or of the method, whichever is larger; and what conjugate "
    "gradients leave when their divisors become too small to divide by"
)
MODELLED = "rounding as modelled"
"""How the condition of an expected line refers to MODEL."""


@dataclass(frozen=True)
class Check:
    """One claim about one run, at the point where it is tightest.

    Attributes:
        name: Short name.
        kind: "proved", "expected" or "observed".
        what: The claim in plain words.
        measured: What was found where it comes closest to its bound, over tasks, steps, queries and outputs.
        bound: What it must not exceed there.
        holds: Whether the claim's condition is met and nothing measured is above its bound; never with a NaN.
        condition: Under which condition the bound holds, and what was added to it for rounding.
    """

    name: str
    kind: Kind
    what: str
    measured: float
    bound: float
    holds: bool
    condition: str


@dataclass(frozen=True, eq=False)
class CertificateCurve:
    """Everything behind a check: arrays with tasks first, then what the axes say."""

    measured: Array
    bound: Array
    axes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TaskCheck:
    """One claim about one task, before tasks are put together.

    Attributes:
        name, what, condition, kind: As in `Check`.
        measured, bound: What was found, and what it must not exceed; one bound may serve all.
        axes: Names of the axes of `measured`.
        met: Whether the condition is met on this task.
    """

    name: str
    what: str
    condition: str
    measured: Array | Tensor | float
    bound: Array | Tensor | float
    axes: tuple[str, ...] = ()
    met: bool = True
    kind: Kind = "expected"


@dataclass(frozen=True, eq=False)
class Certificate:
    """How near the answers of one run are to exact ridge regression, and whether the network did what it should.

    Attributes:
        subject: The run in one line.
        tolerance: The largest proved relative distance that counts as accurate.
        checks: Every claim, measured.
        curves: Check name to the arrays behind it; tasks are the first axis.
        kappa: Condition number of the system the network solves, one a task.
        floor: Relative error that the model of rounding allows, one a task.
        exact: Predictions of the direct solve, (tasks, queries, outputs).
        predictions: The network's answers.
        proved: Proved bound on abs(answer - exact ridge regression); infinite where nothing is proved.
        advice: What to do where the bound is not within the tolerance.
    """

    subject: str
    tolerance: float
    checks: tuple[Check, ...]
    curves: Mapping[str, CertificateCurve] = field(repr=False)
    kappa: Array
    floor: Array
    exact: Array = field(repr=False)
    predictions: Array = field(repr=False)
    proved: Array = field(repr=False)
    advice: str = ""

    @property
    def within(self) -> float:
        """The proved distance from exact ridge regression.

        Relative to the largest exact prediction of each output over the queries, and the worst over outputs and tasks.
        """
        return float(self.curves["accuracy"].measured.max())

    @property
    def accurate(self) -> bool:
        """Whether every answer is proved to be within the tolerance."""
        return self["accuracy"].holds

    @property
    def holds(self) -> bool:
        """Whether the answers are proved accurate and every other check holds."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.holds)

    @property
    def verdict(self) -> str:
        """The certificate in one sentence, the proved distance first."""
        others = ", ".join(check.name for check in self.failed if check.name != "accuracy")
        if self.accurate:
            but = f", but other checks fail: {others}" if others else ""
            return f"Proved within {percent_at_most(self.within)} of exact ridge regression{but}."
        only = f"proved only within {percent_at_most(self.within)} of exact ridge regression"
        if not isfinite(self.within):
            only = "no distance from exact ridge regression could be proved"
        todo = f"; {self.advice}" if self.advice else ""
        return f"Not shown to be accurate: {only}{todo}." + (f" Other checks that fail: {others}." if others else "")

    def __getitem__(self, name: str) -> Check:
        """Return the check of this name."""
        return next(check for check in self.checks if check.name == name)

    def __str__(self) -> str:
        lines = [
            self.verdict,
            self.subject,
            "Per cent are of the largest exact prediction of each output over the queries; tolerance "
            f"{percent_at_most(self.tolerance)}.",
            "",
            *check_lines(self.checks),
        ]
        return "\n".join([*lines, "model of rounding", f"  {MODEL}"])

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values, the arrays as nested lists."""
        return {
            "holds": self.holds,
            "accurate": self.accurate,
            "verdict": self.verdict,
            "proved_within": self.within,
            "tolerance": self.tolerance,
            "rounding_model": MODEL,
            "subject": self.subject,
            "checks": [asdict(check) for check in self.checks],
            "condition_numbers": self.kappa.tolist(),
            "floors": self.floor.tolist(),
            "proved_bounds": self.proved.tolist(),
            "curves": {
                name: {"axes": list(curve.axes), "measured": curve.measured.tolist(), "bound": curve.bound.tolist()}
                for name, curve in self.curves.items()
            },
        }


def check_lines(checks: Sequence[Check]) -> list[str]:
    """Return checks as a table of text, their conditions below."""
    lines = [f"{'':<7}{'kind':<10}{'check':<22}{'measured':>10}  {'at most':>10}  what it says"]
    for check in checks:
        mark = "holds" if check.holds else "FAILS"
        numbers = f"{check.measured:>10.2e}  {check.bound:>10.2e}"
        lines.append(f"{mark:<7}{check.kind:<10}{check.name:<22}{numbers}  {check.what}")
    return [*lines, "", "conditions", *(f"  {check.name}: {check.condition}" for check in checks)]


def merge(tasks: Iterable[Sequence[TaskCheck]]) -> tuple[tuple[Check, ...], dict[str, CertificateCurve]]:
    """Combine the findings of several tasks: one check a name, shown where measured / bound is largest.

    A NaN or an infinity counts as the largest, and fails.

    Example:
        >>> finding = TaskCheck("rate", "it falls", "always", np.array([0.1, 0.3]), np.array([1.0, 0.5]))
        >>> checks, curves = merge([[finding]])
        >>> checks[0].measured, checks[0].bound, checks[0].holds
        (0.3, 0.5, True)
    """
    checks, curves = [], {}
    for findings in zip(*tasks, strict=True):
        shown = next((f for f in findings if not f.met), findings[0])
        measured = np.stack([np.asarray(f.measured, dtype=np.float64) for f in findings])
        bound = np.stack([np.broadcast_to(f.bound, measured.shape[1:]) for f in findings])
        curves[shown.name] = CertificateCurve(measured, bound, ("task", *shown.axes))
        finite = np.isfinite(measured) & np.isfinite(bound)
        with np.errstate(all="ignore"):
            ratio = np.where(measured == 0, 0.0, measured / bound)
        worst = int(np.argmax(np.where(finite & ~np.isnan(ratio), ratio, np.inf)))
        checks.append(
            Check(
                name=shown.name,
                kind=shown.kind,
                what=shown.what,
                measured=float(measured.flat[worst]),
                bound=float(bound.flat[worst]),
                holds=bool((finite & (measured <= bound)).all()) and all(f.met for f in findings),
                condition=shown.condition,
            )
        )
    return tuple(checks), curves
