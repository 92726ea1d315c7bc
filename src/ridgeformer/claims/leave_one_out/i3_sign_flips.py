"""I3: what a sign flip of an influence means, and which flips come for free."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict
from ridgeformer.claims.leave_one_out._influence import KERNELS, labelled_digits
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.exact import influence
from ridgeformer.influence.influences import Influence

ROWS, QUERIES, RIDGE = 150, 20, 0.1
NOISES = (0.003, 0.01, 0.03, 0.1)
TENTHS = 10


def nudged(X: Tensor, size: float) -> Tensor:
    """Return X with random signs of this size added to every entry: the control of an l_inf attack."""
    signs = torch.randint(0, 2, X.shape, generator=torch_generator(0, "I3"), dtype=torch.int64) * 2 - 1
    return X + size * signs.to(X.dtype)


def flips(before: Influence, after: Influence) -> Tensor:
    """Return which leave-one-out influences changed sign, (n, queries)."""
    return before.leave_one_out.sign() != after.leave_one_out.sign()


def one_factor_changed(before: Influence, after: Influence) -> Tensor:
    """Return where exactly one of (R k(x))_i and alpha_i changed sign."""
    query = before.weights.sign() != after.weights.sign()
    alpha = before.alpha.sign() != after.alpha.sign()
    return query ^ alpha


def rate_by_size(before: Influence, flipped: Tensor) -> list[float]:
    """Return the share of flips in each tenth of the influences by absolute size, the smallest first."""
    order = before.leave_one_out.abs().flatten().argsort()
    return [float(part.double().mean()) for part in flipped.flatten()[order].tensor_split(TENTHS)]


def check(cases: int) -> Evidence:
    """Nudge the rows at random, and sort the flips by the factor that caused them and by size."""
    total, wrong = 0, 0
    found: dict[tuple[str, float], list[list[float]]] = {}
    for seed, kernel in product(range(drawn(cases, 1)), KERNELS):
        X, y, Z = labelled_digits(ROWS, QUERIES, seed)
        before = influence(kernel, X, y, Z, RIDGE)
        for noise in NOISES:
            after = influence(kernel, nudged(X, noise), y, Z, RIDGE)
            flipped = flips(before, after)
            wrong += int((flipped != one_factor_changed(before, after)).sum())
            total += flipped.numel()
            found.setdefault((kernel.name, noise), []).append(rate_by_size(before, flipped))
    rates = {key: [sum(tenth) / len(tenth) for tenth in zip(*each, strict=True)] for key, each in found.items()}
    free = [tenths[0] <= tenths[-1] for tenths in rates.values()]
    low, high = (rates["exponential", 0.01][tenth] for tenth in (0, -1))
    return Evidence(
        stated=(Trial("an influence flips where exactly one factor does, and only there", total, wrong),),
        corrected=(Trial("random noise flips the smallest tenth oftener than the largest", len(free), sum(free)),),
        figures=(
            Figure("flips under random noise of .01, smallest tenth", low),
            Figure("flips under random noise of .01, largest tenth", high),
        ),
        plot=_plot(rates),
    )


def _plot(rates: dict[tuple[str, float], list[float]]) -> Plot:
    tenths = tuple(float(t + 1) for t in range(TENTHS))
    return Plot(
        tuple(
            Curve(f"noise {noise:g}", tenths, tuple(found))
            for (name, noise), found in rates.items()
            if name == "exponential"
        ),
        "tenth of the influences by absolute size (10 = largest)", "share whose sign changed",
        "Noise alone flips the near-zero influences: a flip rate means something beside this control only.",
    )  # fmt: skip


I3 = Claim(
    id="I3",
    source="influence, closed form",
    origin=Origin.OWN,
    title="A sign flip means that exactly one factor changed sign",
    stated="As R_ii is positive, an influence changes sign exactly where one of its two factors does and the other "
    "does not.",
    formula=r"\operatorname{sign}\big(f(x) - f_{-i}(x)\big) = \operatorname{sign}(R\,k(x))_i\;"
    r"\operatorname{sign}\alpha_i",
    verdict=Verdict.TRUE,
    condition="l > 0. Near-zero influences flip for free: report flips on the largest by absolute size, beside random "
    "noise of the same size.",
    check=check,
)
