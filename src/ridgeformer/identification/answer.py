"""The answer: words first, then the evidence behind each of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ridgeformer.core.words import count, listed, percent
from ridgeformer.identification.controls import Control, PowerPoint
from ridgeformer.identification.mechanism import Mechanism
from ridgeformer.identification.signatures import Signatures, Similarity
from ridgeformer.identification.tasks import Tasks
from ridgeformer.identification.verdict import BehaviourVerdict, Reason

__all__ = ["Identification"]

ADVICE = {
    Reason.UNEXPLAINED: "Add your own candidates, or give tasks= of the distribution that it was made for.",
    Reason.MISFIT: "Add a candidate for what lies between, or give tasks= of the distribution it was made for.",
    Reason.NEAR: "Add a candidate for the algorithm you suspect: a relative of the nearest one is likely.",
    Reason.POWERLESS: "Use tasks='separating' or 'optimised', or more tasks.",
    Reason.EMPTY: "Check what the model returns.",
    Reason.CONTEXT: "Check that supports and targets reach the model: the adapter may put them where it does not look.",
}

EXCLUDED_SHOWN = ("ridge", "cg", "gd", "nadaraya_watson", "ols", "kernel_ridge_exponential")
"""Families that readers ask about first."""


@dataclass(frozen=True, eq=False)
class Identification:
    """Which algorithm a model runs, as far as its predictions and its layers say.

    Attributes:
        verdict: The identified set, or the reason for an abstention.
        signatures: Symmetries of the predictions.
        similarities: What published scores would have said.
        nulls: Null models and what was said about them.
        control: A compiled model of the same algorithm and depth; the test has power only if it is recognised.
        power: How often the answer comes out again; the first point has the residuals as found.
        mechanism: What the layers say, where they can be read.
        tasks: The tasks for which the answer holds.
        candidates: How many candidates were compared.
        notes: What was noticed about the model.
    """

    verdict: BehaviourVerdict
    signatures: Signatures
    similarities: tuple[Similarity, ...]
    nulls: tuple[Control, ...]
    control: Control | None
    power: tuple[PowerPoint, ...]
    mechanism: Mechanism | None
    tasks: Tasks
    candidates: int
    notes: tuple[str, ...]
    seed: int
    seconds: float

    @property
    def identified(self) -> bool:
        """Whether there is an answer."""
        return self.verdict.reason is None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in words, most important first."""
        found = [self._answer(), self.signatures.sentence]
        if self.identified:
            found += self._general()
        if self.control is not None and not self.control.passed:
            found.append(
                f"The test has no power here: a {self.control.kind} model of this depth was not recognised ("
                f"{self.control.answer})."
            )
        elif self.control is not None:
            found.append(f"A {self.control.kind} model with the same noise was recognised.")
        if self.mechanism is not None:
            found.append(self.mechanism.sentence)
        found.append(f"The answer holds for {self.tasks.name}.")
        return (*found, *self.notes)

    def _answer(self) -> str:
        verdict = self.verdict
        if verdict.reason is not None:
            return f"No answer: {verdict.reason.value}. {verdict.detail} {ADVICE[verdict.reason]}"
        if verdict.approximate:
            parts = [
                f"On these tasks its predictions approximate those of {verdict.approximated}, without being them: they "
                f"differ by {percent(verdict.systematic)} of their own size, as after imperfect training or for a "
                "relative that is not listed"
            ]
        else:
            parts = [f"On these tasks its predictions are those of {verdict.name}"]
        gone = self._excluded()
        if gone:
            parts.append(f"{listed(gone)} {'is' if len(gone) == 1 else 'are'} excluded")
        left = _at_least_a_trace(verdict.unexplained)
        parts.append(f"{left} of the predictions stays unexplained")
        parts.append(f"the two agree to within {_at_least_a_trace(verdict.resolution)}")
        if self.power:
            parts.append(f"power {self.power[0].power:.2f}")
        if self.nulls:
            same = sum(one.same for one in self.nulls)
            parts.append(
                f"{same} of {count(len(self.nulls), 'null model')} {'gives' if same == 1 else 'give'} this answer"
            )
        return "; ".join(parts) + "."

    def _excluded(self) -> list[str]:
        """Return families of which every member is excluded, those readers ask about first."""
        left = {one.family.name for one in self.verdict.remaining}
        titles = {one.candidate.family.name: one.candidate.family.title for one in self.verdict.coordinates}
        return [titles[name] for name in EXCLUDED_SHOWN if name in titles and name not in left]

    def _general(self) -> list[str]:
        """Say which families are left only because they contain the answer."""
        shown = self.verdict.families
        general = {one.family.title for one in self.verdict.remaining if one.family.name not in shown}
        contain = {
            one.family.title for one in self.verdict.remaining
            if any(one.family.name in other.family.within for other in self.verdict.identified)
        } & general  # fmt: skip
        if not contain:
            return []
        return [f"More general families contain this answer and fit no better: {listed(sorted(contain))}."]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        verdict = self.verdict
        return {
            "answer": list(self.sentences),
            "identified": [_plain(one) for one in verdict.identified],
            "reason": None if verdict.reason is None else verdict.reason.value,
            "best": None if verdict.best is None else verdict.best.key,
            "unexplained": verdict.unexplained,
            "unexplained_bound": verdict.unexplained_bound,
            "resolution": verdict.resolution,
            "approximate": verdict.approximate,
            "candidates": [
                {"key": one.candidate.key, "error": one.error, "coordinate": one.value, "low": one.low,
                 "high": one.high, "distance": one.distance, "excluded": one.excluded}
                for one in verdict.coordinates
            ],
            "signatures": asdict(self.signatures),
            "published": [asdict(one) for one in self.similarities],
            "nulls": [asdict(one) for one in self.nulls],
            "control": None if self.control is None else asdict(self.control),
            "power": [asdict(one) | {"power": one.power} for one in self.power],
            "mechanism": None if self.mechanism is None else {
                name: [asdict(one) | {"passed": one.passed, "verdict": one.verdict} for one in tests]
                for name, tests in self.mechanism.tests.items()
            },
            "tasks": self.tasks.name,
            "notes": list(self.notes),
            "seed": self.seed,
            "seconds": self.seconds,
        }  # fmt: skip


def _at_least_a_trace(fraction: float) -> str:
    return percent(fraction) if fraction > 1e-6 else "less than 0.0001 %"


def _plain(one: Any) -> dict[str, Any]:
    return {"key": one.key, "family": one.family.name, "steps": one.member.steps, "parameters": one.values,
            "words": one.described}  # fmt: skip
