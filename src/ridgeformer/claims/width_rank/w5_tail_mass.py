"""W5: does the error below the effective dimension grow with the tail mass?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.claims.cases import drawn
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
from ridgeformer.claims.matrices import Numbers, norm, prescribed, resolvent
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.core.seeds import numpy_generator

SIZE, KEPT = 5, 2
ROWS, WIDTH, SMALL = 1000, 10, 40


def _saturates(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the PCA model's worst relative in-sample error, and s/(s + l) with s the largest dropped eigenvalue."""
    take = Numbers(theta)
    basis, s, ridge = take.matrix(SIZE, SIZE), take.spectrum(SIZE), take.positive()
    kept = torch.where(torch.arange(SIZE) < KEPT, s, torch.zeros_like(s))
    K, Kh = prescribed(basis, s), prescribed(basis, kept)
    return norm(K @ resolvent(K, ridge) - Kh @ resolvent(Kh, ridge)), s[:, KEPT] / (s[:, KEPT] + ridge)


SATURATES = Inequality(
    "W5 saturation", SIZE * SIZE + SIZE + 1, _saturates, "worst relative error of PCA <= s/(s + l) < 1"
)


def _operator(spectrum: list[float], ridge: float, width: int) -> np.ndarray:
    """Return K R - Kh Rh of PCA, by solving: the map from targets to the in-sample error."""
    K = np.diag(spectrum)
    Kh = np.diag([*spectrum[:width], *[0.0] * (len(spectrum) - width)])
    eye = np.eye(len(spectrum))
    return np.asarray(np.linalg.solve(K + ridge * eye, K) - np.linalg.solve(Kh + ridge * eye, Kh))


def check(cases: int) -> Evidence:
    """Double the tail far below the effective dimension, and compare the mean squared error with its formula."""
    ridge, tails = 1.0, [10.0 * 2**j for j in range(8)]
    flat = [[s] * ROWS for s in tails]
    d_eff = [bounds.effective_dimension(spectrum, ridge) for spectrum in flat]
    errors = [float(bounds.pca_relative_error(spectrum, WIDTH, ridge)) for spectrum in flat]
    grew = [later / earlier for earlier, later in pairwise(errors)]
    by_solving = float(np.linalg.norm(_operator([10.0] * SMALL, ridge, 1), 2))
    inside = float(np.linalg.norm(_operator([4.0, 2.0, 1.0], ridge, 2) @ np.array([1.0, 1.0, 0.0])))
    generator = numpy_generator(0, "W5", "spectra")
    gaps = []
    for _ in range(drawn(cases, 50)):
        spectrum = sorted(generator.lognormal(0, 3, size=6).tolist(), reverse=True)
        exact = float((_operator(spectrum, ridge, 2) ** 2).sum())  # E norm(M y)^2 = norm_F(M)^2 for y ~ N(0, I)
        gaps.append(abs(exact - bounds.pca_expected_squared_error(spectrum, 2, ridge)) / exact)
    figures = (
        Figure("K = 10 l I of size 1000, m = 10: effective dimension", d_eff[0], shown="909"),
        Figure("its relative error", errors[0], shown="0.909"),
        Figure("the same with the tail doubled", errors[1], shown="0.952"),
        Figure("error when the tail is 128 times as large", errors[-1]),
        Figure("largest growth of the error as the tail doubles; in proportion would be 2", max(grew)),
        Figure("error for targets in the top eigenspace", inside, shown="0"),
        Figure("largest relative gap of the mean squared error to its formula", max(gaps)),
    )
    doubled = sum(abs(ratio - 2) > 0.1 for ratio in grew)
    return Evidence(
        stated=concluding(
            "the error grows in proportion to the tail",
            Trial("doubling the tail doubles the error, m = 10 and d_eff above 900", len(grew), doubled),
        ),
        corrected=(
            Trial("m is below a fiftieth of d_eff in all of these", len(d_eff), sum(d < 50 * WIDTH for d in d_eff)),
            Trial("solving gives the same error, size 40", 1, int(abs(by_solving - errors[0]) > 1e-12)),
            Trial("E norm(f - fh)^2 = sum over the tail of (s/(s + l))^2", len(gaps), sum(g > 1e-10 for g in gaps)),
            Trial("targets in the top eigenspace lose nothing", 1, int(inside > 1e-12)),
            try_to_break(SATURATES, cases),
        ),
        figures=figures,
        plot=_plot(tails, errors),
    )


def _plot(tails: list[float], errors: list[float]) -> Plot:
    return Plot(
        (
            Curve("worst relative error", tuple(tails), tuple(errors)),
            Curve("in proportion", tuple(tails), tuple(errors[0] * t / tails[0] for t in tails), dashed=True),
        ),
        "dropped eigenvalue, 990 times (ridge 1)", "worst relative error", "The error saturates below 1.",
        log_x=True, log_y=True,
    )  # fmt: skip


W5 = Claim(
    id="W5",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="when m << d_eff(lambda), prediction degrades in proportion to the tail mass sum_{i>m} sigma_i(K)",
    title="Below the effective dimension, predictions degrade in proportion to the tail mass",
    stated="When the width is far below the effective dimension, the error grows like the sum of dropped eigenvalues.",
    formula=r"m \ll d_{\mathrm{eff}}(\lambda) \;\Rightarrow\; \text{error} \propto \sum_{i>m}\sigma_i(K)",
    verdict=Verdict.FALSE,
    corrected="Each dropped direction loses s/(s + l) of its target, which is below 1 however large s is, and targets "
    "in the top eigenspace lose nothing.",
    corrected_formula=r"\mathbb E\|f-\hat f\|^2 = \sum_{i>m}\Big(\frac{\sigma_i}{\sigma_i+\lambda}\Big)^2, \quad "
    r"y \sim N(0, I)",
    condition="PCA sketch, in sample.",
    check=check,
    counterexample=Counterexample(
        {"K": "10 I of size 1000", "ridge": 1.0, "width": 10.0},
        "d_eff = 1000 * 10/11 = 909, ninety times the width. A dropped direction loses 10/11 = 0.909 of its target. "
        "Double the tail, K = 20 I: 20/21 = 0.952, not twice as much.",
    ),
)
