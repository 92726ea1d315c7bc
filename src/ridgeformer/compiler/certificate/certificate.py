"""The certificate itself: what was measured, what it must not exceed, and whether it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Certificate", "Check", "Curve", "Finding", "merge"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Check:
    """One claim about one run, at the point where it is tightest.

    Attributes:
        name: Short name.
        what: The claim in plain words.
        measured: What was measured where it comes closest to its bound, over tasks, steps, queries and outputs.
        bound: What it must not exceed there.
        holds: Whether the claim's condition is met and nothing measured is above its bound; never with a NaN.
        condition: Under which condition the bound is a theorem, and what was added to it for rounding.
    """

    name: str
    what: str
    measured: float
    bound: float
    holds: bool
    condition: str


@dataclass(frozen=True, eq=False)
class Curve:
    """Everything behind a check: arrays with tasks first, then what the axes say."""

    measured: Array
    bound: Array
    axes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Finding:
    """One claim about one task, before tasks are put together.

    Attributes:
        name, what, condition: As in `Check`.
        measured, bound: Arrays of one shape.
        axes: Names of their axes.
        met: Whether the condition is met on this task.
    """

    name: str
    what: str
    condition: str
    measured: Array
    bound: Array
    axes: tuple[str, ...] = ()
    met: bool = True


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is certain about the run of a compiled transformer on one batch of tasks.

    Attributes:
        subject: The run in one line.
        checks: Every claim, measured.
        curves: Check name to the arrays behind it; tasks are the first axis.
        kappa: Condition number of the system the network solves, one a task.
        floor: Relative error that rounding alone may leave, one a task.
        exact: Predictions of the direct solve, (tasks, queries, outputs).
    """

    subject: str
    checks: tuple[Check, ...]
    curves: Mapping[str, Curve] = field(repr=False)
    kappa: Array
    floor: Array
    exact: Array = field(repr=False)

    @property
    def holds(self) -> bool:
        """Whether every check holds."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.holds)

    def __getitem__(self, name: str) -> Check:
        """Return the check of this name."""
        return next(check for check in self.checks if check.name == name)

    def __str__(self) -> str:
        lines = [self._verdict(), self.subject, ""]
        lines.append(f"{'':<6}{'check':<22}{'measured':>10}  {'at most':>10}  what it says")
        for check in self.checks:
            mark = "holds" if check.holds else "FAILS"
            lines.append(f"{mark:<6}{check.name:<22}{check.measured:>10.2e}  {check.bound:>10.2e}  {check.what}")
        lines += ["", "conditions", *(f"  {check.name}: {check.condition}" for check in self.checks)]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.holds:
            return f"Certified: all {len(self.checks)} checks hold."
        names = ", ".join(check.name for check in self.failed) or "nothing could be checked"
        return f"NOT certified: {len(self.failed)} of {len(self.checks)} checks do not hold ({names})."

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values, the arrays as nested lists."""
        return {
            "holds": self.holds,
            "subject": self.subject,
            "checks": [asdict(check) for check in self.checks],
            "condition_numbers": self.kappa.tolist(),
            "floors": self.floor.tolist(),
            "curves": {
                name: {"axes": list(curve.axes), "measured": curve.measured.tolist(), "bound": curve.bound.tolist()}
                for name, curve in self.curves.items()
            },
        }


def merge(tasks: Iterable[Sequence[Finding]]) -> tuple[tuple[Check, ...], dict[str, Curve]]:
    """Put the findings of several tasks together: one check a name, at its tightest point.

    Example:
        >>> found = Finding("rate", "it falls", "always", np.array([0.1, 0.3]), np.array([1.0, 0.5]))
        >>> checks, curves = merge([[found]])
        >>> checks[0].measured, checks[0].bound, checks[0].holds
        (0.3, 0.5, True)
    """
    checks, curves = [], {}
    for findings in zip(*tasks, strict=True):
        first = findings[0]
        measured, bound = np.stack([f.measured for f in findings]), np.stack([f.bound for f in findings])
        curves[first.name] = Curve(measured, bound, ("task", *first.axes))
        worst = _tightest(measured, bound)
        checks.append(
            Check(
                name=first.name,
                what=next((f.what for f in findings if not f.met), first.what),
                measured=float(measured.flat[worst]),
                bound=float(bound.flat[worst]),
                holds=_all_below(measured, bound) and all(f.met for f in findings),
                condition=next((f.condition for f in findings if not f.met), first.condition),
            )
        )
    return tuple(checks), curves


def _all_below(measured: Array, bound: Array) -> bool:
    """Whether there is something, all of it is finite, and none of it is above its bound."""
    finite = np.isfinite(measured).all() and np.isfinite(bound).all()
    return bool(measured.size > 0 and finite and (measured <= bound).all())


def _tightest(measured: Array, bound: Array) -> int:
    """Return the index at which measured / bound is largest, a NaN or an infinity counting as the largest."""
    with np.errstate(all="ignore"):
        ratio = np.where(measured == 0, 0.0, measured / bound)
    ratio = np.where(np.isfinite(measured) & np.isfinite(bound) & ~np.isnan(ratio), ratio, np.inf)
    return int(np.argmax(ratio))
