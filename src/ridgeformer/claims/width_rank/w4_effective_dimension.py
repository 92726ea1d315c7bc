"""W4: is a width equal to the effective dimension enough?"""

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
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.core.seeds import torch_generator

SIZE, KEPT = 6, 3
SMALL = 0.1
"""What the trial of the claim takes as a small relative error."""


def _corrected(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    s, ridge = take.spectrum(SIZE), take.positive()
    shrink = s / (s + ridge[:, None])
    return shrink[:, KEPT], shrink.sum(-1) / (KEPT + 1)


CORRECTED = Inequality("W4 corrected", SIZE + 1, _corrected, "s_{m+1}/(s_{m+1} + l) <= d_eff/(m + 1): the error of PCA")


def check(cases: int) -> Evidence:
    """Measure the counterexample for many widths, and search for a violation of the corrected bound."""
    ridge, widths = 0.5, range(1, 51)
    flat = {m: [m * ridge] * (m + 1) for m in widths}
    d_eff = {m: bounds.effective_dimension(flat[m], ridge) for m in widths}
    error = {m: bounds.pca_relative_error(flat[m], m, ridge) for m in widths}
    enough = sum(d_eff[m] <= m * (1 + 1e-12) and error[m] > SMALL for m in widths)
    sufficient = [bounds.width_for_relative_error(flat[m], ridge, SMALL) for m in widths]
    wrong = sum(bounds.pca_relative_error(flat[m], w, ridge) > SMALL for m, w in zip(widths, sufficient, strict=True))
    figures = (
        Figure("relative error at width d_eff = 9", error[9], shown="0.9"),
        Figure("d_eff of K = 9 l I of size 10", d_eff[9], shown="9"),
        Figure(
            "largest distance of the error from m/(m+1), m = 1..50", max(abs(error[m] - m / (m + 1)) for m in widths)
        ),
        Figure("Gaussian sketches: mean of the whitened error over 2 sqrt(d/m) + d/m", _gaussian_share()),
    )
    stated = Trial(f"relative error <= {SMALL} where m >= d_eff", len(widths), enough, max(error.values()) / SMALL)
    restored = Trial(f"m + 1 >= d_eff/{SMALL} gives a relative error <= {SMALL}", len(widths), wrong)
    return Evidence(
        stated=concluding("the relative error is small", stated),
        corrected=(
            *concluding("the relative error is small", restored, kept=_kept(cases)),
            try_to_break(CORRECTED, cases),
        ),
        figures=figures,
        plot=_plot(),
    )


def _kept(draws: int) -> float:
    """Return, of widths m >= d_eff on random spectra i^-a of size 200, the fraction with m + 1 >= d_eff/SMALL."""
    decay, ridge, place = torch.rand(3, draws, 1, generator=torch_generator(0, "W4", "kept"), dtype=torch.float64)
    s = torch.arange(1, 201) ** -(1 + 2 * decay)
    d_eff = (s / (s + 10 ** (-4 * ridge))).sum(1, keepdim=True)
    width = d_eff + place * (200 - d_eff)
    return float((width + 1 >= d_eff / SMALL).double().mean())


def _gaussian_share() -> float:
    """Return the mean over draws of norm(A^-1/2 (K - Kh) A^-1/2) over its guide, i^-1 spectrum, width 64."""
    generator, ridge, width = torch_generator(0, "W4", "gaussian"), 0.05, 64
    s = 1 / torch.arange(1, 101, dtype=torch.float64)
    root = (s / (s + ridge)).sqrt()
    S = torch.randn(40, 100, width, generator=generator, dtype=torch.float64) / width**0.5
    whitened = torch.diag(root**2) - (root[:, None] * S) @ (root[:, None] * S).mT
    guide = bounds.gaussian_sketch_relative_error(float((root**2).sum()), width)
    return float(torch.linalg.matrix_norm(whitened, ord=2).mean()) / guide


def _plot() -> Plot:
    spectrum, ridge, widths = [float(i) ** -1 for i in range(1, 201)], 0.05, tuple(float(m) for m in range(0, 101, 2))
    d_eff = bounds.effective_dimension(spectrum, ridge)
    return Plot(
        (
            Curve("PCA", widths, tuple(bounds.pca_relative_error(spectrum, int(m), ridge) for m in widths)),
            Curve("d_eff/(m + 1)", widths, tuple(min(1.0, d_eff / (m + 1)) for m in widths), dashed=True),
            Curve("m = d_eff", (d_eff, d_eff), (0.0, 1.0), dashed=True),
        ),
        "width m", "worst relative error", "At m = d_eff the bound is 1 and the error still large; it falls like 1/m.",
    )  # fmt: skip


W4 = Claim(
    id="W4",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="when m >= d_eff(lambda), the induced error is small",
    title="A width of the effective dimension is enough",
    stated="Once the width reaches the effective dimension at this ridge, the error is small.",
    formula=r"m \ge d_{\mathrm{eff}}(\lambda) = \sum_i \frac{\sigma_i}{\sigma_i+\lambda} \;\Rightarrow\; "
    r"\text{small error}",
    verdict=Verdict.AMENDED,
    corrected="The error of PCA is at most the effective dimension over the width plus one: for a relative error eps, "
    "take m + 1 >= d_eff/eps. At m = d_eff itself the guarantee is empty, and the error can be m/(m + 1).",
    corrected_formula=r"\frac{\sigma_{m+1}}{\sigma_{m+1}+\lambda} \le \frac{d_{\mathrm{eff}}(\lambda)}{m+1}",
    condition="PCA sketch, in sample, worst case over targets. Gaussian sketches: about 2 sqrt(d/m) + d/m, a guide.",
    check=check,
    counterexample=Counterexample(
        {"K": [[0.5, 0.0], [0.0, 0.5]], "ridge": 0.5},
        "K = m l I of size m + 1 with m = 1: d_eff = 2 * 0.5/(0.5 + 0.5) = 1 = m, and whatever single direction is "
        "kept, the other loses 0.5/(0.5 + 0.5) = 1/2 of its target.",
    ),
)
