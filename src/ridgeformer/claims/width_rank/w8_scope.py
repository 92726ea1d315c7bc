"""W8: what exactly does width limit?"""

from __future__ import annotations

import torch

from ridgeformer.claims.claim import Claim, Counterexample, Evidence, Figure, Trial, Verdict
from ridgeformer.seeds import torch_generator

ROWS, FEATURES, TOKENS = 8, 6, 3


def check(_: int) -> Evidence:
    """Split each row over several narrow tokens and let linear attention add up their scores."""
    generator = torch_generator(0, "W8")
    X = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)
    K, width = X @ X.T, FEATURES // TOKENS
    tokens = X.reshape(ROWS, TOKENS, width)  # token b of a row holds features b*width .. (b + 1)*width
    reads = torch.stack([tokens[:, b] @ tokens[:, b].T for b in range(TOKENS)])  # one head's scores at each place
    carried = reads.sum(0)
    ranks = [int(torch.linalg.matrix_rank(read)) for read in reads]
    rank, gap = int(torch.linalg.matrix_rank(carried)), float((carried - K).norm() / K.norm())
    figures = (
        Figure(f"rank carried by {TOKENS} tokens of width {width}", float(rank), shown=str(FEATURES)),
        Figure("largest rank of one read", float(max(ranks)), shown=str(width)),
        Figure("relative difference from K", gap),
    )
    return Evidence(
        stated=(Trial(f"a stream of width {width} carries rank {width} at most", 1, int(rank > width)),),
        corrected=(
            Trial(f"each linear read of one token carries rank {width} at most", TOKENS, sum(r > width for r in ranks)),
            Trial("the reads of all tokens add up to K exactly", 1, int(gap > 1e-14)),
        ),
        relation="amends",
        figures=figures,
    )


W8 = Claim(
    id="W8",
    source="width-rank note, width-rank theorem (scope)",
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
