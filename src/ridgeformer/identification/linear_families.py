"""Families of linear regression: iterations on the Gram matrix, in each task's eigenbasis, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ridgeformer.algorithms import (
    Chebyshev,
    Coefficients,
    ConjugateGradients,
    FixedCoefficients,
    HeavyBall,
    Iterative,
    Nesterov,
    Neumann,
    Richardson,
)
from ridgeformer.identification.candidates import Family, Member
from ridgeformer.identification.problems import DiagonalSystem, Problems, last_steps

__all__ = ["LINEAR"]

Starts = Callable[[Problems, Tensor], Tensor]


def _grid(*axes: Sequence[float]) -> Starts:
    given = list(product(*axes))
    points = torch.tensor(given, dtype=torch.float64).reshape(len(given), len(axes))
    return lambda problems, targets: points


def _depths(*steps: int, mean: bool = True, adaptive: bool = False) -> tuple[Member, ...]:
    units = [Member()] + [Member(mean=True)] * mean + [Member(adaptive=True)] * adaptive
    return tuple(Member(t, unit.mean, unit.adaptive) for unit in units for t in steps)


RIDGES = (-18.0, -6.0, -3.0, -1.0)
"""Starting points for log(ridge / largest eigenvalue)."""

PLAIN = (0.001, 0.1)
"""Starting points for ridge / largest eigenvalue, where that is the parameter itself; it stays above 0."""

PUSHES = (-1.5, -0.5, 0.3)
"""Starting points for log(step size x largest eigenvalue)."""


class _Cells:
    """The systems of M parameter vectors on T tasks, (coordinates, M x T), in the unit of each vector."""

    def __init__(self, steps: Tensor, mean: Tensor, problems: Problems) -> None:
        self.problems, self.M, self.T = problems, len(mean), len(problems.supports)
        self.divisor = torch.where(mean[:, None], problems.supports, 1.0)  # (M, T)
        self.steps, self.scale = self.column(steps), problems.scale(mean)
        self.eigenvalues = self.flat(problems.eigenvalues[:, None] / self.divisor)
        self.moments = self.flat(problems.moments[:, None] / self.divisor)

    def flat(self, values: Tensor) -> Tensor:
        return values.expand(-1, self.M, self.T).reshape(values.shape[0], -1)

    def column(self, values: Tensor) -> Tensor:
        return values[:, None].expand(self.M, self.T).reshape(-1)

    def ridge(self, log: Tensor) -> Tensor:
        return self.column(log.clamp(-40, 20).exp() * self.scale)

    def plain_ridge(self, ridge: Tensor) -> Tensor:
        """Return a ridge given in units of the largest eigenvalue; a logarithm would have no gradient near zero."""
        return self.column(ridge * self.scale)

    def push(self, log: Tensor) -> Tensor:
        return self.column(log.clamp(-20, 20).exp() / self.scale)

    def predict(self, w: Tensor) -> Tensor:
        return self.problems.predict(w.reshape(-1, self.M, self.T))


def _fixed(
    algorithm: Iterative, spectrum: Callable[[_Cells, Tensor], tuple[Tensor, Tensor]], ridge: int
) -> Callable[..., Tensor]:
    """Return the predictions of a fixed-coefficient algorithm whose coefficients follow from the ends of a spectrum."""

    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        cells = _Cells(steps, mean, problems)
        shift = cells.plain_ridge(theta[:, ridge])
        low, high = spectrum(cells, theta)
        if bool(adaptive.any()):  # the step is divided by ridge + trace K in place of the mean largest eigenvalue
            found = (
                shift + cells.column(torch.ones_like(cells.scale)) * problems.trace.repeat(cells.M)
            ) / cells.column(cells.scale)
            factor = torch.where(cells.column(adaptive), found, 1.0)
            low, high = low * factor, high * factor
        system = DiagonalSystem(cells.eigenvalues, shift)
        return cells.predict(last_steps(algorithm, system, cells.moments, cells.steps, (low, high)))

    return predict


def _step(cells: _Cells, theta: Tensor) -> tuple[Tensor, Tensor]:
    inverse = 1 / cells.push(theta[:, 0])
    return inverse, inverse


def _heavy(cells: _Cells, theta: Tensor) -> tuple[Tensor, Tensor]:
    eta, q = cells.push(theta[:, 0]), cells.column(torch.sigmoid(theta[:, 1])).sqrt()
    return ((1 - q) / eta.sqrt()).square(), ((1 + q) / eta.sqrt()).square()


def _nesterov(cells: _Cells, theta: Tensor) -> tuple[Tensor, Tensor]:
    high, momentum = 1 / cells.push(theta[:, 0]), cells.column(torch.sigmoid(theta[:, 1]))
    return high * ((1 - momentum) / (1 + momentum)).square(), high


def _interval(cells: _Cells, theta: Tensor) -> tuple[Tensor, Tensor]:
    high = 2 / cells.push(theta[:, 0])
    return high * cells.column(torch.sigmoid(theta[:, 1])), high


def _neumann(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    system = DiagonalSystem(cells.eigenvalues, cells.ridge(theta[:, 0]))
    return cells.predict(last_steps(Neumann(), system, cells.moments, cells.steps))


@dataclass(frozen=True, kw_only=True)
class _Unequal(FixedCoefficients):
    """Gradient descent whose step sizes differ from step to step: one row of `pushes` a step."""

    pushes: Tensor

    name: ClassVar[str] = "unequal steps"
    family: ClassVar[str] = "gradient descent with unequal steps"

    def coefficients(self, spectrum: object, ridge: object) -> Iterator[Coefficients]:
        return (Coefficients(0.0, push) for push in self.pushes)

    def promise(self, steps: int, spectrum: object, ridge: object) -> float:
        return float("inf")


MOST_UNEQUAL = 5


def _unequal(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    pushes = torch.stack([cells.column(theta[:, t] / cells.scale) for t in range(MOST_UNEQUAL)])
    system = DiagonalSystem(cells.eigenvalues, 0.0)
    return cells.predict(last_steps(_Unequal(pushes=pushes), system, cells.moments, cells.steps))


def _polynomial_basis(steps: int, mean: Tensor, problems: Problems) -> Tensor:
    """Return the predictions of T_j(lambda) X'y for j < steps, (steps, T, q), T_j Chebyshev on [0, largest]."""
    cells = _Cells(torch.ones(1, dtype=torch.long), mean, problems)
    top = 2 * cells.scale
    x = 2 * cells.eigenvalues / top - 1
    rows = [torch.ones_like(x), x]
    while len(rows) < steps:
        rows.append(2 * x * rows[-1] - rows[-2])
    return torch.cat([cells.predict(row * cells.moments / top) for row in rows[:steps]])


