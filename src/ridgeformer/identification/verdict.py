"""The verdict on behaviour: coordinates of the model between candidates, bootstrapped over tasks, and their meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import listed, percent
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.fitting import group_rms
from ridgeformer.identification.problems import Problems

__all__ = ["THRESHOLDS", "BehaviourVerdict", "Coordinate", "Reason", "Thresholds", "judge", "name_of"]


@dataclass(frozen=True)
class Thresholds:
    """Where the protocol draws its lines; `identify-nulls` and `identify-compiled` measure what they are worth.

    Attributes:
        coordinate: A candidate is excluded if its whole interval is at most this far from 0.
        misfit: Systematic distance of a candidate from the model, in units of the model's own size, beyond which it
            is excluded, and not named if it is the best one. Repeated calls tell it from noise.
        equal: Systematic distance above which the model only approximates the best candidate, and the answer says so.
        sigmas: Standard deviations of that noise which a systematic distance must exceed as well.
        unexplained: Fraction of the model's mean square that the best candidate may leave unexplained.
        same: Squared distance below which two candidates are one function.
        exact: Fraction that a family with a free parameter a step may leave unexplained: it approximates anything.
        left: Fraction of the candidates that may stay, farther than `misfit` from the best one, before the tasks are
            called powerless.
        draws: Bootstrap samples of the tasks.
        level: Confidence level of the intervals.
    """

    coordinate: float = 0.2
    misfit: float = 0.02
    equal: float = 1e-3
    sigmas: float = 3.0
    unexplained: float = 0.03
    same: float = 1e-12
    exact: float = 1e-10
    left: float = 1 / 3
    draws: int = 400
    level: float = 0.99


THRESHOLDS = Thresholds()


class Reason(StrEnum):
    """Why there is no answer."""

    UNEXPLAINED = "no candidate explains the predictions"
    MISFIT = "the predictions lie between or beside the candidates"
    NEAR = "the predictions are near a candidate, and not its own"
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
class BehaviourVerdict:
    """What the predictions say.

    Attributes:
        best: The candidate of smallest held-out error; None if there was nothing to compare.
        identified: The candidates that remain after nested families are collapsed; empty if it abstains.
        remaining: All candidates that are not excluded, the best one first.
        reason: Why it abstains, else None.
        detail: One sentence about the reason.
        unexplained: Fraction left unexplained by the best candidate, noise of the model included.
        unexplained_bound: The 97.5 % bound of it.
        resolution: Upper bound on the systematic distance from the best candidate, as a fraction of the model's own
            size: what is left after the noise that repeated calls show, or what that noise can hide, whichever is more.
            The answer holds to within this.
        systematic: Estimate of that distance; 0 where noise explains it.
        approximate: Whether it shows that the model is not the best candidate itself: imperfect training, or a relative
            that is not listed. The answer then names what is approximated.
        coordinates: One for every other candidate.
    """

    best: Candidate | None
    identified: tuple[Candidate, ...]
    remaining: tuple[Candidate, ...]
    reason: Reason | None
    detail: str
    unexplained: float
    unexplained_bound: float
    resolution: float
    systematic: float
    approximate: bool
    coordinates: tuple[Coordinate, ...]

    @property
    def name(self) -> str:
        """The answer as a noun phrase, or the reason that there is none."""
        if self.reason is not None:
            return str(self.reason.value)
        return f"an approximation of {self.approximated}" if self.approximate else name_of(self.identified)

    @property
    def approximated(self) -> str:
        """What the model is, or is near, as a noun phrase; a regression that it is only near, without its solvers."""
        exact = [one for one in self.identified if one.family.kind == "exact"]
        return exact[0].described if exact and self.approximate else name_of(self.identified)

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
    noise: Tensor | None = None,
) -> BehaviourVerdict:
    """Return the verdict on predictions f, (T, q), on tasks that no candidate was fitted on.

    A model that answers the same call in the same way has no noise: all that a candidate leaves is systematic then.

    Args:
        candidates: Fitted candidates.
        problems: The held-out tasks.
        f: The model's predictions.
        seed: Of the bootstrap.
        thresholds: Where the lines are.
        predictions: Those of the candidates, (C, T, q), where already computed.
        noise: Variance of f, (T,), as repeated calls of the model show it; None for a deterministic model.
    """
    if not bool(f.abs().max() > 0):
        return BehaviourVerdict(None, (), (), Reason.EMPTY, "Every prediction is zero.", 1.0, 1.0, 1.0, 1.0, False, ())
    rms = group_rms(problems, f)[:, None]
    g = torch.stack([one.predict(problems) for one in candidates]) if predictions is None else predictions
    g, f = torch.nan_to_num(g, nan=1e150, posinf=1e150, neginf=-1e150).clamp(-1e150, 1e150) / rms, f / rms
    V = float(f.square().mean())
    errors = (f - g).square().mean((1, 2)) / V
    star = int(errors.argmin())
    residual, towards = f - g[star], g[star] - g
    products, squares = (residual * towards).mean(2), towards.square().mean(2)  # (C, T)
    weights = _resampled(f.shape[0], thresholds.draws, seed)
    D = squares.mean(1)
    kappa = products.mean(1) / D.clamp_min(1e-300)
    drawn = (weights @ products.T) / (weights @ squares.T).clamp_min(1e-300)
    tail = (1 - thresholds.level) / 2
    low, high = torch.quantile(drawn, torch.tensor([tail, 1 - tail], dtype=torch.float64), dim=0)
    same = thresholds.same >= D / V
    shift = kappa * (D / V).sqrt()
    size = (weights @ f.square().mean(1)).sqrt()[:, None]
    moved = (weights @ products.T) / ((weights @ squares.T).sqrt() * size).clamp_min(1e-300)
    odd = (torch.quantile(moved.abs(), tail, dim=0) > thresholds.misfit) & (shift.abs() > thresholds.misfit) & ~same
    odd[star] = False
    ratio = (weights @ residual.square().mean(1)) / size[:, 0].square()
    bound = float(torch.quantile(ratio, 0.975))
    spread = torch.zeros(len(f), dtype=torch.float64) if noise is None else noise / rms[:, 0].square()
    excess = (f - g).square().mean(2) - spread  # (C, T): squared errors beyond the noise of the model
    systematic = (excess.mean(1) / V).clamp_min(0).sqrt()
    chance = (2 / f.shape[1]) ** 0.5 * float(spread.norm()) / len(f) / V  # of the mean of `excess`, by noise alone
    shown = systematic.square() > thresholds.sigmas * chance  # more than noise
    rejected = (systematic > thresholds.misfit) & shown
    approximate = bool(systematic[star] > thresholds.equal) and bool(shown[star])
    apart = max(_upper_mean(excess[star], weights, tail) / V, thresholds.sigmas * chance) ** 0.5
    excluded = rejected | (low >= -thresholds.coordinate) & (high <= thresholds.coordinate)
    excluded &= ~same
    excluded[star] = False
    coordinates = tuple(
        Coordinate(one, float(kappa[c]), float(low[c]), float(high[c]), float((D[c] / V).sqrt()), float(errors[c]),
                   bool(excluded[c]))
        for c, one in enumerate(candidates) if c != star
    )  # fmt: skip
    best = candidates[star]
    left = (best, *(one.candidate for one in coordinates if not one.excluded))
    sideways = _scaling(residual, g[star], weights, V, thresholds)
    if bool(odd.any()) and not sideways:
        worst = int(torch.where(odd, shift.abs(), -1.0).argmax())
        sideways = _towards(best, candidates[worst], float(kappa[worst]), abs(float(shift[worst])))
    away = float(systematic[star]) if bool(rejected[star]) else None
    reason, detail = _reason(best, float(errors[star]), bound, sideways, away, coordinates, thresholds)
    squared = {one: (f - g[c]).square().mean(1) for c, one in enumerate(candidates)}
    identified = collapse(left, squared, weights, thresholds) if reason is None else ()
    if _only_generic(identified) and float(errors[star]) > thresholds.exact:
        reason, identified = Reason.MISFIT, ()
        detail = f"A polynomial of the Gram matrix ({best.title}) approximates them, but no listed algorithm has it."
    return BehaviourVerdict(
        best, identified, left, reason, detail, float(errors[star]), bound, float(apart), float(systematic[star]),
        approximate, coordinates,
    )  # fmt: skip


def _reason(
    best: Candidate,
    error: float,
    bound: float,
    sideways: str,
    away: float | None,
    coordinates: Sequence[Coordinate],
    thresholds: Thresholds,
) -> tuple[Reason | None, str]:
    """Return why the best candidate may not be named, and a sentence about it; None if it may."""
    if bound > thresholds.unexplained:
        return Reason.UNEXPLAINED, (
            f"The nearest, {best.title}, leaves {percent(error)} of the predictions unexplained (up to "
            f"{percent(bound)}; {percent(thresholds.unexplained)} are allowed)."
        )
    if sideways:
        return Reason.MISFIT, sideways
    if away is not None:
        return Reason.NEAR, (
            f"They are {percent(away)} of their own size away from those of {best.title}, noise of the model apart; "
            f"{percent(thresholds.misfit)} are allowed."
        )
    beside = 1 + sum(not one.excluded and one.distance > thresholds.misfit for one in coordinates)
    count = 1 + len(coordinates)
    if beside > max(1.0, thresholds.left * count):
        return Reason.POWERLESS, (
            f"{beside} of {count} candidates remain, more than {percent(thresholds.misfit)} apart."
        )
    return None, ""


def _resampled(tasks: int, draws: int, seed: int) -> Tensor:
    """Return how often each task is drawn in each bootstrap sample, (draws, T)."""
    picks = torch.randint(tasks, (draws, tasks), generator=torch_generator(seed, "bootstrap over tasks"))
    return torch.zeros(draws, tasks, dtype=torch.float64).scatter_add_(1, picks, torch.ones_like(picks).double())


def _upper_mean(values: Tensor, weights: Tensor, tail: float) -> float:
    """Return an upper bound on the mean of values, one a task, at least 0: the bootstrap of Student's t.

    Squared errors are skewed: a few tasks hold most of them, and where a sample lacks these its mean and its standard
    error are small together. Quantiles of resampled means do not see that; those of t do.
    """
    count, mean = len(values), values.mean()
    means = weights @ values / count
    errors = ((weights @ values.square() / count - means.square()).clamp_min(0) / count).sqrt()
    error = values.std(correction=0) / count**0.5
    spread = torch.where(errors > 1e-9 * error, (means - mean) / errors, 0.0)
    return max(0.0, float(mean - torch.quantile(spread, tail) * error))


def _only_generic(identified: Sequence[Candidate]) -> bool:
    """Return whether nothing is left but families with a free parameter a step, which approximate smooth functions."""
    return bool(identified) and all(
        one.family.name == "polynomial" or (one.family.name == "gd_unequal" and (one.member.steps or 0) >= GENERIC)
        for one in identified
    )


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


def collapse(
    left: Sequence[Candidate], squared: Mapping[Candidate, Tensor], weights: Tensor, thresholds: Thresholds
) -> tuple[Candidate, ...]:
    """Return the candidates without those that only repeat a more specific one.

    A member of a family that contains another family is dropped if a member of that other family, with as many steps
    or fewer, is left too and its squared errors, (T,), are not significantly larger. Unequal steps and free
    coefficients contain their own smaller depths.
    """

    def contains(one: Candidate, other: Candidate) -> bool:
        depth, less = one.member.steps or 10**6, other.member.steps or 0
        smaller = one.family.name in GROWING and other.family is one.family and less < depth
        return smaller or (one.family.name in other.family.within and less <= depth)

    def as_good(other: Candidate, one: Candidate) -> bool:
        excess = weights @ (squared[other] - squared[one])
        return float(torch.quantile(excess, (1 - thresholds.level) / 2)) <= 0

    return tuple(
        one
        for one in left
        if not any(contains(one, other) and as_good(other, one) for other in left if other is not one)
    )


GENERIC = 3
"""Number of free step sizes from which gradient descent with unequal steps approximates its relatives."""

GROWING = ("polynomial", "gd_unequal", "gd_matrix", "gd_covariance")
"""Families whose every depth contains the smaller ones."""


def name_of(candidates: Sequence[Candidate]) -> str:
    """Return what a set of candidates is called: one candidate, or the class to which all of them belong."""
    if not candidates:
        return "nothing"
    if len(candidates) == 1:
        return candidates[0].described
    by_family: dict[str, list[Candidate]] = {}
    for one in candidates:
        by_family.setdefault(one.family.name, []).append(one)
    exact = [one for one in candidates if one.family.kind == "exact"]
    phrases = [_with_depths(members) for members in by_family.values()]
    if exact:
        others = [_with_depths(members) for name, members in by_family.items() if members[0].family.kind != "exact"]
        same = f", converged: here the same function as {listed(others, 'and')}" if others else ""
        return exact[0].described + same
    if all(one.family.kind == "polynomial" for one in candidates):
        depths = sorted({one.member.steps or 0 for one in candidates})
        steps = f"{depths[0]} steps" if len(depths) == 1 else f"{depths[0]} to {depths[-1]} steps"
        if len(by_family) > 1:
            return f"a fixed-coefficient method of {steps}, not told apart by predictions: {listed(phrases, 'or')}"
    return listed(phrases, "or")


def _with_depths(members: Sequence[Candidate]) -> str:
    """Return the candidates of one family as a phrase."""
    if len(members) == 1:
        return members[0].title
    depths = sorted({one.member.steps or 0 for one in members})
    title = members[0].family.title
    if depths[-1] == 0:
        return title
    return f"{title} ({depths[0]} steps)" if len(depths) == 1 else f"{title} ({depths[0]} to {depths[-1]} steps)"
