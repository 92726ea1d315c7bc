"""B2: the rate of conjugate gradients, and what it means for a prediction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ridgeformer import bounds, compiler
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Plot, Trial, Verdict
from ridgeformer.claims.descent import a_norm, conjugate_gradients, eigenvalues_and_kappa
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.route_b.posterior import POSTERIOR
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.tasks import unit_task
from ridgeformer.kernels import DotProduct, Exponential, Kernel

SIZE = 5
SUPPORTS, FEATURES, QUERIES, STEPS, TASKS = 24, 6, 4, 12, 5
RIDGE = 0.05
FLOOR = 1e-12
"""What rounding may add to a relative error, on problems conditioned as these."""
KERNELS: dict[str, Kernel] = {"linear": DotProduct(), "softmax": Exponential(1.0)}


def _case(theta: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return A, the error after some steps, what the rate allows of its A-norm, and a vector k(x)."""
    take = Numbers(theta)
    A, kappa = eigenvalues_and_kappa(take, SIZE)
    exact = take.vector(SIZE)
    error = conjugate_gradients(A, A * exact, steps).alpha - exact
    rate = (kappa.sqrt() - 1) / (kappa.sqrt() + 1)
    return A, error, 2 * rate**steps * a_norm(A, exact), take.vector(SIZE)


def _a_norm(steps: int, theta: Tensor) -> tuple[Tensor, Tensor]:
    A, error, allowed, _ = _case(theta, steps)
    return a_norm(A, error), allowed


def _prediction(steps: int, theta: Tensor) -> tuple[Tensor, Tensor]:
    A, error, allowed, k = _case(theta, steps)
    return (k * error).sum(-1).abs(), (k.square() / A).sum(-1).sqrt() * allowed


def _inequalities() -> tuple[Inequality, ...]:
    sides: list[tuple[str, str, Callable[[int, Tensor], tuple[Tensor, Tensor]]]] = [
        ("rate", "A-norm error <= 2 ((sqrt k - 1)/(sqrt k + 1))^t norm(alpha*)_A", _a_norm),
        ("prediction", "abs(f_t - f*) <= sqrt(k(x)'A^-1 k(x)) times that", _prediction),
    ]
    return tuple(
        Inequality(f"B2 {name} {steps}", 3 * SIZE, partial(side, steps), f"{words}, t = {steps}")
        for name, words, side in sides
        for steps in (1, 2, 3)
    )


RATES = _inequalities()


def check(cases: int) -> Evidence:
    """Hold every step of compiled networks against both bounds, and search for a violation of either."""
    runs = [_run(route, number) for route in KERNELS for number in range(TASKS)]
    errors = [ratio for run in runs for ratio in run.errors]
    predictions = [ratio for run in runs for ratio in run.predictions]
    figures = (
        Figure("largest error over its bound, at any step of ten networks", max(errors)),
        Figure("largest prediction error over its bound", max(predictions)),
        Figure("largest condition number among them", max(run.kappa for run in runs)),
    )
    return Evidence(
        stated=(
            Trial("compiled networks stay within the rate", len(errors), sum(e > 1 for e in errors), max(errors)),
            Trial("so do their predictions", len(predictions), sum(e > 1 for e in predictions), max(predictions)),
            *(try_to_break(inequality, cases) for inequality in RATES),
        ),
        corrected=tuple(try_to_break(inequality, cases) for inequality in POSTERIOR),
        figures=figures,
        plot=_plot(runs[0]),
    )  # fmt: skip


class _Run:
    """A compiled network on one task: after every step its errors, the bounds, and their ratios."""

    def __init__(self, K: Tensor, cross: Tensor, y: Tensor, alpha: Tensor, f: Tensor) -> None:
        A = K + RIDGE * torch.eye(len(K), dtype=torch.float64)
        values = torch.linalg.eigvalsh(K).clamp_min(0) + RIDGE
        exact = torch.linalg.solve(A, y)
        energies = (cross * torch.linalg.solve(A, cross.T).T).sum(1).sqrt()
        size = float((exact @ A @ exact).sqrt())
        self.kappa = float(values[-1] / values[0])
        self.measured = [float(((a - exact) @ A @ (a - exact)).sqrt()) / size for a in alpha]
        self.allowed = [bounds.cg_error_factor(self.kappa, t) for t in range(1, len(alpha) + 1)]
        self.errors = [e / (b + FLOOR) for e, b in zip(self.measured, self.allowed, strict=True)]
        gaps = [(step - cross @ exact).abs() / (energies * size) for step in f]
        self.predictions = [float(g.max()) / (b + FLOOR) for g, b in zip(gaps, self.allowed, strict=True)]


def _run(route: str, number: int) -> _Run:
    X, y, Xq = unit_task(SUPPORTS, FEATURES, QUERIES, "B2", number)
    trace = compiler.compile(route, features=FEATURES, ridge=RIDGE, steps=STEPS).trace(X, y, Xq)
    kernel = KERNELS[route]
    return _Run(kernel(X), kernel(Xq, X), y, trace.alpha[..., 0], trace.f[..., 0])


def _plot(run: _Run) -> Plot:
    steps = tuple(float(t) for t in range(1, STEPS + 1))
    return Plot(
        (
            Curve("compiled network", steps, tuple(max(e, FLOOR) for e in run.measured)),
            Curve("2 ((sqrt k - 1)/(sqrt k + 1))^t", steps, tuple(run.allowed), dashed=True),
        ),
        "steps", "relative A-norm error",
        "Six features leave seven distinct eigenvalues: the network ends after seven steps, the bound does not.",
        log_y=True,
    )  # fmt: skip


B2 = Claim(
    id="B2",
    source="003, consequences; 001, lemma 3",
    title="Conjugate gradients keep the classical rate, in coefficients and in predictions",
    stated="After t steps the A-norm error is within the classical factor, and a prediction within that times the "
    "query's own norm.",
    formula=r"\|\alpha_t-\alpha^*\|_A \le 2\Big(\frac{\sqrt\kappa-1}{\sqrt\kappa+1}\Big)^t\|\alpha^*\|_A, \quad "
    r"|f_t(x)-f^*(x)| \le \sqrt{k(x)^\top A^{-1}k(x)}\;\|\alpha_t-\alpha^*\|_A",
    verdict=Verdict.TRUE,
    corrected="Once an answer is there, its residual bounds its error without any rate; the project reports these "
    "bounds with every solution.",
    corrected_formula=r"|f-f^*| \le \sqrt{\frac{k(x,x)}{\lambda}}\,\frac{\|r\|}{2}, \quad r = y-(K+\lambda I)\alpha",
    condition="K positive semidefinite and a start at zero; rounding adds about kappa eps. Bounds from the diagonal "
    "need a kernel, not just a vector k(x).",
    check=check,
)
