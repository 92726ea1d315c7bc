"""L8: rates of a sensitivity that the source does not define."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Verdict
from ridgeformer.claims.linearised._features import digits
from ridgeformer.claims.matrices import Numbers, norm, prescribed, resolvent
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.trials import within
from ridgeformer.kernels import ReluNTK

SIZE = 2
ROWS = 200
ANGLES = tuple(10.0**-k for k in range(1, 6))


def _quadratic_form(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return abs(y'Ry - y'R2 y) for G and G2 = G + E, E >= 0, without cancellation, and the bound."""
    take = Numbers(theta)
    G = prescribed(take.matrix(SIZE, SIZE), take.spectrum(SIZE))
    E = prescribed(take.matrix(SIZE, SIZE), take.spectrum(SIZE))
    ridge, y = take.positive().square(), take.matrix(SIZE, 1)
    G2 = G + E
    R, R2 = resolvent(G @ G @ G, ridge), resolvent(G2 @ G2 @ G2, ridge)
    cubes = E @ G2 @ G2 + G @ E @ G2 + G @ G @ E  # G2^3 - G^3
    left = (y.mT @ R @ cubes @ R2 @ y)[:, 0, 0].abs()
    return left, 3 * norm(G2) ** 2 * norm(E) * y.square().sum((1, 2)) / ridge**2


BOUND = Inequality(
    "L8",
    2 * (SIZE * SIZE + SIZE) + 1 + SIZE,
    _quadratic_form,
    "abs(y'R(G^3)y - y'R((G+E)^3)y) <= 3 norm(G+E)^2 norm(E) norm(y)^2/l^2",
)


def slope_of_relu_ntk(angle: float) -> float:
    """Return the derivative of the ReLU tangent kernel in the second row, across a pair of unit rows."""
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    turn = torch.tensor(angle, dtype=torch.float64)
    z = torch.stack([turn.cos(), turn.sin()])[None].requires_grad_()
    (gradient,) = torch.autograd.grad(ReluNTK().dense(x, z).sum(), z)
    return float(gradient @ torch.stack([-turn.sin(), turn.cos()]))


def second_slope(angle: float) -> float:
    """Return the kernel's derivative in the cosine, (dk/dangle)/(-sin)."""
    return -slope_of_relu_ntk(angle) / math.sin(angle)


def check(cases: int) -> Evidence:
    """Evaluate the stated gap in the ways the source allows, and search against the reading that is provable."""
    largest = float(norm(digits(ROWS)) ** 2)
    slopes = [second_slope(angle) for angle in ANGLES]
    return Evidence(
        readings=(
            Figure("gap as stated, n l_1, digits", ROWS * largest),
            Figure("gap from the two stated rates, n l_1^2", ROWS * largest**2),
            Figure("gap of the provable rate to norm(y)^2/l^2, 3 l_1^2", 3 * largest**2),
        ),
        corrected=(
            try_to_break(BOUND, cases),
            within(
                "the ReLU kernel's slope in the cosine is 1/(2 pi angle) and more: no uniform rate",
                [1 / (2 * math.pi * angle * slope) for angle, slope in zip(ANGLES, slopes, strict=True)],
                1.0,
            ),
        ),
        figures=(
            Figure("stated gap over the gap of the stated rates, 1/l_1", 1 / largest),
            Figure("slope of the ReLU kernel in the cosine at angle 1e-5", slopes[-1]),
        ),
        plot=Plot(
            (
                Curve("slope of the ReLU kernel", ANGLES, tuple(slopes)),
                Curve("1/(2 pi angle)", ANGLES, tuple(1 / (2 * math.pi * a) for a in ANGLES), dashed=True),
            ),
            "angle between two rows", "derivative in their cosine",
            "It diverges as two rows come together, so no bound for ReLU is uniform over data.",
            log_x=True, log_y=True,
        ),
    )  # fmt: skip


L8 = Claim(
    id="L8",
    source="linearized-attention study, sensitivity rates",
    origin=Origin.QUOTED,
    quote="Linearized attention: Satt = O(n ||G||^2 ||y||^2 / lambda^2) ... Consequently, the sensitivity gap scales "
    "as Satt/Srelu = O(n lambda1(G))",
    title="Attention is n l_1 times more sensitive than ReLU",
    stated="The sensitivity of linearised attention is of order n norm(G)^2 norm(y)^2/l^2, that of a ReLU network "
    "norm(y)^2/l^2, and so their ratio n times the leading eigenvalue of G.",
    formula=r"S_{att} = O\!\left(\frac{n\|G\|^2\|y\|^2}{\lambda^2}\right),\quad "
    r"S_{relu} = O\!\left(\frac{\|y\|^2}{\lambda^2}\right),\quad \frac{S_{att}}{S_{relu}} = O(n\lambda_1(G))",
    verdict=Verdict.UNDEFINED,
    corrected="The sensitivity is not defined, and the two rates give n l_1^2, not n l_1. What can be proved, by the "
    "mean value theorem along G + tE, concerns the quadratic form y'(G^3 + l I)^-1 y; to first order norm(G + E) is "
    "norm(G). No uniform rate exists for ReLU: its kernel's derivative diverges as two rows come together.",
    corrected_formula=r"\big|y^\top R(G^3) y - y^\top R((G+E)^3) y\big| \le "
    r"\frac{3\max(\|G\|,\|G+E\|)^2\,\|E\|\,\|y\|^2}{\lambda^2}, \quad R(K) = (K+\lambda I)^{-1}",
    condition="G and G + E positive semidefinite. Exact for finite E; approached where G^3 is small beside l.",
    check=check,
)
