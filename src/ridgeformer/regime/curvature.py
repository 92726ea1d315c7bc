"""How fast gradient descent may go: the largest eigenvalue of a module's tangent kernel, without forming it."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp

from ridgeformer.core.checks import whole
from ridgeformer.regime.empirical_ntk import split_parameters

__all__ = ["stable_rate", "tangent_norm"]


def tangent_norm(model: nn.Module, X: Float[Tensor, "n d"], generator: torch.Generator, *, steps: Any = 30) -> float:
    """Return the largest eigenvalue of the tangent kernel over all rows and outputs, by power iteration.

    A lower estimate, near the eigenvalue where the next one is well below. Half the mean squared error over n rows and
    c outputs has curvature at most this over n c, so gradient descent on the linearised network is stable for rates
    below 2 n c over it.

    Args:
        model: Maps (n, d) to (n, c) and is differentiable forward and backward.
        X: Rows, in the module's precision.
        generator: Draws the first vector.
        steps: Products with the kernel.

    Example:
        >>> linear = nn.Linear(2, 1, bias=False).double()
        >>> X = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
        >>> round(tangent_norm(linear, X, torch.Generator().manual_seed(0)), 9)
        9.0
    """
    trained, fixed = split_parameters(model)

    def outputs(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, (parameters, fixed), (X,))

    start, pull = vjp(outputs, trained)[:2]
    v = torch.randn(start.shape, generator=generator, dtype=torch.float64).to(start)
    size = 0.0
    for _ in range(whole(steps, "steps", 1)):
        v = v / v.norm()
        v = jvp(outputs, (trained,), pull(v))[1]
        size = float(v.norm())
        if size == 0:
            break
    return size


def stable_rate(largest: float, y: Tensor, loss: str) -> float:
    """Return half of the largest stable step of gradient descent on the linearised network.

    Args:
        largest: Largest eigenvalue of the tangent kernel.
        y: Targets (n, c).
        loss: "mse" or "cross_entropy", whose curvature is at most half in its logits.

    Example:
        >>> stable_rate(3.0, torch.zeros(6, 1), "mse")  # the loss is norm(f - y)^2/6: curvature 2 * 3/6
        1.0
    """
    if largest <= 0:
        return 1.0  # a dead network: nothing moves at any rate
    return (y.numel() if loss == "mse" else 4 * len(y)) / (2 * largest)
