"""A3: does the Neumann series invert for a small ridge?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms import Neumann
from ridgeformer.claims.claim import (
    Claim,
    Counterexample,
    Curve,
    Evidence,
    Figure,
    Origin,
    Plot,
    Trial,
    Verdict,
    concluding,
)
from ridgeformer.claims.matrices import Numbers, norm, resolvent
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

SIZE, TERMS, SUPPORTS = 4, 3, 12
SMALL = (0.5, 0.1, 0.01)
KERNEL = Exponential(temperature=1.0)


def _partial_sum(K: Tensor, ridge: Tensor, y: Tensor) -> Tensor:
    """Return TERMS terms of sum_j (-K/l)^j y/l."""
    term = y / ridge[:, None]
    total = term
    for _ in range(TERMS - 1):
        term = -(K @ term[..., None])[..., 0] / ridge[:, None]
        total = total + term
    return total


def _exponential(take: Numbers) -> Tensor:
    X = torch.tanh(take.matrix(SIZE, 2))
    return (X @ X.mT).exp()


def _errors(K: Tensor, ridge: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the error of the partial sum and the size of the solution."""
    exact = (resolvent(K, ridge) @ y[..., None])[..., 0]
    return (_partial_sum(K, ridge, y) - exact).norm(dim=-1), exact.norm(dim=-1)


def _as_stated(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    K, ridge = _exponential(take), take.between(0.01, 1.0)
    return _errors(K, ridge, take.vector(SIZE))


def _rate(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    F = take.matrix(SIZE, SIZE)
    K = F @ F.mT
    ratio = take.between(0.05, 0.999)
    error, size = _errors(K, norm(K) / ratio, take.vector(SIZE))
    return error, ratio**TERMS * size


def _least_norm(theta: Tensor) -> tuple[Tensor, Tensor]:
    K = _exponential(Numbers(theta))
    return torch.full_like(K[:, 0, 0], SIZE), norm(K)


STATED = Inequality(
    "A3 as stated", 3 * SIZE + 1, _as_stated, "three terms err less than none, exponential kernel, l between 0.01 and 1"
)
RATE = Inequality("A3 rate", SIZE * SIZE + SIZE + 1, _rate, "norm(alpha_t - alpha*) <= (norm(K)/l)^t norm(alpha*)")
LEAST = Inequality("A3 least norm", 2 * SIZE, _least_norm, "k <= norm(Kt), k the number of supports")


def check(cases: int) -> Evidence:
    """Run the series with small and with large ridges, and search for violations of its rate."""
    X, y, _ = unit_task(SUPPORTS, 3, 1, "A3")
    size = float(norm(KERNEL(X)))
    small = [solve(KERNEL, X, y, ridge, algorithm=Neumann(steps=100)) for ridge in SMALL]
    large = [solve(KERNEL, X, y, factor * size, algorithm="neumann", tol=1e-8) for factor in (1.01, 1.5, 10.0)]
    refused = sum(_refuses(ridge, X, y) for ridge in SMALL)
    figures = (
        Figure("norm(Kt) for 12 unit rows: the ridge must exceed it", size),
        Figure("error after five terms at l = 0.5, in units of the solution", _one_by_one(0.5, 5)),
        Figure("error after five terms at l = 2", _one_by_one(2.0, 5)),
    )
    return Evidence(
        stated=concluding(
            "the series converges",
            Trial("the series converges for l = 0.5, 0.1, 0.01", len(SMALL), sum(not s.converged for s in small)),
            try_to_break(STATED, cases),
        ),
        corrected=(
            *concluding(
                "the series converges",
                Trial("it converges for l above norm(K)", len(large), sum(not s.converged for s in large)),
                kept=sum(ridge > size for ridge in SMALL) / len(SMALL),
            ),
            Trial("the compiled network refuses the small ridges", len(SMALL), len(SMALL) - refused),
            try_to_break(RATE, cases),
            try_to_break(LEAST, cases),
        ),
        figures=figures,
        plot=_plot(),
    )


def _refuses(ridge: float, X: Tensor, y: Tensor) -> bool:
    model = compile(Exponential(1.0), Neumann(steps=5), features=X.shape[1], ridge=ridge)
    try:
        model(X, y, X)
    except InputError:
        return True
    return False


def _one_by_one(ridge: float, terms: int) -> float:
    """Return the relative error for one support at the origin, K = 1."""
    total = sum((-1 / ridge) ** j / ridge for j in range(terms))
    return abs(total - 1 / (1 + ridge)) * (1 + ridge)


def _plot() -> Plot:
    terms = tuple(range(16))
    curves = tuple(
        Curve(f"l = {ridge:g}", tuple(map(float, terms)), tuple(_one_by_one(ridge, t) for t in terms))
        for ridge in (0.5, 0.9, 1.1, 2.0)
    )
    bound = tuple(bounds.neumann_error_factor(1.0, 0.5, t) for t in terms)
    return Plot(
        (*curves, Curve("(norm(K)/l)^t, l = 0.5", tuple(map(float, terms)), bound, dashed=True)),
        "terms t", "relative error", "One support at the origin, K = 1: below l = 1 every further term makes it worse.",
        log_y=True,
    )  # fmt: skip


A3 = Claim(
    id="A3",
    source="theoretical analysis, proof of theorem 1, step 3",
    origin=Origin.QUOTED,
    quote="the model implements iterative gradient-based updates (or exact inversion via Neumann series for small "
    "lambda)",
    title="For a small ridge a Neumann series inverts exactly",
    stated="With the product by the kernel at hand, the network inverts exactly by a Neumann series if the ridge is "
    "small.",
    formula=r"(\tilde K+\lambda I)^{-1} = \tfrac1\lambda\sum_{j\ge0}(-\tilde K/\lambda)^j, \quad \lambda\text{ small}",
    verdict=Verdict.FALSE,
    corrected="It is the other way round: the series converges if and only if the ridge exceeds the kernel's norm. "
    "The exponential kernel has ones or more on its diagonal, so it diverges for every ridge below 1; the mean of the "
    "logits is never negative, so its norm is at least the number of supports, and it diverges below that too.",
    corrected_formula=r"\|\alpha_t-\alpha^*\| \le (\|K\|/\lambda)^t\,\|\alpha^*\|, \qquad \|\tilde K\|_2 \ge "
    r"\tfrac1k\sum_{ij}e^{S_{ij}} \ge k",
    condition="norm(K) < l; at the top eigenvector the rate is attained, so nothing less is enough.",
    check=check,
    counterexample=Counterexample(
        {"K": [[1.0]], "ridge": 0.5, "y": 1.0},
        "One support at the origin: K = e^0 = 1. The solution is 1/1.5 = 2/3. The terms (-2)^j 2 are 2, -4, 8, -16, "
        "so the partial sums are 2, -2, 6, -10: the error doubles with every term.",
    ),
)
