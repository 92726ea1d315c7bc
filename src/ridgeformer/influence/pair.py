"""The influence of one training point on one query, as a product of two functions of the row that moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets
from ridgeformer.core.errors import InputError
from ridgeformer.influence.baseline import differentiable_influence
from ridgeformer.influence.exact import RidgeFit, fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.kernels import Kernel

__all__ = ["DUAL", "Expansion", "Factors", "Pair", "choose_pair", "factors", "fixed_expansions"]

DUAL = {"linf": 1.0, "l2": 2.0}
"""The p of the dual norm: what |v| <= eps can do to v'w is eps |w|_p at most."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """g(x) = constant + sum_j a_j k(x, z_j), at one row x.

    Attributes:
        x: (1, d).
        Z: the rows z_j, (m, d).
        a: (m,).
        constant: added.
    """

    x: Float[Tensor, "1 d"]
    Z: Float[Tensor, "m d"]
    a: Float[Tensor, " m"]
    constant: float = 0.0

    def value(self, kernel: Kernel, x: Tensor) -> Tensor:
        """Return g(x)."""
        return self.constant + (kernel.dense(x, self.Z) @ self.a)[0]

    def slope(self, kernel: Kernel, norm: str) -> float:
        """Return the dual norm of the gradient of g at its own x."""
        x = self.x.clone().requires_grad_()
        with torch.enable_grad():
            gradient = torch.autograd.grad(self.value(kernel, x), x)[0]
        return float(gradient.norm(p=DUAL[norm]))


Factors: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Given all rows, the residual y_i - f_{-i}(x_i) and the covariance (R k(x))_i / R_ii; their product has the sign of
the influence, and each can change it (claim I3)."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A training point and a query, checked: the targets are those of one output.

    Attributes:
        kernel: the kernel asked about.
        X: training rows.
        y: targets of the output, (n, 1).
        Xq: the query, (1, d).
        ridge: lambda.
        index: the training point.
        features: what the kernel sees of the rows.
    """

    kernel: Kernel
    X: Tensor
    y: Tensor
    Xq: Tensor
    ridge: Any
    index: int
    features: Features

    @property
    def raw(self) -> bool:
        """Whether the kernel sees the rows themselves, so that moving one row moves nothing else."""
        return isinstance(self.features, RawFeatures)

    def fitted(self) -> RidgeFit:
        """Return the fit to what the kernel sees of all rows."""
        return fit(self.kernel, self.features(self.X, self.Xq)[0], self.y, self.ridge)


def choose_pair(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, index: Any, query: Any, output: Any, features: Features | None
) -> Pair:
    """Return one training point, query and output, or say which is out of range."""
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    y = as_targets(y, X).detach().reshape(len(X), -1).to(X.dtype)
    index, query = _within(index, len(X), "index", "training row"), _within(query, len(Xq), "query", "query")
    output = _within(output, y.shape[1], "output", "output")
    if len(X) < 2:
        raise InputError("X has one row; at least two are needed to leave one out.")
    pair = y[:, output : output + 1]
    return Pair(kernel, X, pair, Xq[query : query + 1], ridge, index, features or RawFeatures())


def factors(pair: Pair) -> Factors:
    """Return the two factors as differentiable functions of the rows, of which only row `index` moves.

    Where nothing but that row moves, the fit without it is made once and each call costs O(n d).
    """
    if pair.raw:
        rest, residual, covariance = fixed_expansions(pair)

        def fixed(X: Tensor) -> tuple[Tensor, Tensor]:
            x = X[pair.index : pair.index + 1]
            return residual.value(rest.system.kernel, x), covariance.value(rest.system.kernel, x)

        return fixed
    system = pair.fitted().system

    def moving(X: Tensor) -> tuple[Tensor, Tensor]:
        rows, query = pair.features(X, pair.Xq)
        found = differentiable_influence(system.kernel, rows, pair.y, query, system.ridge)
        own = found.diagonal[pair.index]
        return found.alpha[pair.index, 0] / own, found.weights[pair.index, 0] / own

    return moving


def fixed_expansions(pair: Pair) -> tuple[RidgeFit, Expansion, Expansion]:
    """Return the fit without the point, and both factors as sums of kernels in x_i.

    With S = R of the fit without i: y_i - k(x_i)'S y, and k(x_i, x) - k(x_i)'S k(x).
    """
    keep = torch.arange(len(pair.X), device=pair.X.device) != pair.index
    rest = fit(pair.kernel, pair.X[keep], pair.y[keep], pair.ridge)
    x = pair.X[pair.index : pair.index + 1]
    toward = rest.apply_inverse(rest.cross(pair.Xq))[:, 0]
    one = torch.ones(1, dtype=toward.dtype, device=toward.device)
    residual = Expansion(x, rest.system.X, -rest.alpha[:, 0], float(pair.y[pair.index]))
    return rest, residual, Expansion(x, torch.cat([pair.Xq, rest.system.X]), torch.cat([one, -toward]))


def _within(value: Any, count: int, name: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise InputError(f"{name} is {value!r}; the number of a {what} from 0 to {count - 1} was expected.")
    return value
