"""L5: with identity activation every width has the limit kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Verdict
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import GramPower

WIDTHS = (1, 2, 7, 64)
ROWS, FEATURES = 8, 4


def tangent_kernel(H: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """Return the tangent kernel of sum_r a_r w_r.h / sqrt(m) by automatic differentiation, first layer trained."""
    W = torch.randn(width, H.shape[1], generator=generator, dtype=H.dtype)
    a = torch.randint(0, 2, (width,), generator=generator).to(H.dtype) * 2 - 1

    def network(W: Tensor) -> Tensor:
        return (H @ W.T) @ a / width**0.5

    J = torch.autograd.functional.jacobian(network, W).reshape(len(H), -1)
    return J @ J.T


def check(cases: int) -> Evidence:
    """Compare networks of four widths with G^3, each at several starts."""
    errors: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for seed in range(drawn(cases, 10)):
        X = torch.from_numpy(datasets.synthetic(ROWS, FEATURES, seed=seed).X)
        H, cube = X @ X.T @ X, GramPower(3, X)(X)
        for width, found in errors.items():
            K = tangent_kernel(H, width, torch_generator(seed, "L5", width))
            found.append(float((K - cube).norm() / cube.norm()))
    return Evidence(
        stated=tuple(within(f"K_m = G^3 at width {width}", found, 1e-13) for width, found in errors.items()),
        figures=(Figure("largest relative distance from G^3 at width 1", max(errors[1])),),
    )


L5 = Claim(
    id="L5",
    source="linearized-attention study, theorem 4.1",
    origin=Origin.QUOTED,
    quote="An exact correspondence is established between parameter-free linearized attention and a data-dependent "
    "Gram-induced kernel",
    title="With identity activation the tangent kernel is G^3",
    stated="The exact correspondence of linearised attention with a Gram-induced kernel: without a nonlinearity the "
    "tangent kernel of the network on attention features is the cube of G.",
    formula=r"K_m = \frac{1}{m}\sum_{r=1}^m a_r^2\, (XX^\top X)(XX^\top X)^\top = G^3",
    verdict=Verdict.TRUE,
    condition="First layer trained, a_r = +-1. It holds at every width and for all weights, so that no width is asked "
    "for at all.",
    check=check,
)
