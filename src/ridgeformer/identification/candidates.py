"""What a candidate is: a family of in-context algorithms with free parameters, and its members by depth and unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Iterative, resolve
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.words import count, number
from ridgeformer.identification.problems import DenseSystem, Problems, last_steps

__all__ = ["Candidate", "CandidateLike", "Family", "Member", "families_of"]


@dataclass(frozen=True)
class Member:
    """One depth of a family in one unit.

    Attributes:
        steps: How many; None where the family has no steps.
        mean: Whether K is divided by the number of supports.
        adaptive: Whether the step size is divided by ridge + trace K, found in context.
    """

    steps: int | None = None
    mean: bool = False
    adaptive: bool = False


Predict: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Problems], Tensor]
"""(theta (M, P), steps (M,), mean (M,), adaptive (M,), problems) to predictions (M, tasks, queries)."""


@dataclass(frozen=True, eq=False)
class Family:
    """A family of candidates.

    Attributes:
        name: Short name, as users select it.
        title: What it is called.
        members: Its depths and units; each is a candidate of its own.
        parameters: Names of the free parameters.
        predict: The predictions, batched over parameter vectors.
        starts: (problems, targets (T, q)) to starting points (S, P).
        show: (theta of one member, its scale) to the parameters as a person reads them.
        within: Names of more general families that contain it.
        kind: "polynomial" (fixed coefficients: the weights are a fixed polynomial of X'X times X'y), "exact"
            (converged) or "other".
        solve: A closed-form fit (member, problems, targets) to theta, in place of starts and gradients.
        most_features: Largest number of features for which it is affordable.
        needs_covariance: Whether it needs the covariance of the rows, where all tasks share one.
        lower: Lower bounds of the parameters.
        centred: Whether its units are those of centred rows.
    """

    name: str
    title: str
    members: tuple[Member, ...]
    parameters: tuple[str, ...]
    predict: Predict
    starts: Callable[[Problems, Tensor], Tensor]
    show: Callable[[Tensor, float], dict[str, float]]
    within: frozenset[str] = frozenset()
    kind: str = "other"
    solve: Callable[[Member, Problems, Tensor], Tensor] | None = None
    most_features: int | None = None
    needs_covariance: bool = False
    lower: tuple[float, ...] | None = None
    centred: bool = False

    def suits(self, problems: Problems) -> bool:
        """Return whether it can be run on these tasks."""
        small = self.most_features is None or problems.tasks.features <= self.most_features
        return small and not (self.needs_covariance and problems.tasks.covariance is None)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted member of a family.

    Attributes:
        theta: Fitted parameters as the optimiser has them.
        values: The same as a person reads them.
        loss: Mean squared error on the tasks it was fitted on, in units of the model's own mean square.
    """

    family: Family
    member: Member
    theta: Tensor
    values: dict[str, float]
    loss: float

    @property
    def key(self) -> str:
        """A short unique name, such as "gd-3/k"."""
        steps = "" if self.member.steps is None else f"-{self.member.steps}"
        unit = "/k" if self.member.mean else "/trace" if self.member.adaptive else ""
        return f"{self.family.name}{steps}{unit}"

    @property
    def title(self) -> str:
        """What it is called, with its depth."""
        if self.member.steps is None or self.family.name in ("knn", "pcr"):
            return self.family.title if self.member.steps is None else f"{self.family.title} ({self.member.steps})"
        return f"{count(self.member.steps, 'step')} of {self.family.title}"

    @property
    def described(self) -> str:
        """The title with its fitted parameters."""
        shown = ", ".join(f"{name} {number(value)}" for name, value in self.values.items())
        unit = ", K divided by k" if self.member.mean and self.values else ""
        unit = ", step divided by the trace" if self.member.adaptive else unit
        return f"{self.title} ({shown}{unit})" if shown else self.title

    def predict(self, problems: Problems) -> Tensor:
        """Return its predictions, (T, q)."""
        return self.family.predict(self.theta[None], *indicators([self.member]), problems)[0]


