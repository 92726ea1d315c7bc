"""Solves by every algorithm, engine, kernel and precision on random and hostile problems, judged by ball arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from flint import arb
from torch import Tensor

from hostile.exact import ExactRegression, exceeds
from hostile.tally import Tally
from ridgeformer.algorithms import (
    SHORTHANDS,
    Algorithm,
    Auto,
    Centres,
    Direct,
    FixedCoefficients,
    MixedDirect,
    NadarayaWatson,
    Preconditioned,
    resolve,
)
from ridgeformer.core.errors import NotPositiveSemidefiniteError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, GramPower, Kernel, ReluNTK
from ridgeformer.solving import Fit, Status, UnansweredWarning, solve
from ridgeformer.solving.engines import ENGINES, build_engine, stored, tiles, triangle
from ridgeformer.solving.preconditioners import PRECONDITIONERS
from ridgeformer.solving.ridge_path import ridge_path
from ridgeformer.solving.solver import TOLERANCE

__all__ = ["Problem", "attack", "draw", "judge", "judge_path"]

ALGORITHMS = tuple(name for name, (kind, _) in SHORTHANDS.items() if kind is not NadarayaWatson)
LOCAL = tuple(name for name in ENGINES if name != "dask")
TRIANGLE = 5
"""Rows of a stored tile; compiled products, which need more, are for thousands of rows."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One case: what `solve` is called with, and queries."""

    kernel: Kernel
    X: Tensor
    y: Tensor
    ridge: float
    queries: Tensor
    options: dict[str, Any] = field(default_factory=dict)
    built: str | None = None
    """Name of an engine that is built beforehand and given as an object."""
    tile: int | None = None
    """Rows of a tile, where small ones stand for what only large problems have: several tiles."""

    def __str__(self) -> str:
        options = ", ".join(f"{key} {value}" for key, value in self.options.items())
        given = f", a {self.built} object" if self.built else ""
        given += f", tiles of {self.tile} rows" if self.tile else ""
        return f"{self.kernel.name}, {tuple(self.X.shape)} {self.X.dtype}, ridge {self.ridge:.3g}, {options}{given}"


def draw(index: int, seed: int) -> Problem:
    """Return the case that (seed, index) determines: one third ordinary, the others extreme in some way."""
    rng = numpy_generator(seed, "hostile solves", index)
    dtype = torch.float32 if rng.random() < 0.5 else torch.float64
    n, d, hard = int(rng.integers(1, 11)), int(rng.integers(1, 6)), rng.random() > 1 / 3
    if index % 50 == 7:
        n, d = int(rng.integers(20, 50)), int(rng.integers(1, 30))
    X = torch.from_numpy(_rows(rng, n, d, hard)).to(dtype)
    if not bool(torch.isfinite(X).all()):
        X = torch.nan_to_num(X, posinf=1.0, neginf=-1.0)
    kernel = _kernel(rng, X, hard)
    ridge = float(10 ** rng.uniform(-12, 4))
    if hard and rng.random() < 0.4:
        ridge = float(10 ** (rng.uniform(-45, 45) if rng.random() < 0.7 else rng.uniform(-300, 300)))
    y, queries, tile = _targets(rng, X, hard), _queries(rng, X, hard), int(rng.choice([2, 3, 5]))
    return Problem(
        kernel, X, y, ridge, queries, *_options(rng, dtype), tile if n <= 10 and rng.random() < 0.3 else None
    )


def _rows(rng: np.random.Generator, n: int, d: int, hard: bool) -> Any:
    X = rng.standard_normal((n, d))
    kind = rng.integers(8) if hard else rng.integers(2)
    if kind == 1:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    elif kind == 2:  # repeated, and nearly repeated, rows
        X = X[rng.integers(n, size=n)] * (1 + rng.choice([0, 1e-15, 1e-8], size=(n, 1)))
    elif kind == 3:  # collinear
        X = rng.standard_normal((n, 1)) * X[:1]
    elif kind == 4:  # rows of very different lengths, some zero
        X *= 10 ** rng.uniform(-12, 2, size=(n, 1)) * (rng.random((n, 1)) > 0.2)
    elif kind == 5:  # a grid
        X = np.linspace(-1, 1, n)[:, None] * np.ones((1, d))
    elif kind == 6:
        X = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif kind == 7:
        X = np.zeros((n, d)) + (rng.random() < 0.5)
    return X * 10 ** (rng.uniform(-30, 15) if hard and rng.random() < 0.35 else rng.uniform(-2, 1))


