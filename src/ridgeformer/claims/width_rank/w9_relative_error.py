"""W9: does an eigengap buy relative error bounds?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Verdict
from ridgeformer.claims.matrices import Numbers, norm, prescribed
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.trials import within

SIZE, KEPT, GAP = 4, 2, 100.0
GAPS = (1.0, 10.0, 1e3, 1e6)


def relative_error(K: Tensor, Kh: Tensor, ridge: Tensor) -> Tensor:
    """Return norm(A^1/2 (R - Rh) A^1/2) = norm(Ah^-1/2 (K - Kh) Ah^-1/2), A = K + l I: the error relative to R."""
    Ah = Kh + ridge[..., None, None] * torch.eye(K.shape[-1], dtype=K.dtype)
    L = torch.linalg.cholesky(Ah)
    half = torch.linalg.solve_triangular(L, K - Kh, upper=False)
    return norm(torch.linalg.solve_triangular(L, half.mT, upper=False))


def _sides(theta: Tensor, gap: float) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    s = take.spectrum(SIZE) * torch.where(torch.arange(SIZE) < KEPT, gap, 1.0)
    K = prescribed(take.matrix(SIZE, SIZE), s)
    Kh = prescribed(take.matrix(SIZE, SIZE), take.spectrum(SIZE))
    ridge = take.positive()
    return relative_error(K, Kh, ridge), norm(K - Kh) / ridge


FREE = 2 * (SIZE * SIZE + SIZE) + 1
GAPPED = Inequality(
    "W9 with a gap", FREE, lambda theta: _sides(theta, GAP), "relative error <= s/l, with an eigengap of 100 or more"
)
ANY = Inequality("W9 without", FREE, lambda theta: _sides(theta, 1.0), "relative error <= s/l, with no eigengap")


def _attained(gap: float) -> float:
    """Return the relative error over s/l where nothing is carried, Kh = 0, and K has this gap."""
    K = torch.diag(torch.tensor([gap, 1.0], dtype=torch.float64))
    ridge = torch.tensor(0.5, dtype=torch.float64)
    return float(relative_error(K, 0 * K, ridge) / (norm(K) / ridge))


def check(cases: int) -> Evidence:
    """Search the relative bound with and without an eigengap, and see whether a gap lowers it."""
    attained = [_attained(gap) for gap in GAPS]
    return Evidence(
        stated=(try_to_break(GAPPED, cases),),
        corrected=(
            try_to_break(ANY, cases),
            within("the bound is attained at every gap from 1 to 1e6", [abs(a - 1) for a in attained], 1e-12),
        ),
        figures=(
            Figure("relative error over s/l at an eigengap of 1e6, nothing carried", attained[-1], shown="1.00"),
            Figure("the same without a gap", attained[0], shown="1.00"),
        ),
    )


W9 = Claim(
    id="W9",
    source="width-rank note, notes",
    origin=Origin.QUOTED,
    quote="operator-norm statements can be strengthened to relative error bounds under eigengap assumptions",
    title="With an eigengap the bounds hold relative to the resolvent",
    stated="If the kernel's spectrum has a gap at the width, the error can be bounded relative to the resolvent "
    "itself.",
    formula=r"\sigma_m \gg \sigma_{m+1} \;\Rightarrow\; \|A^{1/2}(R - \hat R)A^{1/2}\| \text{ is bounded}",
    verdict=Verdict.TRUE,
    corrected="The relative bound needs no eigengap, and a gap does not lower it: it is attained at every gap where "
    "nothing is carried. Of a map that is not PCA an eigengap says nothing (W1).",
    corrected_formula=r"\|A^{1/2}(R - \hat R)A^{1/2}\| = \|\hat A^{-1/2}(K-\hat K)\hat A^{-1/2}\| \le "
    r"\frac{s}{\lambda}, \quad s = \|K-\hat K\|",
    condition="K and its sketch positive semidefinite; A = K + l I and its like for the sketch.",
    check=check,
)
