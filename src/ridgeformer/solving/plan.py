"""What was chosen for a solve, and why: the plan that every `Solution` carries."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.algorithms import Algorithm
from ridgeformer.core.memory import show_bytes

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """How a system is solved.

    Attributes:
        algorithm: the one that runs; never `Auto`.
        engine: how products with K are formed: features, stored, tiles, attention, or an engine of your own.
        working: the precision of those products, or of the factorisation; the reported residual is float64 always.
        rank: of the preconditioner at most, or the number of centres; 0 where there is none.
        exact: whether K is kept for float64 residuals, beside its factor or its working precision.
        needed: bytes beyond X and y, as budgeted.
        free: bytes that may be used.
        reasons: one sentence for each decision.
        block: rows of a block of the preconditioner at most; 0 leaves it to the preconditioner.
        bits: kept by the triangle engine of what float32 leaves out of an entry; 0 where there is none.
    """

    algorithm: Algorithm
    engine: str
    working: str
    rank: int
    exact: bool
    needed: int
    free: int
    reasons: tuple[str, ...]
    block: int = 0
    bits: int = 0

    def __str__(self) -> str:
        head = f"{self.algorithm.name} on the {self.engine} engine, working in {self.working}: about "
        return "\n".join(
            [f"{head}{show_bytes(self.needed)} of {show_bytes(self.free)}", *(f"- {reason}" for reason in self.reasons)]
        )
