"""B3: what does a product that is off by eps in every step cost?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict, concluding
from ridgeformer.claims.descent import Steps, conjugate_gradients, each_step, eigenvalues_and_kappa
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.core.seeds import torch_generator

SIZE, STEPS = 4, 3
EIGENVALUES, LONG = 50, 1500
KAPPAS = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
EPS = 1e-10


def _off(size: Tensor, directions: Tensor) -> Callable[[int, Tensor], Tensor]:
    """Return errors e_j of norm `size` norm(p_j) along the given directions, (cases, steps, n)."""
    units = directions / directions.norm(dim=-1, keepdim=True)
    return lambda j, p: size[:, None] * p.norm(dim=-1, keepdim=True) * units[:, j]


def _inexact(theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Steps]:
    """Return A, the right-hand side, eps norm(A), and a run whose products are off by that."""
    take = Numbers(theta)
    A, _ = eigenvalues_and_kappa(take, SIZE)
    b, size = take.vector(SIZE), take.between(1e-4, 0.3) * A[:, 0]
    return A, b, size, conjugate_gradients(A, b, STEPS, _off(size, take.matrix(STEPS, SIZE)))


def _residual(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, b, size, run = _inexact(theta)
    return (b - A * run.alpha).norm(dim=-1), run.residual.norm(dim=-1) + size * run.length


def _gap(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, b, size, run = _inexact(theta)
    return (b - A * run.alpha - run.residual).norm(dim=-1), size * run.length


def _as_stated(theta: Tensor) -> tuple[Tensor, Tensor]:
    A, b, size, run = _inexact(theta)
    exact = b / A
    clean = (conjugate_gradients(A, b, STEPS).alpha - exact).norm(dim=-1)
    return (run.alpha - exact).norm(dim=-1), clean + STEPS * size / A[:, 0] * exact.norm(dim=-1)


BOUNDED = "the error that inexact products leave is bounded in proportion to eps"
FREE = 2 * SIZE + STEPS * SIZE + 1
STATED = Inequality("B3 as stated", FREE, _as_stated, "the error grows by at most eps t norm(alpha*), constant 1")
RESIDUAL = Inequality(
    "B3 residual", FREE, _residual, "norm(b - A alpha_t) <= norm(r_t) + eps norm(A) sum abs(gamma_j) norm(p_j)"
)
GAP = Inequality("B3 gap", FREE, _gap, "norm(b - A alpha_t - r_t) <= eps norm(A) sum abs(gamma_j) norm(p_j)")


def check(cases: int) -> Evidence:
    """Run to the end with inexact products, check the identity, and search for a violation of the bounds."""
    runs = drawn(cases, 4)
    paths = {kappa: [_errors(kappa, number) for number in range(runs)] for kappa in KAPPAS}
    floors = {kappa: [path[-1] / (kappa * EPS) for path in found] for kappa, found in paths.items()}
    every = [floor for found in floors.values() for floor in found]
    late = [path[-1] / (EPS * len(path)) for found in paths.values() for path in found]
    identity = [_identity(number) for number in range(runs)]
    middle = floors[1e2]
    figures = (
        Figure("least floor at kappa 1e2, in units of kappa eps", min(middle)),
        Figure("largest there", max(middle)),
        Figure("least floor for kappa 1e1 to 1e6", min(every)),
        Figure("largest for them", max(every)),
        Figure("largest floor in units of eps t", max(late)),
    )
    return Evidence(
        stated=concluding(
            BOUNDED,
            Trial("the error that remains is at most eps t", len(late), sum(r > 1 for r in late), max(late)),
            try_to_break(STATED, cases),
        ),
        corrected=(
            Trial("b - A alpha_t = r_t + sum gamma_j e_j, to 1e-12", len(identity), sum(e > 1e-12 for e in identity)),
            Trial("at kappa 1e2 the floor is 0.03 to 0.5 kappa eps", runs, sum(not 0.03 <= f <= 0.5 for f in middle)),
            *concluding(
                BOUNDED, Trial("it is at most kappa eps", len(every), sum(f > 1 for f in every), max(every))
            ),
            try_to_break(RESIDUAL, cases),
            try_to_break(GAP, cases),
        ),
        figures=figures,
        plot=_plot({kappa: found[0] for kappa, found in paths.items()}),
    )  # fmt: skip


def _problem(kappa: float, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return 50 log-spaced eigenvalues from 1 down, targets, and the directions in which products err."""
    generator = torch_generator(0, "B3", number)
    A = torch.logspace(0, -float(np.log10(kappa)), EIGENVALUES, dtype=torch.float64)[None]
    b = torch.randn(1, EIGENVALUES, generator=generator, dtype=torch.float64)
    return A, b, torch.randn(1, LONG, EIGENVALUES, generator=generator, dtype=torch.float64)


def _errors(kappa: float, number: int) -> list[float]:
    """Return the relative error after every step, until the carried residual is spent; norm(A) is 1."""
    A, b, directions = _problem(kappa, number)
    exact, found = b / A, []
    for step in islice(each_step(A, b, _off(torch.full((1,), EPS, dtype=torch.float64), directions)), LONG):
        found.append(float((step.alpha - exact).norm() / exact.norm()))
        if float(step.residual.norm()) <= 1e-12 * float(b.norm()):
            break
    return found


def _identity(number: int) -> float:
    """Return by how much the identity fails, relative to b, with errors of one part in a hundred."""
    A, b, directions = _problem(1e2, number)
    run = conjugate_gradients(A, b, 10, _off(torch.full((1,), 0.01, dtype=torch.float64), directions))
    return float((b - A * run.alpha - run.residual - run.drift).norm() / b.norm())


def _plot(paths: dict[float, list[float]]) -> Plot:
    curves = [Curve(f"kappa {kappa:g}", _numbers(path), tuple(path)) for kappa, path in paths.items()]
    longest = max(paths.values(), key=len)
    stated = Curve("eps t, as stated", _numbers(longest), tuple(EPS * t for t in _numbers(longest)), dashed=True)
    return Plot(
        (*curves, stated), "steps t", "relative error",
        "Products off by eps = 1e-10: the floor grows with the condition number, not with the number of steps.",
        log_y=True,
    )  # fmt: skip


def _numbers(path: list[float]) -> tuple[float, ...]:
    return tuple(float(t) for t in range(1, len(path) + 1))


B3 = Claim(
    id="B3",
    source="softmax-route note, notes on approximate variants",
    origin=Origin.IMPLIED,
    title="A product off by eps in every step costs eps times the number of steps",
    stated="The sources speak of an operator error of eps an iteration and give no cost. The cost usually assumed "
    "grows in proportion to eps and to the number of steps.",
    formula=r"\|\alpha_t - \alpha^*\| \lesssim \text{(exact CG)} + O(\varepsilon t)",
    verdict=Verdict.AMENDED,
    corrected="What grows like that is a bound on the residual, with the path's length instead of the number of steps. "
    "The error that remains is a fraction of kappa eps, so products that inexact are of use only while kappa eps is "
    "well below 1.",
    corrected_formula=r"b-A\alpha_t = r_t+\sum_{j<t}\gamma_je_j, \quad \|b-A\alpha_t\| \le \|r_t\| + "
    r"\varepsilon\|A\|\sum_{j<t}|\gamma_j|\,\|p_j\|",
    condition="norm(e_j) <= eps norm(A) norm(p_j); the floor was measured with random e_j and log-spaced spectra.",
    check=check,
)