def _kernel(rng: np.random.Generator, X: Tensor, hard: bool) -> Kernel:
    kind, d = rng.integers(8), X.shape[1]
    if kind == 0:
        return DotProduct()
    if kind == 1:
        return ReluNTK(both_layers=bool(rng.random() < 0.5))
    if kind == 2:
        size = float(X.double().abs().max())
        context = rng.standard_normal((int(rng.integers(1, 6)), d)) * (size if 0 < size < 1e30 else 1.0)
        return GramPower(int(rng.integers(1, 5)), torch.from_numpy(context).to(X.dtype))
    square = float(X.double().square().sum(1).mean()) or 1.0
    tau = max(square, 1e-280) * float(10 ** (rng.uniform(-4, 2) if hard else rng.uniform(-1, 1)))
    projection = torch.from_numpy(rng.standard_normal((int(rng.integers(1, 5)), d))) if rng.random() < 0.3 else None
    if kind >= 6:
        return Gaussian(min(tau, 1e300), projection)
    shift = float(rng.uniform(-50, 50)) if hard and rng.random() < 0.2 else 0.0
    return Exponential(min(tau, 1e300), projection, shift)


def _targets(rng: np.random.Generator, X: Tensor, hard: bool) -> Tensor:
    n, outputs = len(X), int(rng.integers(1, 4))
    y = rng.standard_normal((n, outputs))
    if hard:
        y *= rng.choice([0.0, 1.0, 1e-8], size=(n, 1)) if rng.random() < 0.2 else 1.0
        if rng.random() < 0.4:
            y *= 10 ** rng.uniform(-45, 38, size=outputs)
        if rng.random() < 0.1:
            y[:, 0] = 0.0
        if rng.random() < 0.05:
            y *= 10 ** rng.uniform(-260, 260)
    return torch.from_numpy(y if outputs > 1 or rng.random() < 0.5 else y[:, 0])


def _queries(rng: np.random.Generator, X: Tensor, hard: bool) -> Tensor:
    fresh = torch.from_numpy(rng.standard_normal((2, X.shape[1]))).to(X) * X.abs().max()
    queries = torch.cat([X[:2], fresh])
    if hard:
        factor = 10 ** rng.uniform(-20, 8)
        queries = torch.cat([queries, (fresh[:1].double() * factor).to(X), 0 * X[:1]])
    return torch.nan_to_num(queries, posinf=1.0, neginf=-1.0)


def _options(rng: np.random.Generator, dtype: torch.dtype) -> tuple[dict[str, Any], str | None]:
    name = str(rng.choice(ALGORITHMS))
    options: dict[str, Any] = {"algorithm": _algorithm(rng, name), "seed": int(rng.integers(100))}
    if rng.random() < 0.3:
        options["tol"] = float(10 ** rng.uniform(-13, -1))
    built = None
    if not isinstance(options["algorithm"], Direct | MixedDirect) and rng.random() < 0.4:
        engine = str(rng.choice(LOCAL))
        if rng.random() < 0.5:
            options["engine"] = engine
        else:
            built = engine
    return options, built


def _algorithm(rng: np.random.Generator, name: str) -> Algorithm:
    algorithm = resolve(name)
    if isinstance(algorithm, FixedCoefficients):
        algorithm = replace(algorithm, steps=int(rng.integers(1, 400)))
    elif isinstance(algorithm, Preconditioned):
        if not isinstance(algorithm, Auto) and rng.random() < 0.2:
            algorithm = replace(algorithm, steps=int(rng.integers(1, 6)))
        if rng.random() < 0.5:
            algorithm = replace(algorithm, preconditioner=str(rng.choice(list(PRECONDITIONERS))))
    elif isinstance(algorithm, Centres):
        algorithm = replace(algorithm, count=int(rng.integers(1, 12)))
    return algorithm


def attack(tally: Tally, index: int, seed: int) -> None:
    """Try one solve; every tenth case tries the leave-one-out residuals of a ridge path instead."""
    with tally.only_our_errors(f"solves {index} (seed {seed})"):  # a kernel may refuse its own parameters
        problem = draw(index, seed)
        what = "ridge path" if index % 10 == 9 else "solve"
        case = f"solves {index} (seed {seed}), {what}: {problem}"
        with _small_tiles(problem.tile):
            (judge_path if index % 10 == 9 else judge)(tally, problem, case)


@contextmanager
def _small_tiles(rows: int | None) -> Iterator[None]:
    """Let engines cut K into tiles of this many rows, so that a small problem takes the way of a large one."""
    before = tiles.PASSING, stored.TILE, triangle.SIZES
    if rows is not None:
        tiles.PASSING, stored.TILE, triangle.SIZES = rows, rows, (TRIANGLE,)
    try:
        yield
    finally:
        tiles.PASSING, stored.TILE, triangle.SIZES = before


def judge(tally: Tally, problem: Problem, case: str) -> None:
    """Solve, and hold every number of the answer against the exact one."""
    fit = None
    options = dict(problem.options)
    with tally.only_our_errors(case):
        try:
            if problem.built:
                safe = problem.kernel.within_range(problem.X)
                working = torch.float32 if options["seed"] % 2 else torch.float64
                options["engine"] = build_engine(problem.built, safe, problem.X, working)
            fit = solve(problem.kernel, problem.X, problem.y, problem.ridge, **options)
        except NotPositiveSemidefiniteError as error:
            tally.hold("a semidefinite kernel is never refused as indefinite", case, kept=False, what=str(error))
        else:
            tally.hold("a semidefinite kernel is never refused as indefinite", case, kept=True)
    if fit is None:
        return
    with tally.only_our_errors(case):
        _judge_solution(tally, problem, fit, case)