def _polynomial(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    found = []
    for coefficients, t, unit in zip(theta, steps, mean, strict=True):
        basis = _polynomial_basis(int(t), unit[None], problems)
        found.append(torch.einsum("c,ctq->tq", coefficients[: int(t)], basis))
    return torch.stack(found)


def _solve_polynomial(member: Member, problems: Problems, targets: Tensor) -> Tensor:
    basis = _polynomial_basis(member.steps or 1, torch.tensor([member.mean]), problems)
    weight = 1 / _rms(problems, targets)[:, None]
    A, f = (basis * weight).flatten(1).T, (targets * weight).flatten()
    return torch.linalg.lstsq(A, f[:, None], driver="gelsd").solution[:, 0]


def _rms(problems: Problems, targets: Tensor) -> Tensor:
    """Return the root mean square of the targets of each task's group, (T,)."""
    sizes = [float(targets[problems.members == place].square().mean().sqrt()) for place in range(len(problems.groups))]
    return torch.tensor(sizes, dtype=torch.float64).clamp_min(1e-300)[problems.members]


def polynomial_steps(member: Member, problems: Problems, targets: Tensor) -> Tensor:
    """Return the step sizes times the scale whose error polynomial is the best one; real parts where roots are complex.

    The weights p(lambda) X'y leave the error 1 - lambda p(lambda) = prod_j (1 - eta_j lambda).
    """
    t = member.steps or 1
    theta = _solve_polynomial(member, problems, targets).numpy()
    p = np.asarray(np.polynomial.chebyshev.cheb2poly(theta), dtype=np.float64)  # in x = lambda / scale - 1
    shift = np.polynomial.Polynomial([-1.0, 1.0])
    inner = np.asarray(np.polynomial.Polynomial(p)(shift).coef, dtype=np.float64) if len(p) > 1 else p
    error = np.concatenate([[1.0], -inner / 2])  # 1 - lambda p(lambda), in lambda / scale
    roots = np.asarray(np.roots(error[::-1]), dtype=np.complex128)
    sizes = np.sort(np.real(1 / roots[np.abs(roots) > 1e-9]))[:t]
    return torch.from_numpy(np.pad(sizes, (0, MOST_UNEQUAL - len(sizes))).astype(np.float64))


def _unequal_starts(problems: Problems, targets: Tensor) -> Tensor:
    exact = [
        polynomial_steps(Member(t, mean), problems, targets)
        for t in range(2, MOST_UNEQUAL + 1)
        for mean in (False, True)
    ]
    spread = torch.linspace(0.3, 1.7, MOST_UNEQUAL, dtype=torch.float64)
    return torch.stack([*exact, 0.5 * spread, spread])


def _cg(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    """Conjugate gradients on (K + ridge I) alpha = y: what a network with one coefficient a support token runs."""
    cells = _Cells(steps, mean, problems)
    values = torch.nn.functional.pad(cells.eigenvalues, (0, 0, 0, 1))  # what K does not reach has the eigenvalue 0
    system = DiagonalSystem(values, cells.ridge(theta[:, 0]))
    targets = cells.flat(problems.targets[:, None])
    alpha = last_steps(ConjugateGradients(), system, targets, cells.steps)[:-1]
    return cells.predict(alpha * cells.flat(problems.eigenvalues.sqrt()[:, None] / cells.divisor))


def _cg_primal(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    system = DiagonalSystem(cells.eigenvalues, cells.ridge(theta[:, 0]))
    return cells.predict(last_steps(ConjugateGradients(), system, cells.moments, cells.steps))


def _cg_centred(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    return _cg(theta, steps, mean, adaptive, problems.centred)


def _steepest(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    A = cells.eigenvalues + cells.ridge(theta[:, 0])
    w, r = torch.zeros_like(cells.moments), cells.moments
    found = w
    for t in range(1, int(steps.max()) + 1):
        curvature = (r * A * r).sum(0)
        size = torch.where(curvature > 1e-280, r.square().sum(0) / curvature.clamp_min(1e-280), 0.0)
        w, r = w + size * r, r - size * A * r
        found = torch.where(cells.steps == t, w, found)
    return cells.predict(found)


def _newton(identity: bool) -> Callable[..., Tensor]:
    def predict(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
        """M <- 2M - M A M towards the inverse of A = X'X + ridge I, from alpha A or alpha I."""
        cells = _Cells(steps, mean, problems)
        A = cells.eigenvalues + cells.ridge(theta[:, 1])
        size = cells.push(theta[:, 0])
        M = size.expand_as(A) if identity else size * A / cells.column(cells.scale)
        found = M
        for t in range(1, int(steps.max()) + 1):
            M = 2 * M - A * M.square()
            found = torch.where(cells.steps == t, M, found)
        return cells.predict(found * cells.moments)

    return predict


def _gd_plus_plus(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    """Gradient descent whose every step also maps x to (I - gamma X'X) x, on supports and queries."""
    cells = _Cells(steps, mean, problems)
    eta, gamma = cells.push(theta[:, 0]), cells.column(theta[:, 1] / cells.scale)
    first = cells.eigenvalues
    shrink = torch.ones_like(first)  # how much of a direction is left
    left, f = torch.ones_like(first), torch.zeros_like(first)  # residual and prediction, relative
    found = f
    for t in range(1, int(steps.max()) + 1):
        f = f + eta * shrink.square() * left
        left = left - eta * first * shrink.square() * left
        shrink = shrink * (1 - gamma * first * shrink.square())
        found = torch.where(cells.steps == t, f, found)
    return cells.predict(found * cells.moments)


def _ridge(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    return cells.predict(cells.moments / (cells.eigenvalues + cells.ridge(theta[:, 0])).clamp_min(1e-300))


def _ridge_with_intercept(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    # subtracting the mean target changes X'y by nothing, as centred rows are orthogonal to constants
    return _ridge(theta, steps, mean, adaptive, problems.centred) + problems.mean_targets[:, None]


def _inverse(values: Tensor) -> Tensor:
    kept = values > 1e-10 * values.amax(0)
    return torch.where(kept, 1 / values.clamp_min(1e-300), 0.0)


def _ols(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    w = _inverse(problems.eigenvalues) * problems.moments
    return problems.predict(w[:, None].expand(-1, len(theta), -1))


def _principal(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    w = (_inverse(problems.eigenvalues) * problems.moments)[:, None]
    kept = torch.arange(len(w))[:, None, None] < steps[None, :, None]
    return problems.predict(torch.where(kept, w, 0.0))


def _flow(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    cells = _Cells(steps, mean, problems)
    A = (cells.eigenvalues + cells.plain_ridge(theta[:, 1])).clamp_min(1e-12)
    return cells.predict(-torch.expm1(-A * cells.push(theta[:, 0])) / A * cells.moments)


def _bayes(theta: Tensor, steps: Tensor, mean: Tensor, adaptive: Tensor, problems: Problems) -> Tensor:
    """Posterior mean of w under a mixture of two Gaussian priors, both known up to three free parameters."""
    values, inside = problems.eigenvalues[:, None], problems.targets[:-1, None]
    noise = theta[:, 0].exp()[None, :, None]
    logs, means = [], []
    for place in (1, 2):
        prior = theta[:, place].exp()[None, :, None] / problems.scale(torch.tensor(False))
        spread = prior * values + noise
        logs.append(-0.5 * (spread.log() + inside.square() / spread).sum(0))
        means.append(prior / spread * problems.moments[:, None])
    weights = torch.softmax(torch.stack(logs), 0)
    return problems.predict(weights[0] * means[0] + weights[1] * means[1])


def _show_ridge(theta: Tensor, scale: float) -> dict[str, float]:
    return {"ridge": float(theta[0].clamp(-40, 20).exp()) * scale}


def _show_step(theta: Tensor, scale: float) -> dict[str, float]:
    return {"step": float(theta[0].clamp(-20, 20).exp()) / scale, "ridge": float(theta[-1]) * scale}


def _show_momentum(theta: Tensor, scale: float) -> dict[str, float]:
    shown = _show_step(theta, scale)
    return {"step": shown["step"], "momentum": float(torch.sigmoid(theta[1])), "ridge": shown["ridge"]}


def _show_interval(theta: Tensor, scale: float) -> dict[str, float]:
    high = 2 * scale / float(theta[0].clamp(-20, 20).exp())
    return {"low": high * float(torch.sigmoid(theta[1])), "high": high, "ridge": _show_step(theta, scale)["ridge"]}


def _show_unequal(theta: Tensor, scale: float) -> dict[str, float]:
    sizes = sorted(float(size) / scale for size in theta if float(size) != 0)
    return {f"step {place}": size for place, size in enumerate(sizes, start=1)}


def _show_newton(theta: Tensor, scale: float) -> dict[str, float]:
    return {"start": float(theta[0].exp()), "ridge": float(theta[1].clamp(-40, 20).exp()) * scale}


def _show_plus(theta: Tensor, scale: float) -> dict[str, float]:
    return {"step": float(theta[0].exp()) / scale, "gamma": float(theta[1]) / scale}


def _show_bayes(theta: Tensor, scale: float) -> dict[str, float]:
    noise, first, second = (float(part.exp()) for part in theta)
    return {"noise variance": noise, "first prior variance": first / scale, "second": second / scale}


GENERAL = frozenset({"polynomial"})
MOMENTA = (-1.5, 0.0, 1.5)

LINEAR: tuple[Family, ...] = (
    Family("gd", "gradient descent", _depths(*range(1, 21), adaptive=True), ("step", "ridge"),
           _fixed(Richardson(), _step, 1), _grid((-2.5, *PUSHES), PLAIN), _show_step,
           GENERAL | {"gd_unequal", "heavy_ball", "nesterov", "gd_plus_plus"}, "polynomial", lower=(-20.0, 0.0)),
    Family("gd_unequal", "gradient descent with unequal steps", _depths(*range(2, MOST_UNEQUAL + 1)),
           tuple(f"step {t}" for t in range(1, MOST_UNEQUAL + 1)), _unequal, _unequal_starts, _show_unequal, GENERAL,
           "polynomial"),
    Family("polynomial", "a fixed-coefficient method", _depths(*range(2, 9)), ("coefficients",), _polynomial,
           _grid((0.0,)), lambda theta, scale: {}, frozenset(), "polynomial", _solve_polynomial),
    Family("heavy_ball", "heavy-ball momentum", _depths(*range(2, 11)), ("step", "momentum", "ridge"),
           _fixed(HeavyBall(), _heavy, 2), _grid((-1.0, 0.0, 0.8), MOMENTA, PLAIN), _show_momentum, GENERAL,
           "polynomial", lower=(-20.0, -12.0, 0.0)),
    Family("nesterov", "Nesterov's accelerated gradient", _depths(*range(2, 11)),
           ("step", "momentum", "ridge"), _fixed(Nesterov(), _nesterov, 2),
           _grid((-1.0, 0.0, 0.8), MOMENTA, PLAIN), _show_momentum, GENERAL,
           "polynomial", lower=(-20.0, -12.0, 0.0)),
    Family("chebyshev", "Chebyshev iteration", _depths(*range(2, 11)), ("low", "high", "ridge"),
           _fixed(Chebyshev(), _interval, 2), _grid((-0.5, 0.3, 1.0), (-5.0, -3.0, -1.0), PLAIN),
           _show_interval, GENERAL, "polynomial", lower=(-20.0, -12.0, 0.0)),
    Family("neumann", "the Neumann series", _depths(2, 3, 4, 5, 6), ("ridge",), _neumann,
           _grid((-1.0, -0.3, 0.3, 1.0, 2.0)), _show_ridge, GENERAL | {"gd", "gd_unequal"}, "polynomial"),
    Family("gradient_flow", "gradient flow", (Member(), Member(mean=True)), ("time", "ridge"), _flow,
           _grid((-1.0, 1.0, 3.0), PLAIN), _show_step, lower=(-20.0, 0.0)),
    Family("cg", "conjugate gradients", _depths(1, 2, 3, 4, 5, 6, 7, 8), ("ridge",), _cg,
           _grid((*RIDGES, -4.5, -2.0, 0.0)), _show_ridge),
    Family("cg_primal", "conjugate gradients on the normal equations", _depths(1, 2, 3, 4, 5, 6, 7, 8), ("ridge",),
           _cg_primal, _grid((*RIDGES, -4.5, -2.0)), _show_ridge),
    Family("cg_centred", "conjugate gradients on centred rows", _depths(1, 2, 3, 4, 5, 6, mean=False), ("ridge",),
           _cg_centred, _grid((*RIDGES, -4.5, -2.0)), _show_ridge, centred=True),
    Family("steepest", "steepest descent with exact line search", _depths(2, 3, 4, 5, 6), ("ridge",), _steepest,
           _grid(RIDGES), _show_ridge),
    Family("newton_schulz", "Newton-Schulz iteration", _depths(1, 2, 3, 4, 5, 6, 8), ("start", "ridge"), _newton(False),
           _grid((-2.5, *PUSHES), (-18.0, -2.0)), _show_newton),
    Family("newton_identity", "Newton-Schulz iteration from the identity", _depths(2, 3, 4, 5, 6),
           ("start", "ridge"), _newton(True), _grid((-2.5, *PUSHES), (-18.0, -2.0)), _show_newton),
    Family("gd_plus_plus", "GD++", _depths(2, 3, 4, 5), ("step", "gamma"), _gd_plus_plus,
           _grid((-1.5, -0.5, 0.3), (-0.3, 0.1, 0.4)), _show_plus),
    Family("ridge", "ridge regression", (Member(), Member(mean=True)), ("ridge",), _ridge,
           _grid((*RIDGES, -4.5, -2.0, 1.0)), _show_ridge, kind="exact"),
    Family("ridge_intercept", "ridge regression with an intercept", (Member(), Member(mean=True)), ("ridge",),
           _ridge_with_intercept, _grid((*RIDGES, -4.5, -2.0)), _show_ridge, kind="exact", centred=True),
    Family("ols", "ordinary least squares", (Member(),), (), _ols, _grid(), lambda theta, scale: {},
           frozenset({"ridge"}), "exact"),
    Family("pcr", "principal component regression", tuple(Member(r) for r in (1, 2, 3, 4)), (), _principal, _grid(),
           lambda theta, scale: {}),
    Family("bayes_two_priors", "a Bayesian average over two priors", (Member(),),
           ("noise", "first prior", "second prior"), _bayes,
           _grid((-3.0, -1.0), (0.0, 3.0), (-3.0, -1.0)), _show_bayes),
)  # fmt: skip
"""Families of linear regression."""
