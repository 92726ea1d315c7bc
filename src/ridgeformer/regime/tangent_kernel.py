"""The tangent kernel of any torch module, the step size it allows, and training at a fixed kernel [Lee2019].

In function space a network trained by gradient descent on a loss of its outputs, with an L2 penalty, follows
d theta/dt = -scale J'(f - y) - l2 theta. With J fixed this is linear in n unknowns, and solved mode by mode.
As an nn.Module (`Linearised`) the linearised network can be trained by any optimiser, such as Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap

from ridgeformer.core.checks import ArrayLike, as_matrix, as_targets, positive, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.memory import require_memory
from ridgeformer.kernels import Kernel

__all__ = [
    "EmpiricalNTK",
    "Linearised",
    "empirical_ntk",
    "kernel_descent",
    "linearised_predictions",
    "stable_rate",
    "tangent_norm",
]


JACOBIAN_ENTRIES = 2**27
"""Entries of a Jacobian block held at once; two of them are alive: 2 GiB in float64."""


def empirical_ntk(model: nn.Module, X: ArrayLike, *, outputs: str = "mean", batch: int | None = None) -> Tensor:
    """Return the tangent kernel J(x) J(x')' of a module at its present parameters, exactly symmetric.

    Holds for modules that treat rows one by one (no statistics over the batch: put BatchNorm into eval mode) and
    are differentiable by torch.func. Only parameters that require gradients count. Device and dtype follow them.

    With outputs "mean" it is (n, n), the average over outputs of each output's kernel; with "full" (n, c, n, c).
    Jacobians of `batch` rows are held at once; None takes what fits into about 1 GiB.

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

    n, full = X.shape[0], outputs == "full"
    kernel = X.new_zeros((n, c, n, c) if full else (n, 1, n, 1))
    for left in range(0, n, batch):  # blocks J_i J_j' for i <= j; J is computed again for each column of blocks
        J = jacobian(X[left : left + batch])
        for right in range(left, n, batch):
            other = J if right == left else jacobian(X[right : right + batch])
            i, j = slice(left, left + batch), slice(right, right + batch)
            if full:
                block = torch.einsum("iap,jbp->iajb", J, other)
            else:
                block = (J.flatten(1) @ other.flatten(1).T / c)[:, None, :, None]
            kernel[i, :, j] = block
            kernel[j, :, i] = block.permute(2, 3, 0, 1)
    kernel = (kernel + kernel.permute(2, 3, 0, 1)) / 2
    return kernel if full else kernel[:, 0, :, 0]


def split_parameters(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters that are trained, and everything else the module holds, detached."""
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not trained:
        raise InputError(
            f"{type(model).__name__} has no parameter that requires a gradient: there is nothing to train."
        )
    fixed = {name: value.detach() for name, value in model.named_parameters() if not value.requires_grad}
    return trained, {**fixed, **dict(model.named_buffers())}


def call_checked(model: nn.Module, X: Tensor) -> Tensor:
    """Return the module's outputs on X, or say that they are not one row of c numbers a row."""
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


def tangent_norm(model: nn.Module, X: Float[Tensor, "n d"], generator: torch.Generator, *, steps: int = 30) -> float:
    """Return the largest eigenvalue of the tangent kernel over all rows and outputs, by power iteration.

    A lower estimate, near the eigenvalue where the next one is well below. Half the mean squared error over n rows and
    c outputs has curvature at most this over n c, so gradient descent on the linearised network is stable for rates
    below 2 n c over it.

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

    `largest` is the largest eigenvalue of the tangent kernel. Cross-entropy has curvature at most 1/2 in its logits.

    Example:
        >>> stable_rate(3.0, torch.zeros(6, 1), "mse")  # the loss is norm(f - y)^2/6: curvature 2 * 3/6
        1.0
    """
    if largest <= 0:
        return 1.0  # a dead network: nothing moves at any rate
    return (y.numel() if loss == "mse" else 4 * len(y)) / (2 * largest)


def linearised_predictions(
    K: ArrayLike,
    cross: ArrayLike,
    y: ArrayLike,
    *,
    start: ArrayLike,
    start_query: ArrayLike,
    time: float | int,
    rate: float | None = None,
    scale: float = 1.0,
    l2: float = 0.0,
) -> Float[Tensor, "q r"]:
    """Return the linearised network's predictions after training on squared error, in closed form.

    The loss is scale/2 norm(f - y)^2 + l2/2 norm(theta)^2 over all rows. Without `rate` it is gradient flow at
    `time`; with `rate` it is full-batch gradient descent with that step, after `time` steps. With l2 > 0 the formula
    holds for networks that are linear in the scale of their trained weights, such as 2L-ReLU, whose outputs at
    theta_0 are J theta_0; then the predictions tend to ridge regression with ridge l2/scale.

    `K` (n, n) and `cross` (q, n) are tangent kernels of the training rows and between queries and training rows.
    `start` and `start_query` are the outputs at initialisation there; 0 for a network that starts at zero. A `scale`
    of 1/n is half the mean over rows.

    Raises:
        InputError: a rate at which gradient descent diverges.

    Example:
        >>> K = torch.eye(1, dtype=torch.float64)
        >>> linearised_predictions(K, K, [1.0], start=0.0, start_query=0.0, time=0.6931471805599453)
        tensor([[0.5000]], dtype=torch.float64)
    """
    K, cross, y, g, gq = _system(K, cross, y, start, start_query)
    scale = positive(scale, "scale", "the weight of the data in the loss")
    values, Q = torch.linalg.eigh(K)
    values, l2 = scale * values.clamp_min(0), _finite(l2, "l2", "number")
    if rate is None:
        time = _finite(time, "time", "training time")
        kept = exp(-l2 * time)
        fit, forget = _flow(time, values + l2), _flow(time, values)
    else:
        step = positive(rate, "rate", "the step of gradient descent")
        steps = whole(time, "time (steps, as a rate is given)", 0)
        if step * (largest := float(values[-1]) + l2) > 2:
            raise InputError(
                f"gradient descent with rate {step:g} diverges: the largest curvature is {largest:.4g}; "
                f"take a rate below {2 / largest:.4g}."
            )
        kept = (1 - step * l2) ** steps
        fit, forget = _descent(step, steps, values + l2), _descent(step / (1 - step * l2), steps, values)
    alpha = scale * Q @ (fit[:, None] * (Q.T @ y) - kept * forget[:, None] * (Q.T @ g))
    return kept * gq + cross @ alpha


def kernel_descent(
    K: ArrayLike,
    cross: ArrayLike,
    gradient: Callable[[Tensor], Tensor],
    *,
    start: ArrayLike,
    start_query: ArrayLike,
    steps: int,
    rate: float,
    l2: float = 0.0,
) -> Float[Tensor, "q r"]:
    """Return the linearised network's predictions after gradient descent on any loss of the outputs, step by step.

    The step in function space that `linearised_predictions` has in closed form for squared error; with cross-entropy
    there is none. The same condition holds for l2 > 0.

    `gradient` maps outputs (n, r) to the gradient of the loss with respect to them.

    Example:
        >>> K = torch.eye(1, dtype=torch.float64)
        >>> kernel_descent(K, K, lambda f: f - 1, start=[[0.0]], start_query=0.0, steps=2, rate=0.5)
        tensor([[0.7500]], dtype=torch.float64)
    """
    K, cross, _, g, gq = _system(K, cross, start, start, start_query)
    step, l2 = positive(rate, "rate", "the step of gradient descent"), _finite(l2, "l2", "number")
    alpha, kept = torch.zeros_like(g), 1.0
    for _ in range(whole(steps, "steps", 0)):
        alpha = (1 - step * l2) * alpha - step * gradient(kept * g + K @ alpha)
        kept *= 1 - step * l2
    return kept * gq + cross @ alpha


class Linearised(nn.Module):
    """A module's first-order expansion around its present parameters: f(x; theta_0) + J(x) (theta - theta_0).

    Has parameters of its own, which start at theta_0, and can be trained by any optimiser; at the start it equals the
    module in value and gradient. Holds for modules that torch.func can differentiate forward.

    Example:
        >>> linear = nn.Linear(2, 1).double()
        >>> x = torch.ones(3, 2, dtype=torch.float64)
        >>> torch.equal(Linearised(linear)(x), linear(x))
        True
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        trained, fixed = split_parameters(model)
        self._model = [model]  # in a list, so that its parameters are not this module's
        self._names = list(trained)
        self._origin = {name: value.clone() for name, value in trained.items()}
        self._fixed = {name: value.clone() for name, value in fixed.items()}
        self.weights = nn.ParameterList(value.clone() for value in trained.values())

    def forward(self, x: Tensor) -> Tensor:
        """Return the expansion at the present parameters."""
        moved = {name: now - self._origin[name] for name, now in zip(self._names, self.weights, strict=True)}

        def output(parameters: dict[str, Tensor]) -> Tensor:
            return functional_call(self._model[0], (parameters, self._fixed), (x,))

        return sum(jvp(output, (self._origin,), (moved,)))


def _flow(time: float, a: Tensor) -> Tensor:
    """Return (1 - e^(-a t)) / a, which is t at a = 0."""
    return torch.where(a > 0, -torch.expm1(-a * time) / torch.where(a > 0, a, 1.0), time)


def _descent(step: float, steps: int, a: Tensor) -> Tensor:
    """Return (1 - (1 - step a)^steps) / a, which is step times steps at a = 0."""
    rest = 1 - step * a
    small = -torch.expm1(steps * torch.log1p(-step * torch.where(rest > 0, a, 0.0)))  # keeps digits at small a
    gone = torch.where(rest > 0, small, 1 - rest**steps)
    return torch.where(a > 0, gone / torch.where(a > 0, a, 1.0), step * steps)


def _finite(value: float | int, name: str, what: str) -> float:
    if not 0 <= float(value) < inf:
        raise InputError(f"{name} is {value!r}; a finite {what} >= 0 was expected.")
    return float(value)


def _system(
    K: ArrayLike, cross: ArrayLike, y: ArrayLike, start: ArrayLike, start_query: ArrayLike
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return everything as float64 matrices of one device that fit together."""
    K = as_matrix(K, "K").detach().to(torch.float64)
    cross = as_matrix(cross, "cross").detach().to(K)
    if K.shape[0] != K.shape[1] or cross.shape[1] != K.shape[0]:
        raise ShapeError(
            f"K has shape {tuple(K.shape)} and cross {tuple(cross.shape)}; (n, n) and (queries, n) were expected."
        )
    y = as_targets(y, K).detach()
    y = y[:, None] if y.ndim == 1 else y
    return K, cross, y, _outputs(start, K, y.shape[1], "start"), _outputs(start_query, cross, y.shape[1], "start_query")


def _outputs(value: ArrayLike, like: Tensor, columns: int, name: str) -> Tensor:
    if isinstance(value, int | float):
        return like.new_full((like.shape[0], columns), float(value))
    outputs = as_targets(value, like, name).detach()
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.shape[1] != columns:
        raise ShapeError(f"{name} has {outputs.shape[1]} columns and y has {columns}: give both the same outputs.")
    return outputs
