"""Temperature, noise and scale of greatest likelihood, by gradients in closed form.

The model is y = f(X) + noise with f ~ GP(0, scale k) and noise of variance scale ridge. Two criteria are offered: the
marginal likelihood, which asks whether the model explains all targets together, and the leave-one-out likelihood, which
asks whether it predicts each from the others and is less sensitive to a wrong model [RasmussenWilliams2006].
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from math import exp, inf, isfinite, log
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_targets, positive
from ridgeformer.core.errors import InputError
from ridgeformer.intervals import log_likelihood
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import LogitKernel
from ridgeformer.kernels.weighted import Weighted
from ridgeformer.solving.direct import factorise_in_place, solve_with_factor
from ridgeformer.solving.selection import TEMPERATURES, ridge_limits

__all__ = ["LikelihoodGradient", "MostLikely", "likelihood_gradient", "maximise_likelihood"]

TEMPERATURE_RANGE = 1e3
"""Temperatures are searched up to this factor below and above the one given."""

START_RIDGES = (1e-4, 1e-2, 1.0)
"""Ridges over the mean diagonal of K, from the best of which the ascent begins."""


@dataclass(frozen=True)
class LikelihoodGradient:
    """A log likelihood and its derivatives in the logarithms of the three parameters.

    Attributes:
        value: the log likelihood.
        temperature: its derivative in log temperature; None for a kernel without one.
        ridge: in log ridge, the noise over the scale.
        scale: in log scale; 0 up to round-off where the scale was chosen.
        at_scale: the scale it was evaluated at.
    """

    value: float
    temperature: float | None
    ridge: float
    scale: float
    at_scale: float


@dataclass(frozen=True, eq=False)
class MostLikely:
    """The parameters of greatest likelihood.

    Attributes:
        kernel: with the temperature chosen.
        ridge: the ridge chosen; the noise has variance `scale` times it.
        scale: of kernel and noise.
        log_likelihood: what they reach.
        gradient: what is left of the gradient there.
        on_edge: whether temperature or ridge is the least or the largest allowed, so that a better one may lie beyond.
        evaluations: factorisations made.
        leave_one_out: whether the leave-one-out likelihood was maximised.
    """

    kernel: Kernel
    ridge: float
    scale: float
    log_likelihood: float
    gradient: LikelihoodGradient
    on_edge: bool
    evaluations: int
    leave_one_out: bool

    def __str__(self) -> str:
        tau = _temperature(self.kernel)
        which = "leave-one-out" if self.leave_one_out else "marginal"
        said = "" if tau is None else f"temperature {tau:.4g}, "
        edge = " On the edge of what was searched: a better value may lie beyond." if self.on_edge else ""
        return (
            f"Greatest {which} log likelihood {self.log_likelihood:.4f}: {said}ridge {self.ridge:.4g}, scale "
            f"{self.scale:.4g}, so noise of variance {self.scale * self.ridge:.4g}.{edge}"
        )


def _inner(kernel: Kernel) -> Kernel:
    return kernel.inner if isinstance(kernel, Weighted) else kernel


def _temperature(kernel: Kernel) -> float | None:
    inner = _inner(kernel)
    return inner.temperature if isinstance(inner, LogitKernel) else None


def _at_temperature(kernel: Kernel, temperature: float) -> Kernel:
    inner = _inner(kernel)
    assert isinstance(inner, LogitKernel)
    warmer = replace(inner, temperature=temperature)
    return replace(kernel, inner=warmer) if isinstance(kernel, Weighted) else warmer


def likelihood_gradient(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    ridge: float,
    *,
    scale: float | None = None,
    leave_one_out: bool = False,
) -> LikelihoodGradient:
    """Return the log likelihood of the targets and its exact gradient, from one factorisation.

    With A = K + ridge I, R = A^-1 and alpha = R y the gradient in A is (alpha alpha'/scale - R)/2 for the marginal
    likelihood. For the leave-one-out likelihood it is -(R p) alpha' - R diag(w) R with p = -alpha/(scale R_ii) and
    w = (alpha^2/(scale R_ii) + 1)/(2 R_ii). K changes with log temperature by -K times its logits.

    Args:
        kernel: any kernel; the exponential and Gaussian ones have a temperature.
        X: rows, (n, d).
        y: targets, (n,) or (n, outputs), which are independent; the model's mean is 0, so subtract theirs.
        ridge: noise over scale.
        scale: of kernel and noise; None takes the best, which is known in closed form.
        leave_one_out: the likelihood of each target given the others, summed, in place of the marginal one.

    Raises:
        InputError: K + ridge I is singular in float64.

    Example:
        >>> from ridgeformer.kernels import Gaussian
        >>> X = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
        >>> found = likelihood_gradient(Gaussian(temperature=0.5), X, X[:, 0].sin(), 0.01)
        >>> found.ridge < 0  # these targets have no noise: less would be more likely
        True
    """
    rows = as_matrix(X, "X").double()
    targets = as_targets(y, rows).reshape(len(rows), -1)
    given = None if scale is None else positive(scale, "scale", "it multiplies a variance")
    with torch.no_grad():
        return _evaluate(kernel, rows, targets, positive(ridge, "ridge", "noise"), given, leave_one_out)


def _evaluate(
    kernel: Kernel, X: Tensor, y: Tensor, ridge: float, scale: float | None, leave_one_out: bool
) -> LikelihoodGradient:
    n, outputs = y.shape
    safe = kernel.within_range(X)
    lost = safe.log_scale - kernel.log_scale  # A below is e^-lost times what was asked for, and its scale e^lost times
    K, own = safe.dense(X, X), ridge * exp(-lost)
    L = K.clone()
    if not factorise_in_place(L, own):
        raise InputError(f"K + ridge I is singular in float64 at ridge {ridge:.3g}: raise the ridge.")
    L = L.tril_()
    alpha, R = solve_with_factor(L, y), torch.cholesky_inverse(L)
    diagonal = R.diagonal() if leave_one_out else None
    squares = (y * alpha).sum() if diagonal is None else (alpha.square() / diagonal[:, None]).sum()
    most_likely = float(squares) / (n * outputs)
    unit = most_likely if scale is None else scale * exp(lost)
    if not (isfinite(unit) and unit > 0):
        raise InputError("the targets are all zero, or beyond float64 beside the kernel: no scale explains them.")
    value = log_likelihood(y, alpha, 2 * L.diagonal().log().sum(), diagonal, scale=unit)
    if diagonal is None:
        G = (alpha @ alpha.T / unit).sub_(R, alpha=outputs).div_(2)
    else:
        pull = -alpha / (unit * diagonal[:, None])
        weight = (alpha.square().sum(1) / (unit * diagonal) + outputs) / (2 * diagonal)
        G = (R @ pull @ alpha.T).add_((R * weight) @ R).neg_()
    return LikelihoodGradient(
        float(value),
        _slope(safe, X, K, G),
        own * float(G.diagonal().sum()),
        (float(squares) / unit - n * outputs) / 2,
        unit * exp(-lost),
    )


def _slope(kernel: Kernel, X: Tensor, K: Tensor, G: Float[Tensor, "n n"]) -> float | None:
    """Return the derivative in log temperature, given that in K."""
    inner = _inner(kernel)
    if not isinstance(inner, LogitKernel):
        return None
    rows = X[:, :-1] if isinstance(kernel, Weighted) else X
    return -float((G * K * (inner.logits(rows, rows) + inner.log_scale)).sum())


def maximise_likelihood(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    *,
    ridge: float | None = None,
    scale: float | None = None,
    fixed_temperature: bool = False,
    leave_one_out: bool = False,
) -> MostLikely:
    """Return the temperature, ridge and scale under which the targets are most likely.

    A coarse grid of temperatures and ridges gives the start; L-BFGS-B climbs from there with exact gradients, in
    logarithms. Likelihoods can have several maxima, so what is found is a local one, no worse than the whole grid.

    Args:
        kernel: its temperature is where the search is centred; kernels without one keep what they have.
        X: rows, (n, d).
        y: targets, (n,) or (n, outputs); subtract their mean first.
        ridge: held at this; None chooses it.
        scale: held at this; None chooses it.
        fixed_temperature: whether the kernel keeps its temperature.
        leave_one_out: the criterion, as in `likelihood_gradient`.

    Example:
        >>> from ridgeformer.kernels import Gaussian
        >>> X = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
        >>> noise = 0.1 * torch.randn(40, generator=torch.Generator().manual_seed(0)).double()
        >>> found = maximise_likelihood(Gaussian(temperature=1.0), X, torch.sin(2 * X[:, 0]) + noise)
        >>> 0.05 < (found.scale * found.ridge) ** 0.5 < 0.2  # the noise that was put in is 0.1
        True
    """
    from scipy.optimize import minimize

    rows = as_matrix(X, "X").double()
    surface = _Surface(
        kernel,
        rows,
        as_targets(y, rows).reshape(len(rows), -1),
        None if ridge is None else positive(ridge, "ridge", "noise over scale"),
        None if scale is None else positive(scale, "scale", "it multiplies a variance"),
        _temperature(kernel) is not None and not fixed_temperature,
        leave_one_out,
    )
    with torch.no_grad():
        start = max(product(*surface.grid), key=surface.height)
        if surface.height(start) == -inf:
            assert surface.refused is not None
            raise surface.refused
        if start:
            minimize(surface.down, start, jac=True, bounds=surface.limits, method="L-BFGS-B", options={"gtol": 1e-7})
    best = max(surface.seen, key=surface.height)
    reached = surface.at(best)
    on_edge = any(min(one - low, high - one) < 1e-6 for one, (low, high) in zip(best, surface.limits, strict=True))
    found = reached.found
    return MostLikely(
        reached.kernel, reached.ridge, found.at_scale, found.value, found, on_edge, len(surface.seen), leave_one_out
    )


Place: TypeAlias = tuple[float, ...]
"""Log temperature and log of the ridge over the mean diagonal of K, those of them that are searched."""


@dataclass(frozen=True, eq=False)
class _Reached:
    found: LikelihoodGradient
    kernel: Kernel
    ridge: float
    slopes: tuple[float, ...]


@dataclass(eq=False)
class _Surface:
    """The likelihood over what is searched, each place evaluated once."""

    kernel: Kernel
    X: Tensor
    y: Tensor
    ridge: float | None
    scale: float | None
    searched: bool
    leave_one_out: bool
    seen: dict[Place, _Reached] = field(default_factory=dict)
    refused: InputError | None = None

    @property
    def grid(self) -> list[list[float]]:
        """The values of every axis among which the start is chosen."""
        tau = _temperature(self.kernel)
        taus = [[log(tau * one) for one in (*TEMPERATURES, 2.0, 4.0)]] if self.searched and tau else []
        return taus + ([[log(one) for one in START_RIDGES]] if self.ridge is None else [])

    @property
    def limits(self) -> list[tuple[float, float]]:
        """The least and the largest value of every axis."""
        wide, low, high = log(TEMPERATURE_RANGE), *ridge_limits(len(self.X))
        found = [(min(self.grid[0]) - wide, max(self.grid[0]) + wide)] if self.searched else []
        return found + ([(log(low), log(high))] if self.ridge is None else [])

    def at(self, place: Place) -> _Reached:
        """Evaluate; minus infinity where K + ridge I is singular or its entries are beyond float64."""
        if place not in self.seen:
            try:
                self.seen[place] = self._evaluated(place)
            except InputError as error:
                nothing = LikelihoodGradient(-inf, None, 0.0, 0.0, 0.0)
                self.seen[place] = _Reached(nothing, self.kernel, 0.0, (0.0,) * len(place))
                self.refused = error
        return self.seen[place]

    def _evaluated(self, place: Place) -> _Reached:
        kernel = _at_temperature(self.kernel, exp(place[0])) if self.searched else self.kernel
        diagonal = kernel.diagonal(self.X)
        mean = float(diagonal.mean())
        ridge = exp(place[-1]) * mean if self.ridge is None else self.ridge
        found = _evaluate(kernel, self.X, self.y, ridge, self.scale, self.leave_one_out)
        slopes = (found.ridge,) if self.ridge is None else ()
        if self.searched:
            assert found.temperature is not None
            inner, rows = _inner(kernel), self.X[:, :-1] if isinstance(kernel, Weighted) else self.X
            logits = inner.diagonal(rows).log() + inner.log_scale
            moved = -float((diagonal * logits).mean()) / mean  # the mean diagonal, with log temperature
            slopes = (found.temperature + (found.ridge * moved if self.ridge is None else 0.0), *slopes)
        return _Reached(found, kernel, ridge, slopes)

    def height(self, place: Place) -> float:
        """The log likelihood; minus infinity where there is none."""
        return self.at(place).found.value

    def down(self, place: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """What is minimised, and its gradient."""
        reached = self.at(tuple(map(float, place)))
        return min(-reached.found.value, 1e300), -np.array(reached.slopes)
