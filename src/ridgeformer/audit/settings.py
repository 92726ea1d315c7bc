"""The choices an audit makes, all in one place and all shown in the report."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How an audit is carried out.

    Attributes:
        seed: Of the split, the subsample and every randomised step.
        test_fraction: Rows held out for the scores.
        max_rows: Rows used at most; a larger dataset is sampled, and the report says so.
        preprocessing: "unit_rows", "standardise", or "auto" (unit rows for images, else standardise).
        temperatures: Candidates, as multiples of the mean squared row length.
        ridges: Candidates, as multiples of the mean diagonal of the kernel.
        steps: Conjugate-gradient steps shown at most.
    """

    seed: int = 0
    test_fraction: float = 0.3
    max_rows: int = 2000
    preprocessing: str = "auto"
    temperatures: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125, 0.0625)
    ridges: tuple[float, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
    steps: int = 300
