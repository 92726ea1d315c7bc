"""W3: what width costs a prediction."""

from __future__ import annotations

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
from ridgeformer.claims.matrices import Numbers, norm, orthonormal, prescribed, resolvent, spectrum_of
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.core.seeds import torch_generator

ROWS, FEATURES, KEPT = 5, 3, 1


def _apply(M: Tensor, v: Tensor) -> Tensor:
    return (M @ v[..., None])[..., 0]


def _pca(theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return |f - fh| of the width-1 PCA model, the spectrum of K, ridge, norm(phi_perp) and norm(y_perp)."""
    take = Numbers(theta)
    U, V = orthonormal(take.matrix(ROWS, FEATURES)), orthonormal(take.matrix(FEATURES, FEATURES))
    s = take.spectrum(FEATURES)
    phi, y, ridge = take.vector(FEATURES), take.vector(ROWS), take.positive()
    Phi = (U * s.sqrt()[:, None, :]) @ V.mT
    kept = V[..., :KEPT]
    full = _predict(Phi, phi, y, ridge)
    narrow = _predict(Phi @ kept, _apply(kept.mT, phi), y, ridge)
    phi_perp = (phi - _apply(kept, _apply(kept.mT, phi))).norm(dim=-1)
    y_perp = (y - _apply(U[..., :KEPT], _apply(U[..., :KEPT].mT, y))).norm(dim=-1)
    return (full - narrow).abs(), s, ridge, phi_perp, y_perp


def _predict(Phi: Tensor, phi: Tensor, y: Tensor, ridge: Tensor) -> Tensor:
    return (_apply(Phi, phi) * _apply(resolvent(Phi @ Phi.mT, ridge), y)).sum(-1)


def _sharp(theta: Tensor) -> tuple[Tensor, Tensor]:
    error, s, ridge, phi_perp, y_perp = _pca(theta)
    dropped = s[:, KEPT:]
    return error, phi_perp * y_perp * (dropped.sqrt() / (dropped + ridge[:, None])).amax(-1)


def _simple(theta: Tensor) -> tuple[Tensor, Tensor]:
    error, _, ridge, phi_perp, y_perp = _pca(theta)
    return error, phi_perp * y_perp / (2 * ridge.sqrt())


def _in_sample(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    K, Kh = (prescribed(take.matrix(ROWS, ROWS), take.spectrum(ROWS)) for _ in range(2))
    y, ridge = take.vector(ROWS), take.positive()
    error = _apply(K @ resolvent(K, ridge) - Kh @ resolvent(Kh, ridge), y).norm(dim=-1)
    s = norm(K - Kh)
    return error, s / (ridge + s) * y.norm(dim=-1)


def _as_written(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return both sides for any k: the left one keeps the query as it is."""
    take = Numbers(theta)
    K, Kh = (prescribed(take.matrix(ROWS, ROWS), take.spectrum(ROWS)) for _ in range(2))
    k, y, ridge = take.vector(ROWS), take.vector(ROWS), take.positive()
    gap = resolvent(K, ridge) - resolvent(Kh, ridge)
    return (k * _apply(gap, y)).sum(-1).abs(), k.norm(dim=-1) * y.norm(dim=-1) * norm(gap)


FREE = ROWS * FEATURES + FEATURES * FEATURES + 2 * FEATURES + ROWS + 1
SHARP = Inequality("W3 PCA", FREE, _sharp, "|f - fh| <= norm(phi_perp) norm(y_perp) max sqrt(s_i)/(s_i + l), PCA")
SIMPLE = Inequality("W3 PCA simple", FREE, _simple, "|f - fh| <= norm(phi_perp) norm(y_perp)/(2 sqrt l), PCA")
BOUNDED = "the model's prediction error is bounded"
WRITTEN = Inequality(
    "W3 as written", 2 * ROWS * ROWS + 4 * ROWS + 1, _as_written, "|k'(R - Rh)y| <= norm(k) norm(y) norm(R - Rh)"
)
IN_SAMPLE = Inequality(
    "W3 in sample", 2 * ROWS * ROWS + 3 * ROWS + 1, _in_sample, "norm(f - fh) <= s/(l + s) norm(y), in sample"
)


def violations(ridge: float, draws: int) -> int:
    """Count Gaussian problems (6 rows, 3 features, width 1) in which the right side is below the model's own error."""
    generator = torch_generator(0, "W3", "draws")
    numbers = Numbers(torch.randn(draws, 30, generator=generator, dtype=torch.float64))
    Phi, S, phi, y = numbers.matrix(6, 3), numbers.matrix(3, 1), numbers.vector(3), numbers.vector(6)
    lam = torch.full((draws,), ridge, dtype=torch.float64)
    error = (_predict(Phi, phi, y, lam) - _predict(Phi @ S, _apply(S.mT, phi), y, lam)).abs()
    gap = spectrum_of(resolvent(Phi @ Phi.mT, lam) - resolvent(Phi @ S @ S.mT @ Phi.mT, lam)).abs().amax(-1)
    return int((error > _apply(Phi, phi).norm(dim=-1) * y.norm(dim=-1) * gap).sum())


def check(cases: int) -> Evidence:
    """Search the inequality as written, count where it does not bound the model's error, and search the correction."""
    ridges, draws = (1.0, 20.0, 50.0), drawn(cases, 2_000)
    counts = [violations(ridge, draws) for ridge in ridges]
    figures = tuple(
        Figure(f"violations by the model's own error, of 2,000 Gaussian draws, ridge {ridge:g}", 2_000 * count / draws)
        for ridge, count in sorted(zip(ridges, counts, strict=True), key=lambda pair: -pair[1])
    )
    used = Trial("|f - fh| <= norm(k) norm(y) norm(R - Rh), fh the width-m model", draws * len(ridges), sum(counts))
    sharp, simple, in_sample = (try_to_break(inequality, cases) for inequality in (SHARP, SIMPLE, IN_SAMPLE))
    return Evidence(
        stated=(try_to_break(WRITTEN, cases), *concluding(BOUNDED, used)),
        corrected=(*concluding(BOUNDED, sharp, simple), in_sample),
        figures=figures,
        plot=_plot(),
    )


def _plot() -> Plot:
    dropped = tuple(float(s) for s in np.geomspace(1e-2, 1e2, 60))
    factor = tuple(bounds.pca_prediction_factor([1e3, s], 1, 1.0) for s in dropped)
    return Plot(
        (
            Curve("sqrt(s)/(s + l), attained", dropped, factor),
            Curve("1/(2 sqrt l)", dropped, (0.5,) * len(dropped), dashed=True),
        ),
        "dropped eigenvalue s (ridge l = 1)", "error / (norm(phi_perp) norm(y_perp))",
        "The dearest eigenvalue to drop is the one that equals the ridge.", log_x=True,
    )  # fmt: skip


W3 = Claim(
    id="W3",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="which yields a query prediction error bound for any x with feature vector phi(x): |k(x)'[(K+lambda I)^-1 - "
    "(K^+lambda I)^-1]y| <= ||k(x)|| * ||y|| * ||(K+lambda I)^-1 - (K^+lambda I)^-1||",
    title="The prediction error follows from the resolvent error alone",
    stated="The two resolvents, applied to the same k(x), differ by at most norm(k(x)) norm(y) times the resolvent "
    "error, and this bounds the error of a width-m model's prediction.",
    formula=r"|k(x)^\top (R - \hat R)\, y| \le \|k(x)\|_2 \, \|y\|_2 \, \|R - \hat R\|_2",
    verdict=Verdict.AMENDED,
    corrected="As written the inequality is Cauchy-Schwarz, and true. It does not bound the error of a width-m model, "
    "which sketches k(x) too: f - fh = k'(R - Rh)y + (k - kh)'Rh y has a second term. For PCA both together cost at "
    "most the part of the query and of the targets that width drops.",
    corrected_formula=r"|f - \hat f| \le \|\phi_\perp\| \, \|y_\perp\| \max_{i>m} "
    r"\frac{\sqrt{\sigma_i}}{\sigma_i + \lambda} \le \frac{\|\phi_\perp\| \, \|y_\perp\|}{2\sqrt\lambda}",
    condition="PCA sketch, the query sketched by the same map; in sample, s/(l + s) norm(y) for every semidefinite "
    "sketch. The share of violations depends on the ridge.",
    check=check,
    counterexample=Counterexample(
        {"Phi": [[1.0, 0.0]], "phi(x)": [0.0, 1.0], "sketch S": [[0.7071], [0.7071]], "y": [1.0], "ridge": 1.0},
        "k(x) = 0, so both sides of the inequality are 0, and f = 0. The sketch sees Phi S = 0.7071 and phi'S = "
        "0.7071: fh = 0.5/(0.5 + 1) = 1/3.",
    ),
)
