"""W5: does the error below the effective dimension grow with the tail mass?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.claims.claim import Claim, Counterexample, Curve, Evidence, Figure, Plot, Trial, Verdict
from ridgeformer.claims.matrices import Numbers, norm, prescribed, resolvent
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.seeds import numpy_generator

SIZE, KEPT = 5, 2


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
    """Double the tail and see whether the error doubles; compare the mean squared error with its formula."""
    ridge, tails = 1.0, [10.0 * 2**j for j in range(8)]
    errors = [float(np.linalg.norm(_operator([1e6, tail], ridge, 1), 2)) for tail in tails]
    grew = [later / earlier for earlier, later in pairwise(errors)]
    inside = float(np.linalg.norm(_operator([4.0, 2.0, 1.0], ridge, 2) @ np.array([1.0, 1.0, 0.0])))
    generator = numpy_generator(0, "W5", "spectra")
    gaps = []
    for _ in range(50):
        spectrum = sorted(generator.lognormal(0, 3, size=6).tolist(), reverse=True)
        exact = float((_operator(spectrum, ridge, 2) ** 2).sum())  # E norm(M y)^2 = norm_F(M)^2 for y ~ N(0, I)
        gaps.append(abs(exact - bounds.pca_expected_squared_error(spectrum, 2, ridge)) / exact)
    figures = (
        Figure("error when the tail is 10 times the ridge", errors[0]),
        Figure("error when it is 1280 times the ridge", errors[-1]),
        Figure("growth of the error as the tail doubles; in proportion would be 2", max(grew)),
        Figure("error for targets in the top eigenspace", inside, shown="0"),
        Figure("largest relative gap of the mean squared error to its formula", max(gaps)),
    )
    doubled = sum(abs(ratio - 2) > 0.1 for ratio in grew)
    return Evidence(
        stated=(Trial("doubling the tail doubles the error", len(grew), doubled),),
        corrected=(
            Trial("E norm(f - fh)^2 = sum over the tail of (s/(s + l))^2", len(gaps), sum(g > 1e-10 for g in gaps)),
            Trial("targets in the top eigenspace lose nothing", 1, int(inside > 1e-12)),
            try_to_break(SATURATES, cases),
        ),
        relation="replaces",
        figures=figures,
        plot=_plot(tails, errors),
    )


def _plot(tails: list[float], errors: list[float]) -> Plot:
    return Plot(
        (
            Curve("worst relative error", tuple(tails), tuple(errors)),
            Curve("in proportion", tuple(tails), tuple(errors[0] * t / tails[0] for t in tails), dashed=True),
        ),
        "dropped eigenvalue (ridge 1)", "worst relative error", "The error saturates below 1.", log_x=True, log_y=True,
    )  # fmt: skip


W5 = Claim(
    id="W5",
    source="width-rank note, width-rank theorem",
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
        {"diagonal of K": [1e6, 10.0], "ridge": 1.0},
        "Width 1 drops 10: error 10/11 = 0.909. Make it 20: 20/21 = 0.952, not twice as much.",
    ),
)
