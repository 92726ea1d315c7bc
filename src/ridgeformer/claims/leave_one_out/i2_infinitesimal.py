"""I2: the infinitesimal influence and leave-one-out differ by a leverage."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.claims.leave_one_out._influence import KERNELS, labelled_digits
from ridgeformer.claims.trials import within
from ridgeformer.influence.exact import influence
from ridgeformer.kernels import Kernel

ROWS, QUERIES = 40, 5
RIDGES = (0.01, 1.0)


def by_autograd(kernel: Kernel, X: Tensor, y: Tensor, Z: Tensor, ridge: float) -> Tensor:
    """Return df(x)/dw_i at w = 1 of the fit that weighs the squared error of row i by w_i: (queries, n)."""
    K, across = kernel(X), kernel(Z, X)

    def predict(w: Tensor) -> Tensor:
        return across @ torch.linalg.solve(K + ridge * torch.diag(1 / w), y)

    return torch.autograd.functional.jacobian(predict, torch.ones_like(y))


def check(cases: int) -> Evidence:
    """Compare with automatic differentiation in the weights, and with leave-one-out."""
    slopes, quotients, unlike, total, leverages = [], [], 0, 0, []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, RIDGES):
        X, y, Z = labelled_digits(ROWS, QUERIES, seed)
        found = influence(kernel, X, y, Z, ridge)
        slope, left_out = found.infinitesimal.T, found.leave_one_out.T
        leverage = torch.linalg.solve(kernel(X) + ridge * torch.eye(ROWS, dtype=X.dtype), kernel(X)).diagonal()
        slopes.append((slope - by_autograd(kernel, X, y, Z, ridge)).abs())
        quotients.append((slope / (1 - leverage) - left_out).abs())
        unlike += int((slope.sign() != left_out.sign()).sum())
        total += slope.numel()
        leverages.append(leverage)
    return Evidence(
        stated=(
            within("df(x)/dw_i = l (R k(x))_i alpha_i", torch.stack(slopes), 1e-11),
            within("leave-one-out is that over 1 - h_ii", torch.stack(quotients), 1e-11),
            Trial("the two have the same sign", total, unlike),
            within("0 <= h_ii < 1", (torch.stack(leverages) - 0.5).abs(), 0.5),
        ),
        figures=(
            Figure("largest difference from automatic differentiation", float(torch.stack(slopes).max())),
            Figure("largest leave-one-out over infinitesimal", float(1 / (1 - torch.stack(leverages).max()))),
        ),
    )


I2 = Claim(
    id="I2",
    source="influence, closed form",
    origin=Origin.OWN,
    title="Infinitesimal influence is leave-one-out times 1 - h_ii",
    stated="The derivative of a prediction in the weight of row i has a closed form, and leave-one-out is that over "
    "one minus the leverage: the two always have the same sign.",
    formula=r"\frac{\partial f(x)}{\partial w_i} = \lambda\,(R\,k(x))_i\,\alpha_i, \qquad f(x) - f_{-i}(x) = "
    r"\frac{\lambda\,(R\,k(x))_i\,\alpha_i}{1-h_{ii}}, \qquad h = KR",
    verdict=Verdict.TRUE,
    condition="l > 0, so that 1 - h_ii = l R_ii > 0; w_i multiplies the squared error of row i.",
    check=check,
)
