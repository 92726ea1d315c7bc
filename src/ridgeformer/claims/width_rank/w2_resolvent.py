"""W2: what a kernel error does to the resolvent."""

from __future__ import annotations

import numpy as np
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
from ridgeformer.claims.matrices import Numbers, norm, prescribed, resolvent, spectrum_of
from ridgeformer.claims.search import Inequality, try_to_break

SIZE, KEPT = 5, 2
RIDGE, WIDTH = 0.01, 3
SPECTRUM = tuple(float(i) ** -2 for i in range(1, 41))


def _pair(take: Numbers) -> tuple[Tensor, Tensor]:
    """Return two positive semidefinite matrices, the second of rank KEPT."""
    K = prescribed(take.matrix(SIZE, SIZE), take.spectrum(SIZE))
    F = take.matrix(SIZE, KEPT) * take.spectrum(KEPT)[:, None, :].sqrt()
    return K, F @ F.mT


def _upper(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    K, Kh = _pair(take)
    ridge = take.positive()
    s = norm(K - Kh)
    return norm(resolvent(K, ridge) - resolvent(Kh, ridge)), s / (ridge * (ridge + s))


def _lower(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    K, Kh = _pair(take)
    ridge = take.positive()
    s = spectrum_of(K)[:, KEPT]
    return s / (ridge * (ridge + s)), norm(resolvent(K, ridge) - resolvent(Kh, ridge))


def _as_stated(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    K, Kh = _pair(take)
    ridge = take.positive()
    return norm(resolvent(K, ridge) - resolvent(Kh, ridge)), spectrum_of(K)[:, KEPT:].sum(-1) / ridge**2


FREE = SIZE * SIZE + SIZE + SIZE * KEPT + KEPT + 1
STATED = Inequality("W2 as stated", FREE, _as_stated, "norm(R - Rh) <= tail / l^2, constant 1")
UPPER = Inequality("W2 upper", FREE, _upper, "norm(R - Rh) <= s/(l(l + s)), s = norm(K - Kh)")
BOUNDED = "the resolvent's error is bounded through the kernel's error and the ridge"
LOWER = Inequality("W2 lower", FREE, _lower, "s_{m+1}/(l(l + s_{m+1})) <= norm(R - Rh), rank m")


def check(cases: int) -> Evidence:
    """Measure the example of the ledger, and search for violations of both bounds."""
    s, tail = SPECTRUM[WIDTH], bounds.tail_mass(SPECTRUM, WIDTH)
    K = torch.diag(torch.tensor(SPECTRUM, dtype=torch.float64))
    Kh = K.clone()
    Kh[WIDTH:] = 0.0
    ridge = torch.tensor(RIDGE, dtype=torch.float64)
    true = float(norm(resolvent(K, ridge) - resolvent(Kh, ridge)))
    bound = bounds.resolvent_error_bound(s, RIDGE)
    figures = (
        Figure("true error of PCA, width 3", true, shown="86.21"),
        Figure("s/l^2", s / RIDGE**2, shown="625"),
        Figure("tail/l^2, as stated", tail / RIDGE**2, shown="2591"),
        Figure("s/(l(l + s))", bound, shown="86.21"),
    )
    attained = Trial("PCA attains s/(l(l + s))", 1, int(abs(true - bound) > 1e-9 * bound), true / bound)
    return Evidence(
        stated=concluding(BOUNDED, try_to_break(STATED, cases)),
        corrected=(attained, *concluding(BOUNDED, try_to_break(UPPER, cases)), try_to_break(LOWER, cases)),
        figures=figures,
        plot=_plot(),
    )


def _plot() -> Plot:
    ridges = tuple(float(r) for r in np.geomspace(1e-4, 1e1, 60))
    s, tail = SPECTRUM[WIDTH], bounds.tail_mass(SPECTRUM, WIDTH)
    return Plot(
        (
            Curve("s/(l(l + s)), attained", ridges, tuple(bounds.resolvent_error_bound(s, r) for r in ridges)),
            Curve("s/l^2", ridges, tuple(s / r**2 for r in ridges), dashed=True),
            Curve("tail/l^2, as stated", ridges, tuple(tail / r**2 for r in ridges), dashed=True),
        ),
        "ridge l", "norm(R - Rh)", "The error never exceeds 1/l; the stated bound grows like 1/l^2.",
        log_x=True, log_y=True,
    )  # fmt: skip


W2 = Claim(
    id="W2",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="The approximation error in the ridge estimator is bounded by the spectral tail: ||(K + lambda I)^-1 - (K^ +"
    " lambda I)^-1|| <~ (1/lambda^2) sum_{i>m} sigma_i(K)",
    title="A kernel error costs the resolvent its size over the squared ridge",
    stated="The resolvents of K and of its rank-m sketch differ by about the tail over the squared ridge.",
    formula=r"\|(K+\lambda I)^{-1} - (\hat K+\lambda I)^{-1}\|_2 \lesssim \frac{1}{\lambda^2}\sum_{i>m}\sigma_i(K)",
    verdict=Verdict.AMENDED,
    corrected="What counts is the size s of the kernel error, not the tail, and the bound saturates at 1/l. "
    "For rank m nothing is better than PCA, which attains it.",
    corrected_formula=r"\frac{\sigma_{m+1}}{\lambda(\lambda+\sigma_{m+1})} \le \|R - \hat R\|_2 \le "
    r"\frac{s}{\lambda(\lambda+s)}, \quad s = \|K-\hat K\|_2",
    condition="K and its sketch positive semidefinite; the lower bound for sketches of rank m.",
    check=check,
    counterexample=Counterexample(
        {"K": [[1.0]], "Kh": [[2.0]], "ridge": 1.0},
        "K has rank one, so its tail beyond m = 1 is 0, and yet 1/(1 + 1) - 1/(2 + 1) = 1/6.",
    ),
)