def indicators(members: Sequence[Member]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the steps, and whether K and the step are divided, of each member."""
    steps = torch.tensor([member.steps or 0 for member in members])
    return steps, torch.tensor([one.mean for one in members]), torch.tensor([one.adaptive for one in members])


CandidateLike: TypeAlias = "Family | Algorithm | str | Callable[[Tensor, Tensor, Tensor], Tensor]"
"""A family, its name, an algorithm value (with the dot-product kernel and a free ridge), or a function."""


def families_of(candidates: str | Sequence[CandidateLike], known: dict[str, Family]) -> tuple[Family, ...]:
    """Return the families of a selection; "default" is all that are known, and names prefixed with "-" are left out.

    Raises:
        UnknownNameError: a family that is not known.
    """
    given: Sequence[CandidateLike] = [candidates] if isinstance(candidates, str) else list(candidates)
    found: dict[str, Family] = {}
    for one in given:
        if isinstance(one, str) and one == "default":
            found |= known
        elif isinstance(one, str) and one.startswith("-") and one[1:] in known:
            found.pop(one[1:], None)
        elif isinstance(one, str) and one in known:
            found[one] = known[one]
        elif isinstance(one, str):
            raise unknown_name("family", one, [*known, "default"])
        elif isinstance(one, Family):
            found[one.name] = one
        elif isinstance(one, Algorithm):
            family = _of_algorithm(one)
            found[family.name] = family
        elif callable(one):
            family = _of_function(one)
            found[family.name] = family
        else:
            raise InputError(f"candidate {one!r} is not a family, an algorithm, a name or a function (X, y, Xq).")
    if len(found) < 2:
        raise InputError("give at least two candidate families: an answer excludes others, so there must be others.")
    return tuple(found.values())


def _of_algorithm(given: Algorithm) -> Family:
    """Return a user's algorithm value on the dot-product kernel as a family with a free ridge."""
    algorithm = resolve(given)
    if not isinstance(algorithm, Iterative) or algorithm.steps is None:
        raise InputError(f"{algorithm!r} cannot be a candidate: give an iterative algorithm with steps=.")
    name, depth = f"your {algorithm.name}", algorithm.steps

    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        ridge = (theta[:, 0].exp() * problems.scale(mean))[:, None]

        def of_group(group: object) -> Tensor:
            X, y, Xq = group.X, group.y, group.Xq  # type: ignore[attr-defined]
            (T, k, _), M = X.shape, len(theta)
            A = (X @ X.mT)[None] + ridge[..., None, None] * torch.eye(k, dtype=X.dtype)
            A = A.expand(M, T, k, k).reshape(M * T, k, k)
            b = y.T[:, None].expand(k, M, T).reshape(k, M * T)
            ends = torch.linalg.eigvalsh(A)
            column = ridge.expand(M, T).reshape(-1)
            limits = (ends[:, 0].clamp_min(1e-12), ends[:, -1])
            alpha = last_steps(algorithm, DenseSystem(A, column), b, torch.full((M * T,), depth), limits)
            return torch.einsum("tqk,kmt->mtq", Xq @ X.mT, alpha.reshape(k, M, T))

        return problems.by_group(of_group)

    def starts(problems: Problems, targets: Tensor) -> Tensor:
        return torch.tensor([[-14.0], [-5.0], [-2.5], [-0.5]], dtype=torch.float64)

    def show(theta: Tensor, scale: float) -> dict[str, float]:
        return {"ridge": float(theta[0].exp()) * scale}

    members = (Member(depth),)
    return Family(name, f"{algorithm.family} (yours)", members, ("ridge",), predict, starts, show)


def _of_function(given: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Family:
    """Return a user's function (X, y, Xq) of one task as a family without parameters."""
    name = getattr(given, "__name__", type(given).__name__)

    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        rows = [
            torch.as_tensor(given(*task)).double().reshape(-1)
            for group in problems.groups
            for task in zip(group.X, group.y, group.Xq, strict=True)
        ]
        return torch.stack(rows)[None].expand(len(theta), -1, -1)

    def starts(problems: Problems, targets: Tensor) -> Tensor:
        return torch.zeros(1, 0, dtype=torch.float64)

    return Family(name, name, (Member(),), (), predict, starts, lambda theta, scale: {})
