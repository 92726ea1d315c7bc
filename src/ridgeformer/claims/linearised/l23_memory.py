"""L23: what fourth order costs in memory."""

from __future__ import annotations

from math import comb

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Counterexample, Evidence, Figure, Origin, Trial, Verdict, concluding
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import GramPower

ROWS, FEATURES = 20, 5
SIZES = [(n, d) for n in (100, 1000, 10_000) for d in (64, 784, 3072)]
ASKS = "a general fourth-order kernel takes a number of values of order d^4"


def fourth_order_features(X: Tensor) -> Tensor:
    """Return all products of four entries of every row, (n, d^4)."""
    squares = (X[:, :, None] * X[:, None, :]).flatten(1)
    return (squares[:, :, None] * squares[:, None, :]).flatten(1)


def _rows(seed: int) -> Tensor:
    return torch.randn(ROWS, FEATURES, generator=torch_generator(seed, "L23"), dtype=torch.float64)


def _trick(seed: int) -> float:
    """Return how far (x'z)^4, from the rows alone, is from the inner product of d^4 features."""
    X = _rows(seed)
    explicit = fourth_order_features(X) @ fourth_order_features(X).T
    return float(((X @ X.T) ** 4 - explicit).norm() / explicit.norm())


def _from_rows(seed: int) -> float:
    """Return how far attention's kernel, from products with the rows alone, is from G^3."""
    X = _rows(seed)
    exact = GramPower(3, X)(X)
    return float((X @ (X.T @ (X @ (X.T @ (X @ X.T)))) - exact).norm() / exact.norm())


def check(cases: int) -> Evidence:
    """Evaluate both kernels from the rows alone, and count what each way stores."""
    seeds = range(drawn(cases, 10))
    smaller = sum(n * d < d**4 / 24 for n, d in SIZES)
    return Evidence(
        stated=(
            within("attention's kernel is evaluated from the n d values of X", [_from_rows(s) for s in seeds], 1e-12),
            *concluding(ASKS, Trial("no way to evaluate one stores less than d^4/24", len(SIZES), smaller)),
        ),
        corrected=(
            *concluding(
                ASKS,
                Trial("its explicit features do: C(d + 3, 4) >= d^4/24", len(SIZES),
                      sum(comb(d + 3, 4) < d**4 / 24 for _, d in SIZES)),
            ),
            within("(x'z)^4 from n d values equals d^4 explicit features", [_trick(s) for s in seeds], 1e-12),
        ),
        figures=(
            Figure("MNIST, n = 10,000: values stored by the rows", 784.0 * 10_000),
            Figure("distinct products of four pixels", float(comb(787, 4))),
        ),
    )  # fmt: skip


L23 = Claim(
    id="L23",
    source="linearized-attention study, appendix B.5",
    origin=Origin.QUOTED,
    quote="Memory efficiency: O(nd) storage vs. O(d^4) for general fourth-order kernels",
    title="Attention stores n d values where a fourth-order kernel stores d^4",
    stated="The kernel of linearised attention is evaluated from the rows, n d values; a general kernel of fourth "
    "order takes d^4.",
    formula=r"O(nd) \text{ against } O(d^4)",
    verdict=Verdict.AMENDED,
    corrected="The first half is right. The second is what explicit features take. By the kernel trick a fourth-order "
    "kernel such as (x'z)^4 is evaluated from the same n d values.",
    corrected_formula=r"(x^\top z)^4 = \langle x^{\otimes 4}, z^{\otimes 4}\rangle",
    condition="Kernels that are functions of dot products; an arbitrary tensor of order four does have d^4/24 entries.",
    check=check,
    counterexample=Counterexample(
        {"x": [1.0, 2.0], "z": [3.0, 1.0]},
        "(x'z)^4 = 5^4 = 625 from two numbers each; the sixteen products of four entries give the same sum.",
    ),
)
