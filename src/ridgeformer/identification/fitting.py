"""Fitting candidates: Levenberg-Marquardt from several starts, all members and starts of a family in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ridgeformer.identification.candidates import Candidate, Family, Member, indicators
from ridgeformer.identification.problems import Problems

__all__ = ["fit", "group_rms"]

KEPT_STARTS = 4  # twice as many for three or more parameters
ITERATIONS = 50
FORWARD, CENTRAL = 1e-7, 1e-5  # steps of differences; parameters are logarithms or of order one
PRECISE = 12  # iterations from which derivatives are central differences
GAIN = 1e-9  # relative decrease below which a fit has converged
EXACT = 1e-22  # a loss at which nothing is left but rounding
HOPELESS = {7: 0.15, 15: 0.03, 30: 1e-3}
"""Iterations after which a start that leaves this fraction unexplained is given up."""


def group_rms(problems: Problems, targets: Tensor) -> Tensor:
    """Return the root mean square of the targets of each task's group, (T,)."""
    sizes = torch.stack(
        [targets[problems.members == place].square().mean().sqrt() for place in range(len(problems.groups))]
    )
    return sizes.clamp_min(1e-300)[problems.members]


@torch.inference_mode()
def fit(
    families: Iterable[Family], problems: Problems, targets: Tensor, warm: Sequence[Candidate] | None = None
) -> tuple[Candidate, ...]:
    """Return every member of every family with the parameters that come nearest to the targets, (T, q).

    Errors are relative to the root mean square of the targets in their group. With `warm`, fits start from those
    candidates, and only from those.
    """
    weight = 1 / group_rms(problems, targets)[:, None]
    found = []
    for family in families:
        if not family.suits(problems):
            continue
        given = None if warm is None else [one for one in warm if one.family is family]
        if given is not None and not given:
            continue
        found += _fit_family(family, problems, targets, weight, given)
    return tuple(found)


def _fit_family(
    family: Family, problems: Problems, targets: Tensor, weight: Tensor, warm: Sequence[Candidate] | None
) -> list[Candidate]:
    members = list(family.members) if warm is None else [one.member for one in warm]
    if family.solve is not None:
        thetas = [family.solve(member, problems, targets) for member in members]
        return [
            _candidate(family, m, theta, problems, targets, weight) for m, theta in zip(members, thetas, strict=True)
        ]
    if warm is not None:
        start = torch.stack([one.theta for one in warm])[:, None]
    else:
        start = _choose_starts(family, members, problems, targets, weight)
    theta = start.flatten(0, 1)
    owners = [member for member in members for _ in range(start.shape[1])]
    theta, loss = _descend(family, owners, theta, problems, targets, weight, ITERATIONS if warm is None else 6)
    best = loss.reshape(len(members), start.shape[1]).argmin(1)
    chosen = theta.reshape(start.shape)[torch.arange(len(members)), best]
    return [_candidate(family, m, one, problems, targets, weight) for m, one in zip(members, chosen, strict=True)]


def _choose_starts(
    family: Family, members: list[Member], problems: Problems, targets: Tensor, weight: Tensor
) -> Tensor:
    """Return the few starts of smallest loss for every member, (members, starts, P)."""
    starts = family.starts(problems, targets)
    if len(starts) <= 1:
        return starts[None].expand(len(members), -1, -1).clone()
    owners = [member for member in members for _ in starts]
    loss = _losses(family, owners, starts.repeat(len(members), 1), problems, targets, weight)[0]
    kept = KEPT_STARTS * (2 if starts.shape[1] > 2 else 1)
    order = loss.reshape(len(members), -1).argsort(1)[:, : min(kept, len(starts))]
    return starts[order]


