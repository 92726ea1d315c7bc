"""The verdict on behaviour: coordinates of the model between candidates, bootstrapped over tasks, and their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import count, listed, number, percent
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.fitting import group_rms
from ridgeformer.identification.problems import Problems

__all__ = ["THRESHOLDS", "Coordinate", "Reason", "Thresholds", "Verdict", "judge", "name_of"]


@dataclass(frozen=True)
class Thresholds:
    """Where the protocol draws its lines; `identify-nulls` and `identify-compiled` measure what they are worth.

    Attributes:
        coordinate: A candidate is excluded if its whole interval is at most this far from 0.
        misfit: Distance from the best candidate towards another, in units of the model's own size, that is a misfit.
        unexplained: Fraction of the model's mean square that the best candidate may leave unexplained.
        same: Squared distance below which two candidates are one function.
        left: Fraction of the candidates that may stay before the tasks are called powerless.
        draws: Bootstrap samples of the tasks.
        level: Confidence level of the intervals.
    """

    coordinate: float = 0.2
    misfit: float = 0.02
    unexplained: float = 0.03
    same: float = 1e-12
    left: float = 0.5
    draws: int = 400
    level: float = 0.99


THRESHOLDS = Thresholds()


class Reason(StrEnum):
    """Why there is no answer."""

    UNEXPLAINED = "no candidate explains the predictions"
    MISFIT = "the predictions lie between or beside the candidates"
    POWERLESS = "these tasks do not tell the candidates apart"
    EMPTY = "the predictions are zero"
    CONTEXT = "the model ignores its context"


@dataclass(frozen=True)
class Coordinate:
    """Where the model lies between the best candidate (0) and another (-1), with its bootstrap interval.

    Attributes:
        candidate: The other candidate.
        value, low, high: kappa and its interval; 0 is the best candidate, -1/2 half-way.
        distance: Root mean squared distance of the two candidates, in units of the model's own size.
        error: Fraction of the model's mean square that the other candidate leaves unexplained.
        excluded: Whether the other candidate is excluded.
    """

    candidate: Candidate
    value: float
    low: float
    high: float
    distance: float
    error: float
    excluded: bool


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the predictions say.

    Attributes:
        best: The candidate of smallest held-out error; None if there was nothing to compare.
        identified: The candidates that remain after nested families are collapsed; empty if it abstains.
        remaining: All candidates that are not excluded, the best one first.
        reason: Why it abstains, else None.
        detail: One sentence about the reason.
        unexplained: Fraction left unexplained by the best candidate, and the 97.5 % bound of it.
        coordinates: One for every other candidate.
    """

    best: Candidate | None
    identified: tuple[Candidate, ...]
    remaining: tuple[Candidate, ...]
    reason: Reason | None
    detail: str
    unexplained: float
    unexplained_bound: float
    coordinates: tuple[Coordinate, ...]

    @property
    def name(self) -> str:
        """The answer as a noun phrase, or the reason that there is none."""
        return name_of(self.identified) if self.reason is None else str(self.reason.value)

    @property
    def families(self) -> frozenset[str]:
        """Names of the families in the identified set."""
        return frozenset(one.family.name for one in self.identified)

    @property
    def keys(self) -> frozenset[str]:
        """Names of the identified candidates, with their depths and units."""
        return frozenset(one.key for one in self.identified)