def _judge_solution(tally: Tally, problem: Problem, fit: Fit, case: str) -> None:
    finite = bool(torch.isfinite(fit.alpha).all())
    if not tally.hold("coefficients are finite", case, finite, "alpha is not"):
        return
    exact = ExactRegression(problem.kernel, problem.X, problem.y, problem.ridge)
    scale = arb(fit.log_scale).exp()
    _judge_coefficients(tally, problem, fit, exact, scale, case)
    _judge_predictions(tally, problem, fit, exact, case)


def _judge_coefficients(
    tally: Tally, problem: Problem, fit: Fit, exact: ExactRegression, scale: Any, case: str
) -> None:
    pairs = zip(exact.coefficient_errors(fit.alpha, scale), fit.alpha_bound.tolist(), strict=True)
    for error, bound in pairs:
        tally.hold("the bound on coefficients holds", case, not exceeds(error, bound), f"{error.str(5)} > {bound:.3e}")
    residuals = exact.residuals(fit.alpha, scale)
    stated = (fit.residual_norm + fit.roundoff).tolist()
    for residual, bound in zip(residuals, stated, strict=True):
        kept = not exceeds(residual, bound * (1 + 1e-12))
        tally.hold("the residual is as stated, up to its round-off", case, kept, f"{residual.str(5)} > {bound:.3e}")
    if fit.status is Status.CONVERGED:
        tol = problem.options.get("tol", TOLERANCE[problem.X.dtype])
        for residual, size, lost in zip(residuals, exact.target_norms(), fit.roundoff.tolist(), strict=True):
            allowed = arb(tol * (1 + 1e-9)) * size + arb(lost)
            kept = bool(residual <= allowed)
            tally.hold("converged means converged", case, kept, f"{residual.str(5)} > {allowed.str(5)}")
    if fit.fit_error is not None:
        for gap, bound in zip(exact.fit_difference(fit.alpha, scale), fit.fit_error.tolist(), strict=True):
            slack = bound * (1 + 1e-6) + 1e-7 * float(fit.target_norm.max())  # an estimate, not a proved bound
            kept = not exceeds(gap, slack)
            tally.hold("a fit on centres errs no more than stated", case, kept, f"{gap.str(5)} > {bound:.3e}")


def _judge_predictions(tally: Tally, problem: Problem, fit: Fit, exact: ExactRegression, case: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = fit.predict(problem.queries)
    answer = fit.answer(problem.queries)
    bounds = fit.prediction_bound(problem.queries)
    outputs = exact.outputs
    values, bounds = values.double().reshape(-1, outputs), bounds.reshape(-1, outputs)
    named = any(isinstance(one.message, UnansweredWarning) for one in caught) or bool(answer.answered.all())
    silent = bool(torch.isfinite(values[answer.answered]).all()) and named
    tally.hold("no prediction is NaN or infinite unless its row is named", case, silent, f"{values.tolist()}")
    tally.hold("no bound is NaN", case, not bool(torch.isnan(bounds).any()), f"{bounds.tolist()}")
    truth = exact.predictions(problem.queries)
    for q in answer.answered.nonzero()[:, 0].tolist():
        for c in range(outputs):
            error, bound = abs(arb(float(values[q, c])) - truth[q][c]), float(bounds[q, c])
            what = f"query {q}: {error.str(5)} > {bound:.3e}"
            tally.hold("the bound on predictions holds", case, not exceeds(error, bound), what)
            if q < min(2, len(problem.X)):
                uniform = float(fit.uniform_bound[c])
                tally.hold(
                    "the uniform bound holds", case, not exceeds(error, uniform), f"{error.str(5)} > {uniform:.3e}"
                )


def judge_path(tally: Tally, problem: Problem, case: str) -> None:
    """Compare the leave-one-out residuals of a ridge path with the exact ones."""
    ridges = [problem.ridge, min(problem.ridge * 1e3, 1e290)]
    path = None
    with tally.only_our_errors(case):
        path = ridge_path(problem.kernel, problem.X, problem.y, ridges)
    if path is None:
        return
    with tally.only_our_errors(case):
        for g, ridge in enumerate(ridges):
            exact = ExactRegression(problem.kernel, problem.X, problem.y, ridge).leave_one_out()
            bounds = path.residual_bound[g].tolist()
            for i, row in enumerate(exact):
                for c, truth in enumerate(row):
                    value = float(path.residuals[g, i, c])
                    gap, bound = abs(arb(value) - truth) if np.isfinite(value) else None, bounds[i][c]
                    kept = gap is not None and not exceeds(gap, bound)
                    what = f"ridge {ridge:.3g}, row {i}: {value:.6g} is {truth.str(8)}, bound {bound:.3e}"
                    tally.hold("a leave-one-out residual is within its bound", case, kept, what)