def _losses(
    family: Family, owners: Sequence[Member], theta: Tensor, problems: Problems, targets: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mean squared errors, (M,), infinite where not finite, and the errors, (M, T q)."""
    errors = ((family.predict(theta, *indicators(owners), problems) - targets) * weight).flatten(1)
    loss = errors.square().mean(1)
    return torch.where(torch.isfinite(loss), loss, torch.inf), errors


def _descend(
    family: Family, owners: list[Member], theta: Tensor, problems: Problems, targets: Tensor, weight: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    """Minimise by Levenberg-Marquardt; derivatives are differences, taken in one batch with the starts."""
    M, P = theta.shape
    loss, errors = _losses(family, owners, theta, problems, targets, weight)
    damping = torch.full((M,), 1e-3, dtype=torch.float64)
    active = torch.isfinite(loss)
    still = torch.zeros(M, dtype=torch.long)
    floor = None if family.lower is None else torch.tensor(family.lower, dtype=torch.float64)
    for turn in range(most if P else 0):
        rows = active.nonzero()[:, 0]
        if not len(rows):
            break
        at = theta[rows]
        some = [owners[int(row)] for row in rows]

        def moved(by: float, at: Tensor = at, some: list[Member] = some) -> Tensor:
            beside = (at[:, None] + by * torch.eye(P, dtype=torch.float64)).reshape(-1, P)
            found = _losses(family, [one for one in some for _ in range(P)], beside, problems, targets, weight)[1]
            return found.reshape(len(at), P, -1)

        if turn < PRECISE:
            J = (moved(FORWARD) - errors[rows, None]) / FORWARD
        else:
            J = (moved(CENTRAL) - moved(-CENTRAL)) / (2 * CENTRAL)
        J = torch.where(torch.isfinite(J), J, 0.0)
        if floor is not None:  # a parameter at its bound that wants to go below stays, and the others move without it
            outwards = (J @ errors[rows][..., None])[..., 0] > 0
            J = torch.where(((at <= floor) & outwards)[..., None], 0.0, J)
        normal, gradient = J @ J.mT, (J @ errors[rows][..., None])[..., 0]
        scale = normal.diagonal(dim1=1, dim2=2).clamp_min(
            1e-12 * normal.diagonal(dim1=1, dim2=2).amax(1, keepdim=True) + 1e-30
        )
        A = normal + torch.diag_embed(damping[rows, None] * scale)
        step = (
            torch.linalg.lstsq(A, gradient[..., None]).solution[..., 0]
            if P == 1
            else torch.linalg.solve_ex(A, gradient)[0]
        )
        step = torch.where(torch.isfinite(step), step, 0.0).clamp(-3.0, 3.0)
        new = at - step if floor is None else torch.maximum(at - step, floor)
        new_loss, new_errors = _losses(family, some, new, problems, targets, weight)
        better = new_loss < loss[rows]
        gained = (loss[rows] - new_loss) > GAIN * loss[rows]
        kept = rows[better]
        theta, loss, errors = theta.clone(), loss.clone(), errors.clone()
        theta[kept], loss[kept], errors[kept] = new[better], new_loss[better], new_errors[better]
        damping[rows] = torch.where(better, damping[rows] / 10, damping[rows] * 6).clamp(1e-14, 1e8)
        still[rows] = torch.where(better & gained, 0, still[rows] + (better & ~gained))
        limit = min((most_left for tried, most_left in HOPELESS.items() if turn >= tried), default=torch.inf)
        active = active & (still < 2) & (damping < 1e6) & (loss > EXACT) & (loss < limit)
    return theta, loss


def _candidate(
    family: Family, member: Member, theta: Tensor, problems: Problems, targets: Tensor, weight: Tensor
) -> Candidate:
    if family.parameters[:1] == ("step 1",) and member.steps is not None:  # one parameter a step: the rest is unused
        theta = torch.where(torch.arange(len(theta)) < member.steps, theta, 0.0)
    units = problems.centred if family.centred else problems
    scale = float(units.scale(torch.tensor(member.mean)))
    values = family.show(theta, scale)
    if member.adaptive:
        values["step"] = values["step"] * scale
    loss = float(_losses(family, [member], theta[None], problems, targets, weight)[0])
    return Candidate(family, member, theta, values, loss)
