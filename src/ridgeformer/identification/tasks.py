"""Task designs: the regression problems on which a learner and the candidates are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_tensor, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import number

__all__ = ["POOL", "Setting", "TaskGroup", "TaskSource", "Tasks", "draw", "separating", "standard", "tasks_from"]

TaskSource: TypeAlias = Callable[[torch.Generator], Sequence[ArrayLike]]
"""A task distribution: a generator to (X, y, Xq) or (X, y, Xq, yq) of one task."""

LENGTH_NOTE = "rows have a mean squared length of d"


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """Tasks of one shape.

    Attributes:
        name: In words.
        X: Supports.
        y: Their targets.
        Xq: Queries.
        truth: Noiseless targets of the queries, where known; published similarities need them.
    """

    name: str
    X: Float[Tensor, "tasks k d"]
    y: Float[Tensor, "tasks k"]
    Xq: Float[Tensor, "tasks q d"]
    truth: Float[Tensor, "tasks q"] | None = None

    def take(self, chosen: slice) -> TaskGroup:
        """Return some of the tasks."""
        truth = None if self.truth is None else self.truth[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], Xq=self.Xq[chosen], truth=truth)


@dataclass(frozen=True, eq=False)
class Tasks:
    """A design: groups of tasks, and the covariance of the rows where all tasks share one."""

    name: str
    groups: tuple[TaskGroup, ...]
    covariance: Float[Tensor, "d d"] | None = None

    def __post_init__(self) -> None:
        if not self.groups or min(len(group.X) for group in self.groups) < 4:
            raise InputError("every group needs at least 4 tasks, half to fit the candidates and half to judge them.")

    @property
    def features(self) -> int:
        """Features of a row."""
        return self.groups[0].X.shape[-1]

    @property
    def count(self) -> int:
        """Number of tasks."""
        return sum(len(group.X) for group in self.groups)

    def halves(self) -> tuple[Tasks, Tasks]:
        """Return the tasks that parameters are fitted on, and those on which everything is judged."""
        first = tuple(group.take(slice(0, None, 2)) for group in self.groups)
        second = tuple(group.take(slice(1, None, 2)) for group in self.groups)
        return Tasks.unchecked(self, first), Tasks.unchecked(self, second)

    @staticmethod
    def unchecked(like: Tasks, groups: tuple[TaskGroup, ...]) -> Tasks:
        """Return a design with other groups, however few tasks these have."""
        made = object.__new__(Tasks)
        for name, value in (("name", like.name), ("groups", groups), ("covariance", like.covariance)):
            object.__setattr__(made, name, value)
        return made


@dataclass(frozen=True)
class Setting:
    """How a group of tasks is drawn.

    Attributes:
        supports: k.
        condition: Condition number of the rows' covariance, whose eigenvalues fall geometrically.
        even: Whether w ~ N(0, Sigma^-1), so that every principal direction matters alike, or N(0, I).
        noise: Standard deviation of the label noise; the noiseless targets have variance 1.
    """

    supports: int
    condition: float
    even: bool
    noise: float

    @property
    def name(self) -> str:
        """The setting in words."""
        weights = ", even in all directions" if self.even else ""
        return f"k = {self.supports}, condition {number(self.condition)}{weights}, noise {number(self.noise)}"


def draw(
    setting: Setting, features: int, tasks: int, queries: int, generator: torch.Generator, *, turn: bool = True
) -> TaskGroup:
    """Return a group; with `turn` every task has principal directions of its own."""
    d = features
    spectrum = (
        torch.logspace(0, -1, d, base=setting.condition, dtype=torch.float64) if d > 1 else torch.ones(1).double()
    )
    spectrum = spectrum * d / spectrum.sum()

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    basis = torch.linalg.qr(normal(tasks, d, d)).Q if turn else torch.eye(d, dtype=torch.float64).expand(tasks, d, d)
    root = spectrum.sqrt()[:, None] * basis.mT  # rows z'root have covariance basis diag(spectrum) basis'
    X, Xq = normal(tasks, setting.supports, d) @ root, normal(tasks, queries, d) @ root
    weights = normal(tasks, d) / (spectrum.sqrt() if setting.even else 1.0)
    w = (basis @ weights[..., None])[..., 0] / d**0.5
    clean, truth = (X @ w[..., None])[..., 0], (Xq @ w[..., None])[..., 0]
    return TaskGroup(setting.name, X, clean + setting.noise * normal(tasks, setting.supports), Xq, truth)


def _queries(features: int) -> int:
    return max(8, features + 2)


def standard(
    features: int, *, supports: int | None = None, tasks: int = 72, noise: float = 0.0, seed: int = 0
) -> Tasks:
    """Return the usual tasks of the literature: x ~ N(0, I), w ~ N(0, I / d), k = 2d + 1 supports unless given.

    They separate algorithms poorly; use them for a model that was trained on them.

    Example:
        >>> standard(5).groups[0].X.shape
        torch.Size([72, 11, 5])
    """
    features = whole(features, "features", 1)
    supports = 2 * features + 1 if supports is None else whole(supports, "supports", 1)
    setting = Setting(supports, 1.0, False, noise)
    group = draw(setting, features, tasks, _queries(features), torch_generator(seed, "standard tasks"))
    name = f"standard tasks (x ~ N(0, I), {supports} supports, label noise {number(noise)})"
    return Tasks(name, (group,), torch.eye(features, dtype=torch.float64))


def separating(features: int, *, tasks: int = 72, seed: int = 0, settings: Sequence[Setting] | None = None) -> Tasks:
    """Return tasks that keep algorithms apart: few and many supports, condition numbers 10, 100 and 30, label noise.

    Rows have a mean squared length of d, as rows drawn from N(0, I) have.

    Example:
        >>> [group.X.shape[1] for group in separating(5).groups]
        [6, 20, 12]
    """
    d = whole(features, "features", 1)
    mix = settings or (
        Setting(d + 1, 10.0, False, 0.3),
        Setting(4 * d, 100.0, True, 0.3),
        Setting(2 * d + 2, 30.0, True, 0.3),
    )
    each = max(4, tasks // len(mix))
    groups = [
        draw(setting, d, each, _queries(d), torch_generator(seed, "separating tasks", place))
        for place, setting in enumerate(mix)
    ]
    chosen = "" if settings is None else " chosen for these candidates"
    return Tasks(f"separating tasks{chosen} ({'; '.join(group.name for group in groups)})", tuple(groups))


def POOL(features: int) -> tuple[Setting, ...]:  # noqa: N802
    """Return the settings among which separating tasks are chosen."""
    d = features
    return tuple(
        Setting(k, condition, even, noise)
        for k in (max(2, d // 2), d + 1, 2 * d + 2, 4 * d)
        for condition, even in ((1.0, False), (10.0, False), (30.0, True), (100.0, True))
        for noise in (0.0, 0.3, 1.0)
    )


def tasks_from(source: TaskSource, *, tasks: int = 72, seed: int = 0) -> Tasks:
    """Return tasks of the user's own distribution, called once a task with a generator; all need one shape.

    Raises:
        ShapeError: tasks of different shapes, or arrays that do not fit together.
    """
    generator = torch_generator(seed, "tasks of the user")
    drawn = []
    for place in range(tasks):
        given = tuple(source(generator))
        if len(given) not in (3, 4):
            raise ShapeError(f"the task distribution returned {len(given)} arrays; (X, y, Xq) was expected.")
        parts = [as_tensor(part, name).double() for part, name in zip(given, ("X", "y", "Xq", "yq"), strict=False)]
        X, y, Xq = parts[:3]
        if X.ndim != 2 or Xq.ndim != 2 or X.shape[1] != Xq.shape[1] or y.shape != X.shape[:1]:
            raise ShapeError(
                f"task {place} has X {tuple(X.shape)}, y {tuple(y.shape)}, Xq {tuple(Xq.shape)}; (k, d), (k,) and "
                "(q, d) were expected."
            )
        drawn.append(parts)
    if any(len({tuple(part.shape) for part in parts}) > 1 for parts in zip(*drawn, strict=True)):
        raise ShapeError(
            "tasks have different shapes: let the distribution return one k and one q, and ask once for each."
        )
    X, y, Xq, *truth = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    rows = X.reshape(-1, X.shape[-1])
    covariance = rows.T @ rows / len(rows)
    group = TaskGroup(f"k = {X.shape[1]}", X, y, Xq, truth[0] if truth else None)
    return Tasks(f"your own tasks (k = {X.shape[1]}, d = {X.shape[2]})", (group,), covariance)
