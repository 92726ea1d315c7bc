"""W1: does any narrow linear map cost at most the tail of the spectrum?"""

from __future__ import annotations

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
from ridgeformer.claims.matrices import Numbers, norm, spectrum_of
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.core.seeds import torch_generator

SPECTRUM = [100.0, 10.0, 1.0, 0.1, 0.01, 0.001]
WIDTH, SIZE, KEPT = 3, 5, 2


def _sketched(theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return K = F F' and its sketch F S S'F' of rank KEPT."""
    take = Numbers(theta)
    F = take.matrix(SIZE, SIZE) * take.spectrum(SIZE)[:, None, :].sqrt()
    FS = F @ take.matrix(SIZE, KEPT)
    return F @ F.mT, FS @ FS.mT


def _as_stated(theta: Tensor) -> tuple[Tensor, Tensor]:
    K, Kh = _sketched(theta)
    return norm(K - Kh), spectrum_of(K)[:, KEPT:].sum(-1)


def _floor(theta: Tensor) -> tuple[Tensor, Tensor]:
    K, Kh = _sketched(theta)
    return spectrum_of(K)[:, KEPT], norm(K - Kh)


FREE = SIZE * SIZE + SIZE + SIZE * KEPT
STATED = Inequality("W1 as stated", FREE, _as_stated, "norm(K - Kh) <= sum of the tail, for any linear map")
FLOOR = Inequality("W1 floor", FREE, _floor, "sigma_{m+1} <= norm(K - Kh), for every Kh of rank m")


def check(cases: int) -> Evidence:
    """Measure the counterexamples, and search for a violation of the floor."""
    K = torch.diag(torch.tensor(SPECTRUM, dtype=torch.float64))
    tail = bounds.tail_mass(SPECTRUM, WIDTH)
    bottom = K.clone()
    bottom[:WIDTH, :WIDTH] = 0.0
    top = K.clone()
    top[WIDTH:, WIDTH:] = 0.0
    errors = {name: float(norm(K - Kh)) for name, Kh in (("S = 0", 0 * K), ("bottom", bottom), ("PCA", top))}
    figures = (
        Figure("error of S = 0", errors["S = 0"], shown="100"),
        Figure("error of the bottom three directions", errors["bottom"], shown="100"),
        Figure("the tail it should not exceed", tail, shown="0.111"),
        Figure("error of PCA, which is sigma_4", errors["PCA"], shown="0.1"),
        Figure("fraction of random sketches of a rank-one kernel beyond it", _rank_one(drawn(cases, 200)), "1.00"),
        Figure("the same on a flat spectrum", _flat(drawn(cases, 200)), "0.00"),
    )
    fails = Trial("the map S = 0 stays within the tail", 1, int(errors["S = 0"] > tail), errors["S = 0"] / tail)
    attained = Trial("PCA errs by exactly sigma_{m+1}", 1, int(abs(errors["PCA"] - SPECTRUM[WIDTH]) > 1e-12))
    return Evidence(
        stated=concluding("the kernel's error is at most the tail", fails, try_to_break(STATED, cases)),
        corrected=(attained, try_to_break(FLOOR, cases)),
        figures=figures,
        plot=_plot(),
    )


def _rank_one(draws: int) -> float:
    """Return the fraction of Gaussian sketches S (6 x 3, entries N(0, 1/3)) of a rank-one kernel beyond its tail."""
    generator = torch_generator(0, "W1", "rank one")
    phi = torch.ones(4, 6, dtype=torch.float64)
    S = torch.randn(draws, 6, 3, generator=generator, dtype=torch.float64) / 3**0.5
    K = phi @ phi.T
    tail = float(spectrum_of(K)[3:].clamp_min(0).sum())
    return float((norm(K - (phi @ S) @ (phi @ S).mT) > tail + 1e-9).double().mean())


def _flat(draws: int) -> float:
    """Return the same for K = I of size 40, where a random test would pass by luck."""
    generator = torch_generator(0, "W1", "flat")
    S = torch.randn(draws, 40, 3, generator=generator, dtype=torch.float64) / 3**0.5
    return float((norm(torch.eye(40, dtype=torch.float64) - S @ S.mT) > 37).double().mean())


def _plot() -> Plot:
    widths = tuple(float(m) for m in range(len(SPECTRUM)))
    best = tuple(bounds.sketch_error_floor(SPECTRUM, int(m)) for m in widths)
    tails = tuple(bounds.tail_mass(SPECTRUM, int(m)) for m in widths)
    return Plot(
        (
            Curve("S = 0, or the bottom directions", widths, (SPECTRUM[0],) * len(widths)),
            Curve("PCA: the best there is", widths, best),
            Curve("the tail", widths, tails, dashed=True),
        ),
        "width m", "norm(K - Kh)", "A bad map of the same width stays at 100 while the tail falls.", log_y=True,
    )  # fmt: skip


W1 = Claim(
    id="W1",
    source="width-rank note, width-rank theorem",
    origin=Origin.QUOTED,
    quote="If m < p, any computation that linearly preserves Phi across layers induces an effective rank-m sketch "
    "with spectral approximation error controlled by the tail of K",
    title="Any narrow linear map costs at most the tail of the spectrum",
    stated="A computation that carries the features linearly through width m < p errs by at most the sum of the "
    "kernel's eigenvalues beyond the m-th.",
    formula=r"\|K - \hat K\|_2 \le \sum_{i>m} \sigma_i(K)",
    verdict=Verdict.FALSE,
    corrected="The best map of width m, PCA, errs by exactly the next eigenvalue, and no rank-m kernel errs less. "
    "A bad map can err by all of it.",
    corrected_formula=r"\min_{\mathrm{rank}\,\hat K \le m} \|K - \hat K\|_2 = \sigma_{m+1}(K)",
    condition="K positive semidefinite.",
    check=check,
    counterexample=Counterexample(
        {"diagonal of K": SPECTRUM, "S": 0.0},
        "With S = 0 nothing is carried: the error is norm(K) = 100, the tail beyond m = 3 is 0.1 + 0.01 + 0.001.",
    ),
)
