"""L10: truncated attention restores convergence."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict, concluding
from ridgeformer.claims.linearised._trained import three_or_eight
from ridgeformer.claims.trials import within
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    Architecture,
    LinearisedAttention,
    finite_relu_ntk,
    follow_training,
    gram_spectrum,
    kernel_distances,
    published_width,
)

RANKS = (4, 8, 16, 32)
WIDTH, TRAINED, STEPS = 100_000, 1024, 40
NEARER = 0.5


def check(cases: int) -> Evidence:
    """Measure kernels and trained networks on truncated attention beside full attention and raw rows."""
    problem, seeds = three_or_eight(), drawn(cases, 3)
    X = problem.X
    seen = {r: LinearisedAttention(X, rank=r)(X) for r in RANKS}
    attended = LinearisedAttention(X)(X)
    full, alike = _distances(attended, seeds), _cosine(attended)
    kernel = {r: _distances(rows, seeds) for r, rows in seen.items()}
    raw = _distances(X, seeds)
    whole, plain = (_trained(problem, Architecture(name, scale=1.0), seeds) for name in ("mlp-attn", "relu"))
    trained = {r: _trained(problem, Architecture("mlp-attn", scale=1.0, rank=r), seeds) for r in RANKS}
    asked = {r: published_width(gram_spectrum(X).condition(r), len(X)).log10_width for r in RANKS}
    asked_full = published_width(gram_spectrum(X).condition(), len(X)).log10_width
    near, less = ({r: mean(d[name]) for r, d in kernel.items()} for name in ("multiplicative", "additive"))
    far = mean(full["multiplicative"])
    return Evidence(
        stated=concluding(
            "truncation brings the network nearer to its limit",
            *(
                _nearer(f"kernel at initialisation, {name},", [d[name] for d in kernel.values()], full[name])
                for name in ("multiplicative", "additive")
            ),
            _nearer("outputs of trained networks", trained.values(), whole),
        ),
        corrected=(
            Trial("the formula's width falls by ten orders of magnitude or more at r = 4", 1,
                  int(asked_full - asked[4] < 10)),
            within("the mean cosine between rows is that of full attention to 1 %",
                   [abs(_cosine(rows) / alike - 1) for rows in seen.values()], 0.01),
            Trial("under the additive criterion r = 4 is farther than full attention", seeds,
                  sum(four <= all_ for four, all_ in zip(kernel[4]["additive"], full["additive"], strict=True))),
            Trial("control: raw rows are nearer by that factor, kernel", 1,
                  int(mean(raw["multiplicative"]) > NEARER * far)),
            Trial("control: raw rows are nearer by that factor, trained", 1, int(mean(plain) > NEARER * mean(whole))),
        ),
        figures=(
            Figure("multiplicative distance at m = 1e5, full attention", far),
            *(Figure(f"the same, top {r} directions", value) for r, value in near.items()),
            Figure("the same, raw rows", mean(raw["multiplicative"])),
            Figure("additive distance, over a quarter of l_min, full attention", 4 * mean(full["additive"])),
            *(Figure(f"the same, top {r} directions", 4 * value) for r, value in less.items()),
            Figure("the same, raw rows", 4 * mean(raw["additive"])),
            Figure("relative distance of trained outputs at m = 1024, full attention", mean(whole)),
            *(Figure(f"the same, top {r} directions", mean(values)) for r, values in trained.items()),
            Figure("the same, raw rows", mean(plain)),
            *(Figure(f"log10 of the formula's width, top {r} directions", value) for r, value in asked.items()),
            Figure("log10 of the formula's width, all directions", asked_full),
            Figure("mean cosine between rows, full attention", alike),
            Figure("mean cosine between rows, raw", _cosine(X)),
        ),
        plot=_plot(near, far, {r: mean(values) for r, values in trained.items()}, mean(whole)),
    )  # fmt: skip


def _cosine(rows: Tensor) -> float:
    """Return the mean inner product of two different rows of unit length."""
    n = len(rows)
    return float((rows @ rows.T).sum() - n) / (n * (n - 1))


def _distances(rows: Tensor, seeds: int) -> dict[str, list[float]]:
    """Return the distances of kernels at initialisation from their limit by criterion, one a seed."""
    limit = ReluNTK()(rows)
    draws = [finite_relu_ntk(rows, WIDTH, torch_generator(seed, "L10"), threads=1) for seed in range(seeds)]
    found = [kernel_distances(K, limit, ridge=1.0) for K in draws]
    return {name: [getattr(d, name) for d in found] for name in ("multiplicative", "additive")}


def _trained(problem: Split, architecture: Architecture, seeds: int) -> list[float]:
    """Return the relative distance of trained outputs from the limit kernel's at the same training time, one a seed."""
    found = [follow_training(problem, architecture, width=TRAINED, seed=s, lengths=[STEPS])[0] for s in range(seeds)]
    return [one.relative for one in found]


def _nearer(what: str, found: Iterable[list[float]], full: list[float]) -> Trial:
    """Try, seed by seed, whether a truncated network is nearer than the full one by the factor."""
    pairs = [(one, whole) for values in found for one, whole in zip(values, full, strict=True)]
    statement = f"top-r attention brings the {what} nearer to the limit by a factor of {1 / NEARER:g}, r = 4 to 32"
    return Trial(statement, len(pairs), sum(not one <= NEARER * whole for one, whole in pairs))


def _plot(kernel: dict[int, float], full: float, trained: dict[int, float], whole: float) -> Plot:
    ranks = tuple(float(r) for r in kernel)
    level = (ranks[0], ranks[-1])
    return Plot(
        (
            Curve("kernel at initialisation, m = 1e5", ranks, tuple(kernel.values())),
            Curve("the same, full attention", level, (full, full), dashed=True),
            Curve("trained outputs, m = 1024", ranks, tuple(trained.values())),
            Curve("the same, full attention", level, (whole, whole), dashed=True),
        ),
        "directions kept", "distance from the limit",
        "Truncation lowers kappa and leaves the distance where it was.",
        log_x=True, log_y=True,
    )  # fmt: skip


L10 = Claim(
    id="L10",
    source="linearized-attention study, extensions",
    origin=Origin.SUMMARY,
    title="Truncated attention restores convergence",
    stated="Keeping only the top r directions of the attention matrix lowers the condition number and brings the "
    "kernel regime back.",
    formula=r"m = \Omega(\kappa_r(G)^6\, n \log n), \quad r \ll d",
    verdict=Verdict.FALSE,
    corrected="It lowers kappa_r and the formula's width by many orders of magnitude and changes next to nothing: on "
    "digits (3 against 8, 60 rows, 3 seeds) neither the kernel at initialisation (m = 1e5) nor the outputs after 40 "
    "steps of full-batch gradient descent (m = 1024, squared error, unit start) come nearer to the limit by a "
    "factor of 2 at any r from 4 to 32, while rows without attention do. Attention makes rows alike, "
    "and its top directions alone make them as much alike: the mean cosine between rows stays where it was. Under the "
    "additive criterion truncation makes it worse, since the smallest eigenvalue of the kernel falls.",
    condition="Rows normalised after attention, first layer trained; measured on these rows, not proved.",
    check=check,
)
