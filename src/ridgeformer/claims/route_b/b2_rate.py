"""B2: the rate of conjugate gradients, and what it means for a prediction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import compiler
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict
from ridgeformer.claims.descent import a_norm, conjugate_gradients, eigenvalues_and_kappa
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.route_b.posterior import POSTERIOR
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.kernels import DotProduct, Exponential, Kernel

SIZE = 5
SUPPORTS, FEATURES, QUERIES, STEPS = 24, 6, 4, 12
RIDGE = 0.05
Array = NDArray[np.float64]


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
    kernels = (DotProduct(), Exponential(1.0))
    certificates = [_certificate(kernel, number) for kernel in kernels for number in range(drawn(cases, 2))]
    errors, predictions = (_ratios(certificates, f"{name} per step") for name in ("error", "prediction"))
    figures = (
        Figure("largest error over its bound, at any step of any run", float(errors.max())),
        Figure("largest prediction error over its bound", float(predictions.max())),
        Figure("largest condition number among them", max(float(c.kappa[0]) for c in certificates)),
    )
    return Evidence(
        stated=(
            _trial("compiled networks stay within the rate", errors),
            _trial("so do their predictions", predictions),
            *(try_to_break(inequality, cases) for inequality in RATES),
        ),
        corrected=tuple(try_to_break(inequality, cases) for inequality in POSTERIOR),
        figures=figures,
        plot=_plot(certificates[0]),
    )


def _certificate(kernel: Kernel, number: int) -> compiler.Certificate:
    X, y, Xq = unit_task(SUPPORTS, FEATURES, QUERIES, "B2", number)
    model = compile(kernel, ConjugateGradients(steps=STEPS), features=FEATURES, ridge=RIDGE)
    return compiler.certify(model, X, y, Xq)


def _ratios(certificates: list[compiler.Certificate], name: str) -> Array:
    """Return what was measured over what is allowed, of every step, with what rounding may add."""
    curves = [certificate.curves[name] for certificate in certificates]
    return np.concatenate([(curve.measured / curve.bound).ravel() for curve in curves])


def _trial(statement: str, ratios: Array) -> Trial:
    return Trial(statement, ratios.size, int((~(ratios <= 1)).sum()), float(ratios.max()))


def _plot(certificate: compiler.Certificate) -> Plot:
    curve = certificate.curves["error per step"]
    steps = tuple(float(t) for t in range(1, STEPS + 1))
    measured, allowed = (values[0, :, 0] for values in (curve.measured, curve.bound))
    return Plot(
        (
            Curve("compiled network", steps, tuple(np.maximum(measured, 1e-16).tolist())),
            Curve("2 ((sqrt k - 1)/(sqrt k + 1))^t", steps, tuple(allowed.tolist()), dashed=True),
        ),
        "steps", "relative A-norm error",
        "Six features leave seven distinct eigenvalues: the network ends after seven steps, the bound does not.",
        log_y=True,
    )  # fmt: skip


B2 = Claim(
    id="B2",
    source="softmax-route note, consequences; theoretical analysis, lemma 3",
    origin=Origin.QUOTED,
    quote="Depth-accuracy follows CG rate on K~+lambda I.",
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
