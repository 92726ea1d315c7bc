"""The tangent kernel of any torch module by automatic differentiation, and the step size it allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap

from ridgeformer.core.checks import as_matrix, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.memory import require_memory
from ridgeformer.kernels import Kernel

__all__ = ["EmpiricalNTK", "call_checked", "empirical_ntk", "split_parameters", "stable_rate", "tangent_norm"]

JACOBIAN_ENTRIES = 2**27
"""Entries of a Jacobian block held at once; two of them are alive: 2 GiB in float64."""

Blocks = Literal["mean", "full"]


def empirical_ntk(model: nn.Module, X: Any, *, outputs: Any = "mean", batch: Any = None) -> Tensor:
    """Return the tangent kernel J(x) J(x')' of a module at its present parameters, exactly symmetric.

    Holds for modules that treat rows one by one (no statistics over the batch: put BatchNorm into eval mode) and
    are differentiable by torch.func. Only parameters that require gradients count. Device and dtype follow them.

    Args:
        model: Maps (n, d) to (n, c).
        X: Rows (n, d).
        outputs: "mean", (n, n): the average over outputs of each output's kernel; "full", (n, c, n, c).
        batch: Rows whose Jacobians are held at once; None takes what fits into about 1 GiB.

    Raises:
        ShapeError: the module's output is not (n, c).
        InputError: nothing to train, or one row's Jacobian does not fit into memory.

    Example:
        >>> linear = nn.Linear(2, 1, bias=False).double()
        >>> empirical_ntk(linear, [[1.0, 2.0], [3.0, 0.0]])
        tensor([[5., 3.], [3., 9.]], dtype=torch.float64)
    """
    if outputs not in ("mean", "full"):
        raise unknown_name("outputs", outputs, ("mean", "full"))
    trained, fixed = split_parameters(model)
    like = next(iter(trained.values()))
    X = as_matrix(X).detach().to(like)
    c = call_checked(model, X[:2]).shape[1]
    size = c * sum(parameter.numel() for parameter in trained.values())
    require_memory(3 * size * like.element_size(), "the Jacobian of one row", "train fewer parameters")
    batch = max(1, JACOBIAN_ENTRIES // size) if batch is None else whole(batch, "batch", 1)

    def output(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, (parameters, fixed), (x[None],))[0]

    def jacobian(rows: Tensor) -> Tensor:
        parts = vmap(jacrev(output), in_dims=(None, 0))(trained, rows)
        return torch.cat([part.reshape(len(rows), c, -1) for part in parts.values()], dim=2)

    return _gram(jacobian, X, c, batch, outputs)


def _gram(jacobian: Callable[[Tensor], Tensor], X: Tensor, c: int, batch: int, outputs: Blocks) -> Tensor:
    """Return the blocks J_i J_j' for i <= j and mirror them; J is computed again for each column of blocks."""
    n = X.shape[0]
    kernel = X.new_zeros((n, c, n, c) if outputs == "full" else (n, n))
    for left in range(0, n, batch):
        J = jacobian(X[left : left + batch])
        for right in range(left, n, batch):
            other = J if right == left else jacobian(X[right : right + batch])
            i, j = slice(left, left + batch), slice(right, right + batch)
            if outputs == "full":
                block = torch.einsum("iap,jbp->iajb", J, other)
                kernel[i, :, j] = block
                kernel[j, :, i] = block.permute(2, 3, 0, 1)
            else:
                block = J.flatten(1) @ other.flatten(1).T / c
                kernel[i, j] = block
                kernel[j, i] = block.T
    if outputs == "full":
        return (kernel + kernel.permute(2, 3, 0, 1)) / 2
    return (kernel + kernel.T) / 2


def split_parameters(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters that are trained, and everything else the module holds, detached.

    Raises:
        InputError: no parameter requires a gradient.
    """
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not trained:
        raise InputError(
            f"{type(model).__name__} has no parameter that requires a gradient: there is nothing to train."
        )
    fixed = {name: value.detach() for name, value in model.named_parameters() if not value.requires_grad}
    return trained, {**fixed, **dict(model.named_buffers())}


def call_checked(model: nn.Module, X: Tensor) -> Tensor:
    """Return the module's outputs on X, or say that they are not one row of c numbers a row.

    Raises:
        ShapeError: the output is not a tensor (n, c).
    """
    with torch.no_grad():
        outputs = model(X)
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.shape[0] != X.shape[0] or 0 in outputs.shape:
        raise ShapeError(
            f"{type(model).__name__} maps {tuple(X.shape)} to {shape}; (rows, outputs) was expected: "
            "end it with a layer that gives each row its outputs, such as nn.Linear(width, 1)."
        )
    return outputs


@dataclass(frozen=True, eq=False)
class EmpiricalNTK(Kernel):
    """k(x, z) = J(x) J(z)' at the module's present parameters, the mean over outputs: `empirical_ntk`.

    Holds for modules that treat rows one by one. Values only: no gradient goes through it.

    Args:
        model: maps (n, d) to (n, c).

    Example:
        >>> EmpiricalNTK(nn.Linear(2, 1, bias=False).double())([[1.0, 2.0]], [[3.0, 0.0]])
        tensor([[3.]], dtype=torch.float64)
    """

    model: nn.Module

    name: ClassVar[str] = "empirical_ntk"
    semidefinite: ClassVar[bool] = True

    def dense(self, X: Float[Tensor, "n d"], Z: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
        """Return the kernel; between two sets of rows it is a block of that of both."""
        if Z is X:
            return empirical_ntk(self.model, X).to(X)
        return empirical_ntk(self.model, torch.cat([X, Z]))[: len(X), len(X) :].to(X)


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
