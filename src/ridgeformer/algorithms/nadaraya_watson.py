"""One softmax head: the kernel-weighted mean of the targets, which is not ridge regression for any ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgeformer.algorithms.base import Compilable
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import KernelAttention, Program
from ridgeformer.language.roles import QUERY

__all__ = ["NadarayaWatson"]


@dataclass(frozen=True, kw_only=True)
class NadarayaWatson(Compilable):
    """f(x) = sum_j k(x, x_j) y_j / sum_j k(x, x_j), in one step; compiled for comparison (claim A4)."""

    steps: int | None = 1

    name: ClassVar[str] = "nadaraya_watson"
    family: ClassVar[str] = "Nadaraya-Watson average"

    def __post_init__(self) -> None:
        if self.steps not in (None, 1):
            raise InputError(f"steps is {self.steps!r}; a Nadaraya-Watson average takes one: leave it out.")
        object.__setattr__(self, "steps", 1)

    def write(self, attention: KernelAttention, ridge: float) -> Program:
        """Return the program: one head, one step."""
        net = attention.begin(self.family, ridge, products=False)
        net.targets("y", "targets")
        net.state({"f": "prediction, on queries"})
        net.begin_step()
        attention.average(net, "f", "y")
        net.record("f", "f", QUERY)
        return net
