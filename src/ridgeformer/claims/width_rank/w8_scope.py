"""W8: what exactly does width limit?"""

from __future__ import annotations

import torch

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Counterexample, Evidence, Figure, Origin, Trial, Verdict, concluding
from ridgeformer.core.seeds import torch_generator

ROWS, FEATURES, TOKENS = 8, 6, 3
WIDTH = FEATURES // TOKENS


def _carried(seed: int) -> tuple[int, list[int], float]:
    """Return the rank that all tokens carry together, the rank of each read, and the relative distance from K."""
    X = torch.randn(ROWS, FEATURES, generator=torch_generator(seed, "W8"), dtype=torch.float64)
    K = X @ X.T
    tokens = X.reshape(ROWS, TOKENS, WIDTH)  # token b of a row holds features b*width .. (b + 1)*width
    reads = torch.stack([tokens[:, b] @ tokens[:, b].T for b in range(TOKENS)])  # one head's scores at each place
    carried = reads.sum(0)
    ranks = [int(torch.linalg.matrix_rank(read)) for read in reads]
    return int(torch.linalg.matrix_rank(carried)), ranks, float((carried - K).norm() / K.norm())


def check(cases: int) -> Evidence:
    """Split each row over several narrow tokens and let linear attention add up their scores."""
    found = [_carried(seed) for seed in range(drawn(cases, 5))]
    ranks = [rank for _, each, _ in found for rank in each]
    whole, gaps = [rank for rank, _, _ in found], [gap for _, _, gap in found]
    figures = (
        Figure(f"rank carried by {TOKENS} tokens of width {WIDTH}", float(min(whole)), shown=str(FEATURES)),
        Figure("largest rank of one read", float(max(ranks)), shown=str(WIDTH)),
        Figure("largest relative difference from K", max(gaps)),
    )
    narrow = f"the rank is at most the width, {WIDTH}"
    stream, read = (f"{what} carries rank {WIDTH} at most" for what in ("a stream", "each linear read of one token"))
    return Evidence(
        stated=concluding(narrow, Trial(stream, len(whole), sum(r > WIDTH for r in whole))),
        corrected=(
            *concluding(narrow, Trial(read, len(ranks), sum(r > WIDTH for r in ranks))),
            Trial("the reads of all tokens add up to K, to 1e-14", len(gaps), sum(gap > 1e-14 for gap in gaps)),
        ),
        figures=figures,
    )


W8 = Claim(
    id="W8",
    source="width-rank note, width-rank theorem (scope)",
    origin=Origin.QUOTED,
    quote="any linear preservation of features induces a low-rank sketch K^ of rank at most m",
    title="Width limits rank",
    stated="A computation of width m < p can carry no more than a rank-m sketch of the kernel.",
    formula=r"m < p \;\Rightarrow\; \mathrm{rank}\,\hat K \le m",
    verdict=Verdict.AMENDED,
    corrected="That holds for one token and one linear read. Features split over several tokens of smaller width give "
    "the kernel exactly, because scores add up.",
    corrected_formula=r"K = \sum_{b=1}^{B} \Phi_b \Phi_b^\top, \quad \mathrm{rank}\,\Phi_b\Phi_b^\top \le p/B",
    condition="One token an example, read linearly.",
    check=check,
    counterexample=Counterexample(
        {"row 1": [1.0, 2.0], "row 2": [3.0, 4.0]},
        "Two tokens of width 1 each: 1*3 from the first plus 2*4 from the second is 11 = <(1, 2), (3, 4)>.",
    ),
)
