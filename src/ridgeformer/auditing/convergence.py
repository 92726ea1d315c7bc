"""How many steps, that is how many layers, the fit takes: measured against the theory's bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms import Chebyshev, ConjugateGradients, Richardson
from ridgeformer.auditing.settings import Settings
from ridgeformer.solving import Fit, Nystrom, solve

__all__ = ["Convergence", "StepErrors", "examine_convergence"]

SHOWN = 1e-12
"""Errors are shown down to this; below it they are round-off."""

TARGET = 1e-3
"""The relative error the answer speaks of."""


@dataclass(frozen=True, eq=False)
class StepErrors:
    """Relative error in the A-norm after every step of one method."""

    method: str
    errors: NDArray[np.float64]

    @property
    def steps_to_target(self) -> int | None:
        """Steps until the error is below 1e-3, or None if that was not reached."""
        below = np.flatnonzero(self.errors <= TARGET)
        return int(below[0]) if below.size else None


@dataclass(frozen=True, eq=False)
class Convergence:
    """The methods' errors on this data, and the bound for conjugate gradients (claim B2).

    Attributes:
        curves: One a method.
        bound: 2 ((sqrt k - 1)/(sqrt k + 1))^t at every step of conjugate gradients.
        bound_holds: Whether no measured error is above it, round-off aside.
        output: Which target the curves are of.
    """

    curves: tuple[StepErrors, ...]
    bound: NDArray[np.float64]
    bound_holds: bool
    output: int


def examine_convergence(exact: Fit, settings: Settings) -> Convergence:
    """Run the methods on one target of a regression whose direct solution is known.

    Args:
        exact: The direct solution.
        settings: How many steps at most, and the seed.
    """
    K, y = exact.K, exact.y
    output = int(y.norm(dim=0).argmax())
    low, high = (float(exact.eigenvalues[end].clamp_min(0)) + exact.ridge for end in (-1, 0))
    measure = _a_norm_error(K, exact.ridge, exact.alpha[:, output])
    rank = min(len(K), 200)
    limit = settings.steps
    algorithms = {
        "conjugate gradients": ConjugateGradients(steps=limit),
        f"preconditioned (Nystrom, rank {rank})": ConjugateGradients(steps=limit, preconditioner=Nystrom(rank=rank)),
        "chebyshev": Chebyshev(steps=limit, spectrum=(low, high)),
        "richardson": Richardson(steps=limit, step_size=2 / (low + high)),
    }
    curves = []
    for name, algorithm in algorithms.items():
        errors = [1.0]

        def watch(step: int, alpha: Tensor, residual: Tensor, errors: list[float] = errors) -> bool:
            errors.append(measure(alpha[:, 0]))
            return errors[-1] < SHOWN

        solve(
            exact.kernel, exact.X, y[:, output], exact.ridge,
            algorithm=algorithm, tol=1e-15, callback=watch, seed=settings.seed,
        )  # fmt: skip
        curves.append(StepErrors(name, np.array(errors)))
    bound = np.array([bounds.cg_error_factor(high / low, t) for t in range(len(curves[0].errors))])
    return Convergence(tuple(curves), bound, bool((curves[0].errors <= bound + 1e-10).all()), output)


def _a_norm_error(K: Tensor, ridge: float, exact: Tensor) -> Callable[[Tensor], float]:
    """Return the function alpha -> ||alpha - exact||_A / ||exact||_A."""

    def squared(v: Tensor) -> float:
        return max(float(v @ (K @ v) + ridge * (v @ v)), 0.0)

    whole = squared(exact) or 1.0
    return lambda alpha: float(torch.tensor(squared(alpha - exact) / whole).sqrt())
