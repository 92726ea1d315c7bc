"""L9: what depth does to the power of the Gram matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Counterexample, Curve, Evidence, Figure, Origin, Plot, Verdict, concluding
from ridgeformer.claims.trials import within
from ridgeformer.kernels import GramPower

DEPTHS = (1, 2, 3)
KAPPA = 4.0


def stacked(X: Tensor, layers: int, *, recompute: bool) -> Tensor:
    """Return the features after some layers, with the first attention matrix kept or computed again in each."""
    H, A = X, X @ X.T
    for _ in range(layers):
        H = (H @ H.T if recompute else A) @ H
    return H


def _distance(H: Tensor, X: Tensor, power: int) -> float:
    """Return the relative distance of the features' Gram matrix from a power of G."""
    expected = GramPower(power, X)(X)
    return float((H @ H.T - expected).norm() / expected.norm())


def _distances(draws: int, depth: int, power: int, *, recompute: bool) -> list[float]:
    rows = [datasets.synthetic(8, 4, condition_number=KAPPA, seed=seed).X for seed in range(draws)]
    return [_distance(stacked(X, depth, recompute=recompute), X, power) for X in map(torch.from_numpy, rows)]


def check(cases: int) -> Evidence:
    """Stack layers both ways and compare with both powers."""
    draws = drawn(cases, 20)
    X = torch.from_numpy(datasets.synthetic(8, 4, condition_number=KAPPA, seed=0).X)
    kept, again = (torch.linalg.svdvals(stacked(X, 2, recompute=r)).square() for r in (False, True))
    return Evidence(
        stated=tuple(
            trial
            for k in DEPTHS
            for trial in concluding(
                f"{k} layers give G^{2 * k + 1}",
                within(
                    f"{k} layers, attention recomputed: G^{2 * k + 1}",
                    _distances(draws, k, 2 * k + 1, recompute=True),
                    1e-10,
                ),
            )
        ),
        corrected=tuple(
            trial
            for k in DEPTHS
            for trial in (
                *concluding(
                    f"{k} layers give G^{2 * k + 1}",
                    within(
                        f"{k} layers, attention fixed: G^{2 * k + 1}",
                        _distances(draws, k, 2 * k + 1, recompute=False),
                        1e-10,
                    ),
                ),
                within(
                    f"{k} layers, attention recomputed: G^{3**k}", _distances(draws, k, 3**k, recompute=True), 1e-10
                ),
            )
        ),
        figures=(
            Figure(
                "two layers, attention fixed, kappa(G) = 4: condition number", float(kept[0] / kept[3]), shown="1024"
            ),
            Figure("two layers, attention recomputed", float(again[0] / again[3]), shown="262144"),
        ),
        plot=_plot(),
    )


def _plot() -> Plot:
    depths = tuple(float(k) for k in range(6))
    return Plot(
        (
            Curve("attention recomputed, 3^k", depths, tuple(3.0**k for k in depths)),
            Curve("attention fixed, 2k + 1", depths, tuple(2 * k + 1 for k in depths), dashed=True),
        ),
        "layers k", "power of G", "Two layers already part the two.", log_y=True,
    )  # fmt: skip


L9 = Claim(
    id="L9",
    source="linearized-attention study, stacked layers",
    origin=Origin.SUMMARY,
    title="k layers give the power 2k + 1 of the Gram matrix",
    stated="Each further layer of linearised attention raises the power of G by two.",
    formula=r"K_k = G^{2k+1}",
    verdict=Verdict.AMENDED,
    corrected="With one attention matrix for all layers, yes. Layers that compute attention from their own input, as "
    "networks do, cube the power each time.",
    corrected_formula=r"A = XX^\top \text{ fixed: } G^{2k+1}; \qquad A_k = H_k H_k^\top \text{ recomputed: } G^{3^k}",
    condition="Linearised attention without normalisation.",
    check=check,
    counterexample=Counterexample(
        {"X": [[2.0]]},
        "G = 4. One layer: 4 * 2 = 8. The second has attention 8 * 8 = 64 and gives 512, whose square is 4^9; with the "
        "first attention kept it gives 4 * 8 = 32, whose square is 4^5.",
    ),
)
