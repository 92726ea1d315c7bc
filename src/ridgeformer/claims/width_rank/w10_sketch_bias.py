"""W10: what a sketch adds to the rate of conjugate gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.claims.descent import conjugate_gradients
from ridgeformer.claims.matrices import Numbers, norm, prescribed, resolvent
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator

SIZE, STEPS = 4, 2


def _case(theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return K, the spectrum of its sketch (in whose eigenbasis all is written), the ridge and the targets."""
    take = Numbers(theta)
    K = prescribed(take.matrix(SIZE, SIZE), take.spectrum(SIZE))
    return K, take.spectrum(SIZE), take.positive(), take.vector(SIZE)


def _solution(K: Tensor, ridge: Tensor, y: Tensor) -> Tensor:
    return (resolvent(K, ridge) @ y[..., None])[..., 0]


def _total(theta: Tensor) -> tuple[Tensor, Tensor]:
    K, h, ridge, y = _case(theta)
    A = h + ridge[:, None]
    kappa = A[:, 0] / A[:, -1]
    rate = (kappa.sqrt() - 1) / (kappa.sqrt() + 1)
    error = (conjugate_gradients(A, y, STEPS).alpha - _solution(K, ridge, y)).norm(dim=-1)
    s = norm(K - torch.diag_embed(h))
    bias = s / (ridge * (ridge + s)) * y.norm(dim=-1)
    return error, 2 * kappa.sqrt() * rate**STEPS * (y / A).norm(dim=-1) + bias


FREE = SIZE * SIZE + 3 * SIZE + 1
TOTAL = Inequality("W10", FREE, _total, "error <= 2 sqrt(k) rate^t norm(Rh y) + s/(l(l + s)) norm(y), t = 2")


def _after_convergence(draws: int) -> tuple[Tensor, Tensor]:
    """Return the error of conjugate gradients with the sketch after as many steps as unknowns, and norm((R - Rh)y)."""
    theta = torch.randn(draws, FREE, generator=torch_generator(0, "W10"), dtype=torch.float64) / 2
    K, h, ridge, y = _case(theta)
    exact, A = _solution(K, ridge, y), h + ridge[:, None]
    end = conjugate_gradients(A, y, SIZE).alpha
    size = exact.norm(dim=-1)
    return (end - exact).norm(dim=-1) / size, (y / A - exact).norm(dim=-1) / size


def check(cases: int) -> Evidence:
    """Search the bound of rate plus bias, and run to the end, where the bias alone is left."""
    error, bias = _after_convergence(drawn(cases, 200))
    return Evidence(
        stated=(
            try_to_break(TOTAL, cases),
            within("after convergence the error is the bias, norm((R - Rh)y), and no less", (error - bias).abs(), 1e-6),
        ),
        corrected=(Trial("the bias is there: above 1e-3 in half of the draws or more", 1, int(bias.median() <= 1e-3)),),
        figures=(
            Figure("median relative bias of a random sketch", float(bias.median())),
            Figure("largest difference of the final error from the bias", float((error - bias).abs().max())),
        ),
    )


W10 = Claim(
    id="W10",
    source="width-rank note, implications",
    origin=Origin.QUOTED,
    quote="Depth-accuracy: unchanged from CG rate provided the mat-vec uses K (or K~); with sketch K^, an additional "
    "bias arises from K -> K^ perturbation.",
    title="A sketch adds a bias to the rate of conjugate gradients",
    stated="Depth and accuracy follow the rate of conjugate gradients; a sketched kernel adds a bias that depth does "
    "not remove.",
    formula=r"\|\alpha_t - \alpha^*\| \le \text{(rate of CG)} + \|(R - \hat R)\,y\|",
    verdict=Verdict.TRUE,
    corrected="The rate is that of the sketch's own condition number, and the bias is at most s/(l(l + s)) norm(y) "
    "(W2).",
    corrected_formula=r"\|\alpha_t-\alpha^*\| \le 2\sqrt{\hat\kappa}"
    r"\Big(\frac{\sqrt{\hat\kappa}-1}{\sqrt{\hat\kappa}+1}\Big)^t\|\hat\alpha^*\| + \frac{s}{\lambda(\lambda+s)}\|y\|",
    condition="K and its sketch positive semidefinite, s the norm of their difference; a start at zero.",
    check=check,
)
