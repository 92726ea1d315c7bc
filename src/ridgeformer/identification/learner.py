"""A model under test: whatever it is, called with tasks and held to one shape of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledTransformer
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.export import Export
from ridgeformer.identification.adapters import Adapter
from ridgeformer.identification.tasks import TaskGroup, Tasks

__all__ = ["Learner", "ModelLike"]

ModelLike: TypeAlias = "Callable[..., object] | CompiledTransformer | Export | Adapter"
"""A function (X, y, Xq) of one task that returns the predictions, a compiled or exported model, or an adapter."""

REPEATS = 8
SAME = 1e-9  # relative difference of two calls below which a model is deterministic


@dataclass
class Learner:
    """A model and what was noticed while calling it.

    Attributes:
        model: What was given.
        repeats: Calls that are averaged: 1 for a deterministic model.
        noise: Relative difference of two calls on the same task.
        notes: Sentences for the report.
    """

    model: ModelLike
    repeats: int = 1
    noise: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def batched(self) -> bool:
        """Whether the model takes many tasks at once."""
        return isinstance(self.model, CompiledTransformer | Export | Adapter)

    def __call__(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        """Return the predictions for tasks (T, k, d), (T, k), (T, q, d): (T, q) in float64, averaged over calls."""
        return self.measured(X, y, Xq)[0]

    def measured(self, X: Tensor, y: Tensor, Xq: Tensor) -> tuple[Tensor, Tensor]:
        """Return the predictions, (T, q), averaged over calls, and the variance of these means, (T,)."""
        calls = torch.stack([self._once(X, y, Xq) for _ in range(self.repeats)])
        if self.repeats == 1:
            return calls[0], torch.zeros(len(X), dtype=torch.float64)
        return calls.mean(0), calls.var(0).mean(1) / self.repeats

    def _once(self, X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        shape = tuple(Xq.shape[:2])
        with torch.no_grad():
            if isinstance(self.model, Export):
                given = torch.stack([part[..., 0] for part in self.model(X, y, Xq)])
            elif self.batched:
                given = torch.as_tensor(self.model(X, y, Xq))
            else:
                answers = [self._one(self.model(*task), shape[1:]) for task in zip(X, y, Xq, strict=True)]
                given = torch.stack(answers)
        found = given.detach().double()
        if tuple(found.shape) != shape:
            raise ShapeError(
                f"the model returned shape {tuple(found.shape)} for {shape[0]} tasks of {shape[1]} queries; {shape} "
                "was expected: return one number a query."
            )
        return found

    @staticmethod
    def _one(answer: object, shape: tuple[int, ...]) -> Tensor:
        try:
            found = torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ShapeError(f"the model returned {type(answer).__name__}, which is no array ({error}).") from None
        if found.shape == (*shape, 1):
            found = found[..., 0]
        if tuple(found.shape) != shape:
            raise ShapeError(
                f"the model returned shape {tuple(found.shape)} for a task of {shape[0]} queries; {shape} was "
                "expected. For a torch module on token sequences use rf.identification.adapters."
            )
        return found

    def answer(self, tasks: Tasks) -> tuple[Tasks, list[Tensor], list[Tensor]]:
        """Return the groups on which the model answers with numbers, its answers, and their variances over calls.

        Groups that were left out are named in the notes.

        Raises:
            InputError: it answers on none of the groups.
        """
        kept: list[TaskGroup] = []
        answers: list[Tensor] = []
        noises: list[Tensor] = []
        failures: list[str] = []
        for group in tasks.groups:
            try:
                found, noise = self._checked(group)
            except ShapeError:
                raise
            except Exception as error:  # a model of the user may raise anything; the report says what
                failures.append(f"on tasks with {group.name} it raised {type(error).__name__} ({_short(error)})")
                continue
            if not bool(torch.isfinite(found).all()):
                bad = int((~torch.isfinite(found)).sum())
                failures.append(f"on tasks with {group.name} {bad} of {found.numel()} predictions are NaN or infinite")
                continue
            kept.append(group)
            answers.append(found)
            noises.append(noise)
        if not kept:
            raise InputError(
                f"the model gave no usable predictions: {'; '.join(failures)}. Mend it, or give other tasks=."
            )
        self.notes += [f"Left out: {failure}." for failure in failures]
        return Tasks.unchecked(tasks, tuple(kept)), answers, noises

    def _checked(self, group: TaskGroup) -> tuple[Tensor, Tensor]:
        """Return the answers on a group, after a second call has shown whether the model is deterministic."""
        if self.repeats == 1:
            few = group.take(slice(0, 4))
            first, second = self._once(few.X, few.y, few.Xq), self._once(few.X, few.y, few.Xq)
            size = float(first.abs().max())
            self.noise = max(self.noise, float((first - second).abs().max()) / size if size > 0 else 0.0)
            if self.noise > SAME:
                self.repeats = REPEATS
                self.notes.append(
                    f"The model is not deterministic: two calls on one task differ by {self.noise:.1g} of its largest "
                    f"prediction. Every prediction is the mean of {REPEATS} calls."
                )
        return self.measured(group.X, group.y, group.Xq)

    def ignores_context(self, tasks: Tasks, answers: Sequence[Tensor], generator: torch.Generator) -> bool:
        """Return whether other targets and other supports leave every prediction as it was."""
        for group, found in zip(tasks.groups, answers, strict=True):
            order = torch.randperm(len(group.X), generator=generator)
            other = self(group.X[order], group.y[order] + 1.0, group.Xq)
            if float((other - found).abs().max()) > 1e-9 * float(found.abs().max()):
                return False
        return True


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 120 else text[:117] + "..."
