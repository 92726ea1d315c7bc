"""L16: is X X'X the first-order expansion of softmax attention?"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

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
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality, try_to_break
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator

ROWS, FEATURES = 40, 5
EXPANSION = "it is the first-order expansion of softmax attention, for any rows"
SCALES = (0.1, 0.01, 0.001)
SMALL = 3


def attention(X: Tensor, eps: float | Tensor) -> Tensor:
    """Return softmax(eps X X') X."""
    return torch.softmax(eps * (X @ X.mT), dim=-1) @ X


def expansion(X: Tensor, eps: float | Tensor) -> Tensor:
    """Return the mean row plus (eps/n) X Xc'Xc, Xc the centred rows: every term of first order."""
    mean = X.mean(-2, keepdim=True)
    centred = X - mean
    return mean + eps / X.shape[-2] * (X @ centred.mT @ centred)


def _gap(X: Tensor, eps: float) -> float:
    """Return the relative distance of (eps/n) X X'X from softmax attention."""
    exact = attention(X, eps)
    return float((exact - eps / len(X) * X @ X.T @ X).norm() / exact.norm())


def beyond_first_order(X: Tensor, eps: Tensor) -> Tensor:
    """Return attention - expansion without cancellation, by exp(a) - 1 - a of the centred logits a."""
    centred = X - X.mean(-2, keepdim=True)
    a = eps * (X @ centred.mT)
    series = a.square() * (1 / 2 + a / 6 + a.square() / 24)
    beyond = torch.where(a.abs() < 1e-3, series, torch.expm1(a) - a)
    mean = beyond.mean(-1, keepdim=True)
    return (beyond - (1 + a) * mean) / (X.shape[-2] * (1 + mean)) @ centred


def _remainder(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    X, eps = take.matrix(SMALL, 2), take.between(0.01, 1.0)[:, None, None]
    logits = X @ (X - X.mean(-2, keepdim=True)).mT
    spread = logits.amax(-1) - logits.amin(-1)
    diameter = (X[:, :, None] - X[:, None]).square().sum(-1).amax((-1, -2)).sqrt()
    left = beyond_first_order(X, eps).norm(dim=-1)
    right = eps[:, 0].square() * spread.square() * diameter[:, None] / 8
    row = (left / right).argmax(-1, keepdim=True)
    return left.gather(1, row)[:, 0], right.gather(1, row)[:, 0]


REMAINDER = Inequality(
    "L16",
    SMALL * 2 + 1,
    _remainder,
    "row by row, distance from mean + (eps/n) X Xc'Xc <= eps^2 range(logits)^2 diameter(X)/8",
)


def _rows(seed: int, *, centred: bool) -> Tensor:
    X = torch.randn(ROWS, FEATURES, generator=torch_generator(seed, "L16"), dtype=torch.float64)
    return X - X.mean(0) if centred else X + 1.0


def check(cases: int) -> Evidence:
    """Measure the gap on centred and uncentred rows, and search against the remainder."""
    gaps = {centred: [_gap(_rows(0, centred=centred), eps) for eps in SCALES] for centred in (True, False)}
    seeds = range(drawn(cases, 10))
    smallest = [[_gap(_rows(seed, centred=c), SCALES[-1]) for seed in seeds] for c in (True, False)]
    return Evidence(
        stated=concluding(
            EXPANSION, within("the relative gap of (eps/n) X X'X at eps = .001 is of first order", smallest[1], 0.01)
        ),
        corrected=(
            within("the same for centred rows", smallest[0], 0.01),
            _first_order(gaps[True]),
            *concluding(EXPANSION, try_to_break(REMAINDER, cases)),
        ),
        figures=tuple(
            Figure(f"{'centred' if centred else 'uncentred'}, eps = {eps:g}: relative gap", gap)
            for centred, found in gaps.items()
            for eps, gap in zip(SCALES, found, strict=True)
        ),
        plot=_plot(),
    )


def _first_order(gaps: list[float]) -> Trial:
    falls = [a / b for a, b in pairwise(gaps)]
    return Trial("the centred gap falls tenfold with eps, by 8 to 13", len(falls), sum(not 8 < f < 13 for f in falls))


def _plot() -> Plot:
    scales = tuple(torch.logspace(-3, -0.5, 20, dtype=torch.float64).tolist())
    return Plot(
        tuple(
            Curve(name, scales, tuple(_gap(_rows(0, centred=c), eps) for eps in scales), dashed=not c)
            for name, c in (("centred rows", True), ("uncentred rows", False))
        ),
        "logit scale eps", "relative gap of (eps/n) X X'X to softmax attention",
        "On centred rows the gap vanishes with the logits; on others the mean row is all that is left.",
        log_x=True, log_y=True,
    )  # fmt: skip


L16 = Claim(
    id="L16",
    source="linearized-attention study, appendix D.2",
    origin=Origin.QUOTED,
    quote="The analysis relies on linearized attention f_att(X) = XX^T X, which approximates softmax attention via "
    "first-order Taylor expansion.",
    title="X X'X is the first-order expansion of softmax attention",
    stated="Linearised attention X X'X approximates softmax attention by its first-order Taylor expansion.",
    formula=r"\operatorname{softmax}(\epsilon XX^\top) X \approx \tfrac{\epsilon}{n}\, XX^\top X",
    verdict=Verdict.AMENDED,
    corrected="exp(a) = 1 + a leaves a constant term and row sums: to first order softmax attention is the mean row "
    "plus (eps/n) X Xc'Xc with centred rows Xc, and a remainder within an explicit bound. The stated "
    "form is right for centred rows only.",
    corrected_formula=r"\|\operatorname{softmax}(\epsilon x_i^\top X^\top) X - \bar x - \tfrac{\epsilon}{n} "
    r"x_i^\top X_c^\top X_c\| \le \tfrac{\epsilon^2}{8}\,(\max_j s_{ij} - \min_j s_{ij})^2 \operatorname{diam}(X), "
    r"\quad s = XX^\top",
    condition="Any rows and any eps > 0: the second derivative in eps is a third central moment.",
    check=check,
    counterexample=Counterexample(
        {"X": [[1.0], [1.0]]},
        "Both rows attend to two equal values: softmax attention gives 1 at every eps. (eps/2) X X'X = eps.",
    ),
)