def judge(
    candidates: Sequence[Candidate],
    problems: Problems,
    f: Tensor,
    *,
    seed: int = 0,
    thresholds: Thresholds = THRESHOLDS,
    predictions: Tensor | None = None,
) -> Verdict:
    """Return the verdict on predictions f, (T, q), on tasks that no candidate was fitted on.

    Args:
        candidates: Fitted candidates.
        problems: The held-out tasks.
        f: The model's predictions.
        seed: Of the bootstrap.
        thresholds: Where the lines are.
        predictions: Those of the candidates, (C, T, q), where already computed.
    """
    if not bool(f.abs().max() > 0):
        return Verdict(None, (), (), Reason.EMPTY, "Every prediction is zero.", 1.0, 1.0, ())
    rms = group_rms(problems, f)[:, None]
    g = torch.stack([one.predict(problems) for one in candidates]) if predictions is None else predictions
    g, f = torch.nan_to_num(g, nan=1e150, posinf=1e150, neginf=-1e150).clamp(-1e150, 1e150) / rms, f / rms
    V = float(f.square().mean())
    errors = (f - g).square().mean((1, 2)) / V
    star = int(errors.argmin())
    residual, towards = f - g[star], g[star] - g
    products, squares = (residual * towards).mean(2), towards.square().mean(2)  # (C, T)
    generator = torch_generator(seed, "bootstrap over tasks")
    T = f.shape[0]
    picks = torch.randint(T, (thresholds.draws, T), generator=generator)
    weights = torch.zeros(thresholds.draws, T, dtype=torch.float64).scatter_add_(1, picks, torch.ones_like(picks).double())
    D = squares.mean(1)
    kappa = products.mean(1) / D.clamp_min(1e-300)
    drawn = (weights @ products.T) / (weights @ squares.T).clamp_min(1e-300)
    tail = (1 - thresholds.level) / 2
    low, high = torch.quantile(drawn, torch.tensor([tail, 1 - tail], dtype=torch.float64), dim=0)
    same = D / V <= thresholds.same
    within = (low >= -thresholds.coordinate) & (high <= thresholds.coordinate)
    outside = (low > thresholds.coordinate) | (high < -thresholds.coordinate)
    excluded = within & ~same
    excluded[star] = False
    shift = kappa.abs() * (D / V).sqrt()
    odd = outside & ~same & (shift > thresholds.misfit)
    odd[star] = False
    ratio = (weights @ residual.square().mean(1)) / (weights @ f.square().mean(1))
    bound = float(torch.quantile(ratio, 0.975))
    coordinates = tuple(
        Coordinate(one, float(kappa[c]), float(low[c]), float(high[c]), float((D[c] / V).sqrt()), float(errors[c]),
                   bool(excluded[c]))
        for c, one in enumerate(candidates) if c != star
    )  # fmt: skip
    best = candidates[star]
    left = (best, *(one.candidate for one in coordinates if not one.excluded))
    scaled = _scaling(residual, g[star], weights, V, thresholds)
    reason, detail = None, ""
    if bound > thresholds.unexplained:
        reason = Reason.UNEXPLAINED
        detail = (
            f"The nearest, {best.title}, leaves {percent(float(errors[star]))} of the predictions unexplained (up to "
            f"{percent(bound)}; {percent(thresholds.unexplained)} are allowed)."
        )
    elif bool(odd.any()) or scaled:
        reason = Reason.MISFIT
        worst = max((c for c in range(len(candidates)) if odd[c]), key=lambda c: float(shift[c]), default=None)
        detail = scaled or _towards(best, candidates[worst or 0], float(kappa[worst or 0]), float(shift[worst or 0]))
    elif len(left) > thresholds.left * len(candidates):
        reason = Reason.POWERLESS
        detail = f"{len(left)} of {len(candidates)} candidates fit equally well."
    identified = collapse(left, f.new_tensor([float(D[candidates.index(one)] / V) for one in left])) if reason is None else ()
    return Verdict(best, identified, left, reason, detail, float(errors[star]), bound, coordinates)


def _towards(best: Candidate, other: Candidate, kappa: float, shift: float) -> str:
    side = "from the nearest candidate towards" if kappa < 0 else "beyond the nearest candidate, seen from"
    return (
        f"They lie {percent(shift)} of their own size {side} {other.title} (coordinate {kappa:.2f}; the nearest is "
        f"{best.title})."
    )


def _scaling(residual: Tensor, g: Tensor, weights: Tensor, V: float, thresholds: Thresholds) -> str:
    """Return a sentence if the model is the best candidate times a constant other than 1, which no candidate is."""
    products, squares = (residual * g).mean(1), g.square().mean(1)
    drawn = (weights @ products) / (weights @ squares)
    tail = (1 - thresholds.level) / 2
    low, high = (float(end) for end in torch.quantile(drawn, torch.tensor([tail, 1 - tail], dtype=torch.float64)))
    factor = float(products.mean() / squares.mean())
    shift = abs(factor) * float((squares.mean() / V).sqrt())
    if (low > 0 or high < 0) and shift > thresholds.misfit:
        return f"They are the nearest candidate's times {1 + factor:.3f}, which is no candidate."
    return ""


def collapse(left: Sequence[Candidate], distances: Tensor) -> tuple[Candidate, ...]:
    """Return the candidates without those that only repeat a more specific one.

    A member of a family that contains another family is dropped if a member of that other family, with as many steps
    or fewer, is left too.
    """
    kept = []
    for one in left:
        special = (
            other for other in left
            if one.family.name in other.family.within and (other.member.steps or 0) <= (one.member.steps or 10**6)
        )  # fmt: skip
        deeper = one.family.name == "polynomial" and any(
            other.family.name == "polynomial" and (other.member.steps or 0) < (one.member.steps or 0) for other in left
        )
        if next(special, None) is None and not deeper:
            kept.append(one)
    return tuple(kept)


def name_of(candidates: Sequence[Candidate]) -> str:
    """Return what a set of candidates is called: one candidate, or the class to which all of them belong."""
    if not candidates:
        return "nothing"
    by_family: dict[str, list[Candidate]] = {}
    for one in candidates:
        by_family.setdefault(one.family.name, []).append(one)
    exact = [one for one in candidates if one.family.kind == "exact"]
    if exact:
        others = len(by_family) - len({one.family.name for one in exact})
        also = f" (converged: {count(others, 'iterative family', 'iterative families')} of candidates are the same function here)"
        return exact[0].described + (also if others else "")
    depths = {one.member.steps for one in candidates}
    if all(one.family.kind == "polynomial" for one in candidates) and len(depths) == 1 and len(by_family) > 1:
        names = listed([members[0].family.title for members in by_family.values()], "or")
        return f"a fixed-coefficient method of {count(depths.pop() or 0, 'step')} ({names}: one function)"
    if len(by_family) == 1 and len(candidates) > 1:
        steps = listed([number(one.member.steps or 0) for one in candidates], "or")
        return f"{candidates[0].family.title} of {steps} steps"
    return listed([one.described for one in candidates], "or")
