"""The linearised network: what training would give if the tangent kernel never moved [Lee2019].

In function space a network trained by gradient descent on a loss of its outputs, with an L2 penalty, follows
d theta/dt = -scale J'(f - y) - l2 theta. With J fixed this is linear in n unknowns, and solved mode by mode.
As an nn.Module (`Linearised`) the same network can be trained by any optimiser, Adam for one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp

from ridgeformer.core.checks import as_matrix, as_targets, positive, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.regime.tangent_kernel import split_parameters

__all__ = ["Linearised", "kernel_descent", "linearised_predictions"]


def linearised_predictions(
    K: Any,
    cross: Any,
    y: Any,
    *,
    start: Any,
    start_query: Any,
    time: Any,
    rate: Any = None,
    scale: Any = 1.0,
    l2: Any = 0.0,
) -> Float[Tensor, "q r"]:
    """Return the linearised network's predictions after training on squared error, in closed form.

    The loss is scale/2 norm(f - y)^2 + l2/2 norm(theta)^2 over all rows. Without `rate` it is gradient flow at
    `time`; with `rate` it is full-batch gradient descent with that step, after `time` steps. With l2 > 0 the formula
    holds for networks that are linear in the scale of their trained weights, such as 2L-ReLU, whose outputs at
    theta_0 are J theta_0; then the predictions tend to ridge regression with ridge l2/scale.

    Args:
        K: Tangent kernel of the training rows, (n, n).
        cross: Tangent kernel between queries and training rows, (q, n).
        y: Targets (n,) or (n, r).
        start: Outputs at initialisation on the training rows, like y; 0 for a network that starts at zero.
        start_query: The same on the queries.
        time: Training time t >= 0, or number of steps.
        rate: Step of gradient descent, or None for gradient flow.
        scale: Weight of the squared error; 1/n for half the mean over rows.
        l2: Penalty on the weights >= 0.

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
    values, l2 = scale * values.clamp_min(0), _penalty(l2)
    if rate is None:
        kept, follow = exp(-l2 * _time(time)), _flow(_time(time))
        fit, forget = follow(values + l2), follow(values)
    else:
        step, steps = _stable(rate, float(values[-1]) + l2), whole(time, "time (steps, as a rate is given)", 0)
        kept = (1 - step * l2) ** steps
        fit, forget = _descent(step, steps)(values + l2), _descent(step / (1 - step * l2), steps)(values)
    alpha = scale * Q @ (fit[:, None] * (Q.T @ y) - kept * forget[:, None] * (Q.T @ g))
    return kept * gq + cross @ alpha


def kernel_descent(
    K: Any,
    cross: Any,
    gradient: Callable[[Tensor], Tensor],
    *,
    start: Any,
    start_query: Any,
    steps: Any,
    rate: Any,
    l2: Any = 0.0,
) -> Float[Tensor, "q r"]:
    """Return the linearised network's predictions after gradient descent on any loss of the outputs, step by step.

    The step in function space that `linearised_predictions` has in closed form for squared error; with cross-entropy
    there is none. The same condition holds for l2 > 0.

    Args:
        K: Tangent kernel of the training rows, (n, n).
        cross: Tangent kernel between queries and training rows, (q, n).
        gradient: Maps outputs (n, r) to the gradient of the loss with respect to them.
        start: Outputs at initialisation on the training rows, (n, r).
        start_query: The same on the queries.
        steps: Number of steps.
        rate: Step > 0.
        l2: Penalty on the weights >= 0.

    Example:
        >>> K = torch.eye(1, dtype=torch.float64)
        >>> kernel_descent(K, K, lambda f: f - 1, start=[[0.0]], start_query=0.0, steps=2, rate=0.5)
        tensor([[0.7500]], dtype=torch.float64)
    """
    K, cross, _, g, gq = _system(K, cross, start, start, start_query)
    step, l2 = positive(rate, "rate", "the step of gradient descent"), _penalty(l2)
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


def _flow(time: float) -> Callable[[Tensor], Tensor]:
    """Return a -> (1 - e^(-a t)) / a, which is t at a = 0."""
    return lambda a: torch.where(a > 0, -torch.expm1(-a * time) / torch.where(a > 0, a, 1.0), time)


def _descent(step: float, steps: int) -> Callable[[Tensor], Tensor]:
    """Return a -> (1 - (1 - step a)^steps) / a, which is step times steps at a = 0."""

    def follow(a: Tensor) -> Tensor:
        rest = 1 - step * a
        small = -torch.expm1(steps * torch.log1p(-step * torch.where(rest > 0, a, 0.0)))  # keeps digits at small a
        gone = torch.where(rest > 0, small, 1 - rest**steps)
        return torch.where(a > 0, gone / torch.where(a > 0, a, 1.0), step * steps)

    return follow


def _stable(rate: Any, largest: float) -> float:
    step = positive(rate, "rate", "the step of gradient descent")
    if step * largest > 2:
        raise InputError(
            f"gradient descent with rate {step:g} diverges: the largest curvature is {largest:.4g}; "
            f"take a rate below {2 / largest:.4g}."
        )
    return step


def _time(time: Any) -> float:
    number = float(time)
    if not 0 <= number < inf:
        raise InputError(f"time is {time!r}; a finite training time >= 0 was expected.")
    return number


def _penalty(l2: Any) -> float:
    number = float(l2)
    if not 0 <= number < inf:
        raise InputError(f"l2 is {l2!r}; a finite number >= 0 was expected.")
    return number


def _system(K: Any, cross: Any, y: Any, start: Any, start_query: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
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


def _outputs(value: Any, like: Tensor, columns: int, name: str) -> Tensor:
    if isinstance(value, int | float):
        return like.new_full((like.shape[0], columns), float(value))
    outputs = as_targets(value, like, name).detach()
    outputs = outputs[:, None] if outputs.ndim == 1 else outputs
    if outputs.shape[1] != columns:
        raise ShapeError(f"{name} has {outputs.shape[1]} columns and y has {columns}: give both the same outputs.")
    return outputs
