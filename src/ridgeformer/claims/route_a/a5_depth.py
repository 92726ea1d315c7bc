"""A5: how deep must a network be that descends the gradient?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict, concluding
from ridgeformer.claims.descent import a_norm, chebyshev, conjugate_gradients, eigenvalues_and_kappa, richardson
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.kernels import DotProduct
from ridgeformer.solving import solve

ACCURACY, EIGENVALUES = 1e-6, 200
KAPPAS = (1e1, 1e2, 1e3, 1e4)
SIZE, STEPS, LATER = 5, 3, 8
PUBLISHED = {
    "gradient descent": ("63", "632", "6350", "63790"),
    "Chebyshev": ("22", "71", "225", "712"),
    "conjugate gradients": ("22", "66", "", ""),
}
"""What is on record; at the larger condition numbers CG loses orthogonality, and its count moves with the targets."""
Array = NDArray[np.float64]


def _spectrum(kappa: float) -> Array:
    return np.geomspace(1.0, kappa, EIGENVALUES)


def _least(error: Callable[[int], float]) -> int:
    """Return the first step whose error is within ACCURACY, for an error that falls."""
    few, enough = 0, 1
    while error(enough) > ACCURACY:
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if error(middle) <= ACCURACY else (middle, enough)
    return enough


def _relative(factors: Array, eigenvalues: Array) -> float:
    """Return the relative error if the error along eigenvector i falls by factor i, for equal targets along each."""
    return float(np.linalg.norm(factors / eigenvalues) / np.linalg.norm(1 / eigenvalues))


def _gradient_descent_steps(kappa: float) -> int:
    """Count the steps of the best fixed step size: the error along an eigenvector falls by 1 - eta * eigenvalue."""
    eigenvalues = _spectrum(kappa)
    factor = np.abs(1 - 2 / (1 + kappa) * eigenvalues)
    return _least(lambda t: _relative(factor**t, eigenvalues))


def _chebyshev_steps(kappa: float) -> int:
    """Count the steps of Chebyshev iteration, eigenvector by eigenvector."""
    eigenvalues = _spectrum(kappa)
    centre, quotient = (1 + kappa) / 2, ((kappa - 1) / (kappa + 1)) ** 2
    error, change, omega, steps = np.ones(EIGENVALUES), np.zeros(EIGENVALUES), 1.0, 0
    while _relative(error, eigenvalues) > ACCURACY:
        change = (omega - 1) * change + omega / centre * eigenvalues * error
        error = error - change
        omega = 1 / (1 - quotient * omega / (2 if steps == 0 else 4))
        steps += 1
    return steps


def conjugate_gradient_steps(kappa: float) -> int:
    """Count the steps of `solve` on features that give this spectrum with a ridge of 1."""
    eigenvalues = torch.from_numpy(_spectrum(kappa))
    exact = 1 / eigenvalues

    def near(step: int, alpha: Tensor, residual: Tensor) -> bool:
        return float((alpha[:, 0] - exact).norm()) <= ACCURACY * float(exact.norm())

    X = torch.diag((eigenvalues - 1).clamp_min(0).sqrt())
    return solve(DotProduct(), X, torch.ones_like(exact), 1.0, algorithm="cg", tol=1e-15, callback=near).steps


def _contraction(kappa: Tensor, root: bool) -> Tensor:
    size = kappa.sqrt() if root else kappa
    return (size - 1) / (size + 1)


def _gradient_descent_rate(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, kappa, exact = _case(theta)
    return (richardson(A, A * exact, STEPS) - exact).norm(dim=-1), _contraction(kappa, False) ** STEPS * exact.norm(
        dim=-1
    )


def _chebyshev_rate(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, kappa, exact = _case(theta)
    power = _contraction(kappa, True) ** STEPS
    return (chebyshev(A, A * exact, STEPS) - exact).norm(dim=-1), 2 * power / (1 + power**2) * exact.norm(dim=-1)


def _best_of_all(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, _, exact = _case(theta)
    ours = conjugate_gradients(A, A * exact, STEPS).alpha
    return a_norm(A, ours - exact), a_norm(A, chebyshev(A, A * exact, STEPS) - exact)


def _as_stated(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, kappa, exact = _case(theta)
    error = a_norm(A, richardson(A, A * exact, LATER) - exact)
    return error, 2 * _contraction(kappa, True) ** LATER * a_norm(A, exact)


def _case(theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues, condition number and solution."""
    take = Numbers(theta)
    A, kappa = eigenvalues_and_kappa(take, SIZE)
    return A, kappa, take.vector(SIZE)


