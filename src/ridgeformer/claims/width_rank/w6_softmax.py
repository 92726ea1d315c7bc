"""W6: does the width-rank theorem hold for the exponential kernel of softmax attention?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.claims.claim import (
    Claim,
    Counterexample,
    Curve,
    Evidence,
    Figure,
    Origin,
    Plot,
    Trial,
    Verdict,
    concluding,
)
from ridgeformer.claims.matrices import Numbers, norm, orthonormal, spectrum_of
from ridgeformer.claims.search import Inequality, try_to_break

ROWS = [[2.0, 0.5], [-1.0, 1.0]]
SIZE, FEATURES, KEPT = 4, 3, 1


def _logits(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return L = X X' and the logits of X projected to KEPT directions; entries of X between -1.5 and 1.5."""
    take = Numbers(theta)
    X, V = 1.5 * torch.tanh(take.matrix(SIZE, FEATURES)), orthonormal(take.matrix(FEATURES, KEPT))
    return X @ X.mT, (X @ V) @ (X @ V).mT


def _bound(theta: Tensor) -> tuple[Tensor, Tensor]:
    L, Lh = _logits(theta)
    Kh, growth = Lh.exp(), (L - Lh).expm1()
    by_kernel = Kh.diagonal(dim1=-2, dim2=-1).amax(-1) * norm(growth)
    by_growth = norm(Kh) * growth.diagonal(dim1=-2, dim2=-1).amax(-1)
    return norm(L.exp() - Kh), torch.minimum(by_kernel, by_growth)


def _semidefinite(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 - l_min/norm(K) and 1 for the difference K - Kh, which is semidefinite if l_min >= 0."""
    L, Lh = _logits(theta)
    spectrum = spectrum_of(L.exp() - Lh.exp())
    return 1 - spectrum[:, -1] / norm(L.exp()), torch.ones_like(spectrum[:, 0])


FREE = SIZE * FEATURES + FEATURES * KEPT
BOUND = Inequality("W6 bound", FREE, _bound, "norm(K - Kh) <= min(max Kh_ii norm(e^E - 11'), norm(Kh) max(e^E_ii - 1))")
SEMIDEFINITE = Inequality("W6 semidefinite", FREE, _semidefinite, "K - Kh = Kh o (e^E - 11') is semidefinite")


def check(cases: int) -> Evidence:
    """Measure the example of two rows, and search for violations of the corrected bound."""
    X = torch.tensor(ROWS, dtype=torch.float64)
    L, Lh = X @ X.T, X[:, :1] @ X[:, :1].T
    K, Kh = L.exp(), Lh.exp()
    error, second = float(norm(K - Kh)), float(spectrum_of(K)[1])
    figures = (
        Figure("error of width 1", error, shown="15.508"),
        Figure("sigma_2, which it should not exceed", second, shown="7.388"),
        Figure("bound of the correction", bounds.logit_sketch_bound(L, Lh)),
        Figure("rank of the kernel that width 1 carries", float(torch.linalg.matrix_rank(Kh)), shown="2"),
    )
    return Evidence(
        stated=concluding(
            "the kernel's error is at most the tail",
            Trial("norm(K - Kh) <= sigma_2 + ... of the exponential kernel", 1, int(error > second), error / second),
        ),
        corrected=(
            Trial("width 1 can carry a kernel of full rank", 1, int(torch.linalg.matrix_rank(Kh) != 2)),
            try_to_break(SEMIDEFINITE, cases),
            try_to_break(BOUND, cases),
        ),
        figures=figures,
        plot=_plot(),
    )


def _plot() -> Plot:
    scales = tuple(float(s) for s in torch.linspace(0.1, 1.0, 40))
    errors, tails, ceilings = [], [], []
    for scale in scales:
        X = scale * torch.tensor(ROWS, dtype=torch.float64)
        L, Lh = X @ X.T, X[:, :1] @ X[:, :1].T
        errors.append(float(norm(L.exp() - Lh.exp())))
        tails.append(float(spectrum_of(L.exp())[1]))
        ceilings.append(bounds.logit_sketch_bound(L, Lh))
    return Plot(
        (
            Curve("error of width 1", scales, tuple(errors)),
            Curve("sigma_2 of the kernel, as stated", scales, tuple(tails), dashed=True),
            Curve("bound of the correction", scales, tuple(ceilings), dashed=True),
        ),
        "length of the rows", "norm(K - Kh)", "The error crosses the stated bound; the corrected one stays above.",
        log_y=True,
    )  # fmt: skip


W6 = Claim(
    id="W6",
    source="width-rank note, width-rank theorem (softmax)",
    origin=Origin.QUOTED,
    quote="Softmax Route A: identical statements hold with K replaced by K~ and sigma_i replaced by the spectrum of "
    "K~.",
    title="The same statements hold for softmax attention, with its kernel's spectrum",
    stated="Replace K by the exponential kernel and its eigenvalues, and the width-rank theorem stays as it is.",
    formula=r"\|\tilde K - \hat{\tilde K}\|_2 \le \sum_{i>m}\sigma_i(\tilde K)",
    verdict=Verdict.FALSE,
    corrected="Width carries logits, not the kernel: width 1 can carry a kernel of full rank, and what a projection "
    "costs depends on the logits E it drops.",
    corrected_formula=r"\|\tilde K-\hat{\tilde K}\|_2 \le \min\Big("
    r"\max_i \hat{\tilde K}_{ii}\,\|e^{[E]} - 11^\top\|_2,\; "
    r"\|\hat{\tilde K}\|_2\,(\max_i e^{E_{ii}}-1)\Big), \quad E = L - \hat L \succeq 0",
    condition="The rows are projected orthogonally; then W2 takes it from the kernel to the resolvent.",
    check=check,
    counterexample=Counterexample(
        {"X": ROWS, "kept": "the first coordinate"},
        "L = [[4.25, -1.5], [-1.5, 2]] and the width-1 logits are [[4, -2], [-2, 1]]: e^4.25 - e^4 = 15.507 already "
        "exceeds sigma_2 = 7.388.",
    ),
)
