"""L15: which functions the kernel of linearised attention holds."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Counterexample, Evidence, Figure, Origin, Trial, Verdict, concluding
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import GramPower
from ridgeformer.solving import solve

ROWS, FEATURES, QUERIES, RIDGE = 30, 6, 10, 0.01
FOURTH = "the kernel is of fourth order"


def _task(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows of condition 10, targets, and queries from three streams."""
    X = torch.from_numpy(datasets.synthetic(ROWS, FEATURES, condition_number=10.0, seed=seed).X)
    y, Z = (
        torch.randn(shape, generator=torch_generator(seed, "L15", name), dtype=torch.float64)
        for name, shape in (("targets", (ROWS,)), ("queries", (QUERIES, FEATURES)))
    )
    return X, y, Z


def _against_linear(seed: int) -> float:
    """Return the largest difference of predictions: kernel regression, and linear ridge with penalty l w'C^-2 w."""
    X, y, Z = _task(seed)
    C = X.T @ X
    w = torch.linalg.solve(C + RIDGE * torch.linalg.inv(C @ C), X.T @ y)
    alpha = solve(GramPower(3, X), X, y, RIDGE).alpha
    predicted = GramPower(3, X)(Z, X) @ alpha
    return float((predicted - Z @ w).norm() / predicted.norm())


def _nonlinearity(seed: int) -> float:
    """Return the second difference f(x + z) - f(x) - f(z) of a fit, relative to f."""
    X, y, Z = _task(seed)
    kernel = GramPower(3, X)
    alpha = solve(kernel, X, y, RIDGE).alpha
    x, z = Z[:5], Z[5:]
    f, g, both = (kernel(rows, X) @ alpha for rows in (x, z, x + z))
    return float((both - f - g).norm() / both.norm())


def _norms(seed: int) -> float:
    """Return how far alpha'G^3 alpha is from w'C^-2 w for the same function, w = C^2 X'alpha."""
    X, y, _ = _task(seed)
    C = X.T @ X
    w = C @ C @ X.T @ y
    in_data, in_x = y @ GramPower(3, X)(X) @ y, w @ torch.linalg.solve(C @ C, w)
    return abs(float(in_data / in_x) - 1)


def _order_in_data(seed: int) -> float:
    """Return how far the order of the kernel in the dataset, x and z fixed, is from four: log2 of its growth at 2X."""
    X, _, Z = _task(seed)
    plain, doubled = (GramPower(3, rows)(Z[:5], Z[5:]) for rows in (X, 2 * X))
    return abs(math.log2(float(doubled.norm() / plain.norm())) - 4)


def check(cases: int) -> Evidence:
    """Look for a function that is more than linear, and compare with linear ridge regression."""
    seeds = range(drawn(cases, 20))
    bends = [_nonlinearity(seed) for seed in seeds]
    gaps = [_against_linear(seed) for seed in seeds]
    higher = sum(bend > 1e-9 for bend in bends)
    return Evidence(
        stated=concluding(FOURTH, Trial("a fit is of more than first order in x", len(bends), len(bends) - higher)),
        corrected=(
            *concluding(
                FOURTH, within("the kernel is of order four in the dataset", [_order_in_data(s) for s in seeds], 1e-9)
            ),
            within("f(x + z) = f(x) + f(z)", bends, 1e-11),
            within("kernel regression is linear ridge regression with penalty l w'C^-2 w", gaps, 1e-9),
            within("the kernel's norm of f is w'C^-2 w", [_norms(seed) for seed in seeds], 1e-10),
        ),
        figures=(
            Figure("largest relative difference from the linear model", max(gaps)),
            Figure("largest relative second difference", max(bends)),
        ),
    )


L15 = Claim(
    id="L15",
    source="linearized-attention study, theorem B.8",
    origin=Origin.QUOTED,
    quote="Fourth-Order Representational Power Analysis: The parameter-free linearized attention kernel spans the RKHS",
    title="The kernel has fourth-order representational power",
    stated="The functions of the attention kernel are sums of products of similarities along paths through the data, "
    "and so of fourth order.",
    formula=r"f(x) = \sum_{k,\ell} \alpha_{k\ell} \sum_m (x^\top x_k)(x_k^\top x_m)(x_m^\top x_\ell)",
    verdict=Verdict.AMENDED,
    corrected="The fourth order is in the data, not in x. With the dataset fixed the kernel is x'C^2 z, its functions "
    "are those of the dot product on the row space of X, and only their norm differs: directions with much data are "
    "penalised less. Kernel regression with it is linear ridge regression with another penalty.",
    corrected_formula=r"K(x,z) = x^\top C^2 z, \quad f(x) = w^\top x, \quad \|f\|^2 = w^\top C^{-2} w, \quad "
    r"\min_w \|y - Xw\|^2 + \lambda\, w^\top C^{-2} w",
    condition="The dataset fixed, C = X'X invertible, else on the row space of X.",
    check=check,
    counterexample=Counterexample(
        {"X": [[2.0]], "z": 3.0},
        "C = 4, so k(x, z) = 16 x z = 48 x: a line through the origin, whatever z is.",
    ),
)