FREE = 2 * SIZE
FOLLOWS = "depth follows the rate of conjugate gradients"
STATED = Inequality(
    "A5 as stated", FREE, _as_stated, "gradient descent errs by at most 2 ((sqrt k - 1)/(sqrt k + 1))^t"
)
RATE = Inequality("A5 descent", FREE, _gradient_descent_rate, "gradient descent: error <= ((k - 1)/(k + 1))^t")
CHEBYSHEV = Inequality("A5 Chebyshev", FREE, _chebyshev_rate, "Chebyshev: error <= 1/T_t((k + 1)/(k - 1))")
BEST = Inequality("A5 best", FREE, _best_of_all, "conjugate gradients err no more than Chebyshev, in the A-norm")


def check(cases: int) -> Evidence:
    """Count the steps to 1e-6 for four condition numbers, and search for violations of the rates."""
    counts = {
        "gradient descent": [_gradient_descent_steps(kappa) for kappa in KAPPAS],
        "Chebyshev": [_chebyshev_steps(kappa) for kappa in KAPPAS],
        "conjugate gradients": [conjugate_gradient_steps(kappa) for kappa in KAPPAS],
    }
    figures = tuple(
        Figure(f"{name}: steps to 1e-6 at kappa {kappa:g}", float(count), shown)
        for name, found in counts.items()
        for kappa, count, shown in zip(KAPPAS, found, PUBLISHED[name], strict=True)
    )
    promised = [bounds.cg_steps(kappa, ACCURACY) for kappa in KAPPAS]
    slow = sum(count > most for count, most in zip(counts["gradient descent"], promised, strict=True))
    return Evidence(
        stated=concluding(
            FOLLOWS,
            Trial("gradient descent needs no more steps than the rate of CG promises", len(KAPPAS), slow),
            try_to_break(STATED, cases),
        ),
        corrected=(
            _within("gradient descent", counts, bounds.richardson_steps),
            _within("Chebyshev", counts, bounds.chebyshev_steps),
            *concluding(FOLLOWS, _within("conjugate gradients", counts, _cg_steps)),
            try_to_break(RATE, cases),
            try_to_break(CHEBYSHEV, cases),
            try_to_break(BEST, cases),
        ),
        figures=figures,
        plot=_plot(counts),
    )


def _cg_steps(kappa: float, accuracy: float) -> int:
    """Return the steps that a 2-norm error may take, being at most sqrt(kappa) times the one in the A-norm."""
    return bounds.cg_steps(kappa, accuracy / kappa**0.5)


def _within(name: str, counts: dict[str, list[int]], steps: Callable[[float, float], int]) -> Trial:
    """Try whether the counts stay within the worst case."""
    most = [steps(kappa, ACCURACY) for kappa in KAPPAS]
    ratios = [count / limit for count, limit in zip(counts[name], most, strict=True)]
    statement = f"{name}: steps counted <= steps of its worst case"
    return Trial(statement, len(KAPPAS), sum(r > 1 for r in ratios), max(ratios))


def _plot(counts: dict[str, list[int]]) -> Plot:
    curves = tuple(Curve(name, KAPPAS, tuple(map(float, found))) for name, found in counts.items())
    worst = tuple(float(bounds.cg_steps(kappa, ACCURACY)) for kappa in KAPPAS)
    return Plot(
        (*curves, Curve("what the rate of CG promises", KAPPAS, worst, dashed=True)),
        "condition number", "steps to a relative error of 1e-6",
        "Gradient descent grows like kappa, the other two like its square root.",
        log_x=True, log_y=True,
    )  # fmt: skip


A5 = Claim(
    id="A5",
    source="softmax-route note, theorem and consequences",
    origin=Origin.QUOTED,
    quote="can implement Gradient Descent steps on the kernel ridge regression objective ... Depth-accuracy follows "
    "CG rate on K~+lambda I.",
    title="Gradient descent layers converge, and depth follows the rate of conjugate gradients",
    stated="A deep network performs gradient descent steps that converge to the ridge solution; its accuracy in depth "
    "follows the rate of conjugate gradients.",
    formula=r"\|\alpha_t-\alpha^*\|_A \le 2\Big(\frac{\sqrt\kappa-1}{\sqrt\kappa+1}\Big)^t\|\alpha^*\|_A "
    r"\quad\text{for gradient descent}",
    verdict=Verdict.AMENDED,
    corrected="The two halves belong to two networks. Gradient descent needs depth in proportion to kappa; conjugate "
    "gradients, or Chebyshev's fixed coefficients, need its square root.",
    corrected_formula=r"\text{gradient descent: } \Big(\frac{\kappa-1}{\kappa+1}\Big)^t, \qquad "
    r"\text{Chebyshev: } \frac{1}{T_t\big(\frac{\kappa+1}{\kappa-1}\big)} \le "
    r"2\Big(\frac{\sqrt\kappa-1}{\sqrt\kappa+1}\Big)^t",
    condition="The step size is below 2/(largest eigenvalue); the rate is the best one's, 2/(smallest + largest). "
    "The worst cases are attained at the ends of the spectrum.",
    check=check,
)
