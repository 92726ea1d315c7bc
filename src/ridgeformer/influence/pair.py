"""The influence of one training point on one query, as a product of two functions of the row that moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.errors import InputError
from ridgeformer.influence.baseline import differentiable_influence
from ridgeformer.influence.exact import as_problem, fit, influence_of, unit_columns
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Fit

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
    """A training point, a query and an output, with the fit to what the kernel sees of the rows.

    Attributes:
        fit: the fit.
        X: training rows.
        Xq: the query, (1, d).
        index: the training point.
        output: the column of the targets.
        features: what the kernel sees of the rows.
    """

    fit: Fit
    X: Tensor
    Xq: Tensor
    index: int
    output: int
    features: Features

    @property
    def raw(self) -> bool:
        """Whether the kernel sees the rows themselves, so that moving one row moves nothing else."""
        return isinstance(self.features, RawFeatures)

    @property
    def y(self) -> Tensor:
        """The targets of the output, (n, 1)."""
        return self.fit.y.reshape(len(self.X), -1)[:, self.output : self.output + 1].to(self.X)


def choose_pair(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, index: Any, query: Any, output: Any, features: Features | None
) -> Pair:
    """Return one training point, query and output, or say which is out of range."""
    X, y, Xq = as_problem(X, y, Xq)
    index, query = _within(index, len(X), "index", "training row"), _within(query, len(Xq), "query", "query")
    output, features = _within(output, y.shape[1], "output", "output"), features or RawFeatures()
    if len(X) < 2:
        raise InputError("X has one row; at least two are needed to leave one out.")
    Xq = Xq[query : query + 1]
    return Pair(fit(kernel, features(X, Xq)[0], y, ridge), X, Xq, index, output, features)


def factors(pair: Pair) -> Factors:
    """Return the two factors as differentiable functions of the rows, of which only row `index` moves.

    Where nothing but that row moves, each call costs O(n d).
    """
    kernel, ridge, y = pair.fit.kernel, pair.fit.ridge, pair.y
    if pair.raw:
        residual, covariance = fixed_expansions(pair)

        def fixed(X: Tensor) -> tuple[Tensor, Tensor]:
            x = X[pair.index : pair.index + 1]
            return residual.value(kernel, x), covariance.value(kernel, x)

        return fixed

    def moving(X: Tensor) -> tuple[Tensor, Tensor]:
        rows, query = pair.features(X, pair.Xq)
        found = differentiable_influence(kernel, rows, y, query, ridge)
        own = found.diagonal[pair.index]
        return found.alpha[pair.index, 0] / own, found.weights[pair.index, 0] / own

    return moving


def fixed_expansions(pair: Pair) -> tuple[Expansion, Expansion]:
    """Return both factors as sums of kernels in x_i.

    With S = R of the fit without i they are y_i - k(x_i)'S y and k(x_i, x) - k(x_i)'S k(x). No refit is made: for any
    right-hand side b, S b = (R b - R e_i (R b)_i / R_ii) without entry i.
    """
    fitted, i = pair.fit, pair.index
    keep = torch.arange(len(pair.X), device=pair.X.device) != i
    one = torch.ones(1, dtype=pair.X.dtype, device=pair.X.device)
    own = (fitted.inverse @ unit_columns(pair.X, torch.tensor([i], device=pair.X.device)))[:, 0]
    alpha = fitted.alpha.reshape(len(pair.X), -1)[:, pair.output]
    weights = influence_of(fitted, pair.Xq).weights[:, 0]
    without, toward = ((solved - own * solved[i] / own[i])[keep] for solved in (alpha, weights))
    x, rest = pair.X[i : i + 1], pair.X[keep]
    residual = Expansion(x, rest, -without, float(pair.y[i]))
    return residual, Expansion(x, torch.cat([pair.Xq, rest]), torch.cat([one, -toward]))


def _within(value: Any, count: int, name: str, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise InputError(f"{name} is {value!r}; the number of a {what} from 0 to {count - 1} was expected.")
    return value
