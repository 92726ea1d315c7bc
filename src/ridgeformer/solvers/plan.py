"""What was chosen for a solve, and why: the plan that every `Solution` carries."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """How a system is solved.

    Attributes:
        method: direct, mixed (float32 Cholesky, float64 refinement), block_pcg, nystrom, or an iterative method.
        engine: how products with K are formed: features, stored, tiles, attention, dask.
        working: the precision of those products, "float32" or "float64"; the reported residual is float64 always.
        rank: of the preconditioner at most, or the number of centres; 0 where there is none.
        needed: bytes beyond X and y, as budgeted.
        free: bytes that were free.
        reasons: one sentence for each decision.
    """

    method: str
    engine: str
    working: str
    rank: int
    needed: int
    free: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.method} on the {self.engine} engine in {self.working}, about {show_bytes(self.needed)} of "
        return "\n".join([f"{head}{show_bytes(self.free)} free", *(f"- {reason}" for reason in self.reasons)])


def show_bytes(count: int) -> str:
    """Return a size for people.

    Example:
        >>> show_bytes(3 * 2**30), show_bytes(5 * 2**20)
        ('3.0 GiB', '5 MiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
