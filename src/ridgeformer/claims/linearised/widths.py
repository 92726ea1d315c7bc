"""Claims L4, L17, L18, L25: how wide a network must be before its tangent kernel has converged."""

from __future__ import annotations

import math
from itertools import product
from math import log10

import numpy as np
import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.batched import norm
from ridgeformer.claims.checks import corrected, drawn, normal, stated, synthetic_rows
from ridgeformer.claims.claim import Claim, Figure, Pieces, Verdict, interpretation, plot
from ridgeformer.claims.linearised.spectra import attention_features, digits, energy_rank
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    KernelDistances,
    ReluNetwork,
    finite_relu_ntk,
    gram_spectrum,
    kernel_distances,
    normalise_rows,
    published_width,
)

L4_ROWS = 100
L4_WIDTHS = (4_000, 40_000, 400_000)
CONVERGED, RISK = 0.5, 0.01
SMALL = 6


def enough(rows: Tensor, ridge: float = 0.0) -> float:
    """Return the width that matrix Chernoff calls enough for a relative distance CONVERGED at risk RISK.

    K_m is a mean of terms D G D <= norm(G), so m >= 3 L log(2 n/p)/d^2 with L = (norm(G) + l)/(min eig K + l).
    """
    largest = float(norm(rows @ rows.T))
    smallest = float(torch.linalg.eigvalsh(ReluNTK()(rows))[0])
    spread = (largest + ridge) / (smallest + ridge)
    return 3 * spread * math.log(2 * len(rows) / RISK) / CONVERGED**2


@Claim(
    source="linearized-attention study, theorem 4.7",
    quote="requiring width m = Omega(kappa_d(G)^6 n log n) for NTK convergence",
    stated="A network on linearised attention features reaches its tangent kernel only from a width of the sixth power "
    "of the condition number on, which no network has.",
    formula=r"m = \Omega(\kappa_d(G)^6\, n \log n)",
    verdict=Verdict.FALSE,
    under="the multiplicative criterion",
    corrected="False under the multiplicative criterion, and under the average entry and the ridge-whitened one, which "
    "digits meet at 4e5 neurons. Under the additive criterion attention is not within reach there, and the formula is "
    "refuted by extrapolation alone. Concentration gives widths that suffice, never widths that are needed. Relative "
    "to K, or to K + l I, a width linear in norm(G) over the smallest eigenvalue is enough (matrix Chernoff), and far "
    "less is needed on digits. The additive criterion, an error below a quarter of the smallest eigenvalue, asks for "
    "more, its square. Attention does slow convergence, by about ten in the multiplicative distance on digits.",
    corrected_formula=r"m \ge \frac{3}{\delta^2}\,\frac{\|G\|+\lambda}{\lambda_{\min}(K)+\lambda}\log\frac{2n}{p} "
    r"\;\Rightarrow\; P\Big(\|(K+\lambda I)^{-1/2}(K_m-K)(K+\lambda I)^{-1/2}\| \le \delta\Big) \ge 1-p",
    condition="delta <= 1; G is the Gram matrix of the network's own input rows; first layer trained, Gaussian start.",
    arrays={"X": [[1.0, 0.0], [0.0, 0.1]], "X X'X": [[1.0, 0.0], [0.0, 0.001]], "W": [[1.0, -1.0], [-1.0, 1.0]]},
    arithmetic="kappa(G) = 100, so the formula asks for 10^12 2 log 2 neurons. The attention rows are orthogonal: K = "
    "diag(1, 10^-6)/2. Each row makes one of the two neurons in W active, so that K_2 = diag(1, 10^-6)/2 = K. For any "
    "weights the multiplicative distance is max_i abs(2 p_i - 1), p_i the share of neurons that row i makes active: "
    "kappa is not in it.",
)
def l4(cases: int) -> Pieces:
    """Convergence to the tangent kernel needs a width of kappa^6 n log n."""
    X = digits(L4_ROWS)
    inputs = {"attention": normalise_rows(attention_features(X)), "raw": X}
    measured = {name: [_measure(rows, m) for m in L4_WIDTHS] for name, rows in inputs.items()}
    last = {name: series[-1] for name, series in measured.items()}
    pairs = list(zip(*measured.values(), strict=True))

    def scaled(distances: KernelDistances, criterion: str) -> float:
        """Return a distance in units of what is required: the additive one over a quarter of the least eigenvalue."""
        return float(getattr(distances, criterion)) * (4 if criterion == "additive" else 1)

    far = [d.multiplicative > CONVERGED for d in last.values()]
    name = "multiplicative criterion: below kappa^6 n log n the kernel is not within 1/2 (digits, m = 4e5)"
    yield stated.holds(name, far, "the kernel converges from kappa^6 n log n on only")
    small = [normalise_rows(normal((SMALL, 4), seed, "L4", "rows")) for seed in range(drawn(cases, 40))]
    near = [_measure(rows, math.ceil(enough(rows)), seed).multiplicative for seed, rows in enumerate(small)]
    yield corrected.within("3 L log(2n/p)/d^2 neurons give a relative distance d = 1/2", near, CONVERGED)
    whitened = [attention.whitened / raw.whitened for attention, raw in pairs]
    yield corrected.within("ridge-whitened, attention rows are at most twice as far as raw rows", whitened, 2.0)
    gain = measured["attention"][0].multiplicative / last["attention"].multiplicative  # about 10: 100 times the width
    yield corrected.holds("the multiplicative distance falls as 1/sqrt(m)", 4 <= gain <= 25)
    additive = scaled(last["attention"], "additive")
    yield corrected.holds("the additive criterion is not met there by attention rows", additive > 1)
    slower = [attention.multiplicative > raw.multiplicative for attention, raw in pairs]
    yield corrected.holds("attention slows it: a larger multiplicative distance than raw rows at every width", slower)
    width = published_width(gram_spectrum(X).condition(), L4_ROWS).log10_sufficient
    yield Figure("width by the source's formula, digits n = 100", 10**width)
    name = "width that is enough for a relative distance of 1/2 (Chernoff), attention"
    yield Figure(name, enough(inputs["attention"]))
    yield Figure("width that is enough, raw", enough(X))
    for name, criterion in product(inputs, ("additive", "frobenius", "multiplicative", "whitened")):
        yield Figure(f"{name}, m = 4e5: {criterion}", scaled(last[name], criterion))
    yield Figure("width at which the additive distance would be met, attention", L4_WIDTHS[-1] * additive**2)
    yield Figure("attention over raw, multiplicative", last["attention"].multiplicative / last["raw"].multiplicative)
    names = {"additive": "additive / (l_min/4)", "multiplicative": "multiplicative", "whitened": "ridge-whitened"}
    attention, raw = (
        {f"{label}, {rows}": [scaled(d, key) for d in measured[rows]] for key, label in names.items()}
        for rows in ("attention", "raw")
    )
    yield plot(
        "width m", "distance of K_m from K", L4_WIDTHS, log="xy", solid=attention, dashed=raw,
        caption="All fall as 1/sqrt(m). Whether a width is enough depends on the criterion; none asks for kappa^6.",
    )  # fmt: skip


def _measure(rows: Tensor, width: int, seed: int = 0) -> KernelDistances:
    """Return the distances of one draw, whitened at the mean eigenvalue."""
    limit = ReluNTK()(rows)
    K = finite_relu_ntk(rows, width, torch_generator(seed, "L4", width), threads=1)
    return kernel_distances(K, limit, ridge=float(limit.diagonal().mean()))


QUOTED = {"MNIST": (1.2e3, 60_000), "CIFAR-10": (8.7e3, 50_000)}
"""Condition numbers that other summaries of the study give, and rows."""
L17_ROWS, ENERGIES = 1000, (0.95, 0.99, 0.999)


@Claim(
    source="linearized-attention study, abstract",
    quote="for natural image datasets this threshold is physically infeasible (m >> 10^24 for MNIST and m >> 10^29 for "
    "CIFAR-10",
    stated="The width that the formula asks for is out of reach on natural images.",
    formula=r"m = \kappa^6\, n \ln n \gg 10^{24},\; 10^{29}",
    verdict=Verdict.UNDEFINED,
    corrected="The arithmetic is right for condition numbers of 1.2e3 and 8.7e3, which other summaries of the study "
    "give. Where the spectrum is cut to get them is not said, and the width depends on nothing else: on digits it runs "
    "over tens of orders of magnitude between usual cuts. That the formula is a requirement is claim L4.",
    condition="Digits in place of the images, which are not embedded; the page on the kernel regime has the cuts of "
    "MNIST and CIFAR-10.",
)
def l17(cases: int) -> Pieces:
    """MNIST asks for a width beyond 10^24 and CIFAR-10 beyond 10^29."""

    def width(X: Tensor, rank: int) -> float:
        return float(published_width(gram_spectrum(X).condition(rank), len(X)).log10_sufficient)

    X = digits(L17_ROWS)
    ranks = {f"{energy:.1%} of the energy": energy_rank(X, energy) for energy in ENERGIES}
    ranks["the rank"] = gram_spectrum(X).rank
    widths = {cut: width(X, rank) for cut, rank in ranks.items()}
    spread = []
    for seed in range(drawn(cases, 5)):
        rows = torch.from_numpy(datasets.unit_rows(datasets.load("digits").sample(L17_ROWS // 2, seed).X))
        spread.append(width(rows, gram_spectrum(rows).rank) - width(rows, energy_rank(rows, ENERGIES[0])))
    name = "from 95 % of the energy to the rank the width grows by ten orders of magnitude or more, samples of digits"
    yield corrected.holds(name, [orders >= 10 for orders in spread])
    yield from (interpretation(f"log10 of the width, 1000 digits cut at {cut}", width) for cut, width in widths.items())
    for name, (kappa, n) in QUOTED.items():
        yield Figure(f"log10 of kappa^6 n ln n, {name}", published_width(kappa, n).log10_sufficient)
    yield plot(
        "directions kept", "width", ranks.values(), log="y",
        solid={"kappa^6 n ln n": [10**w for w in widths.values()]},
        caption="The width asked for is set by where the spectrum is cut.",
    )  # fmt: skip


L18_WIDTHS, PARAMETERS = {"MNIST": (1e24, 784), "CIFAR-10": (1e29, 3072)}, 1e12
"""Published widths and pixels of an image; parameters of the largest models, of order 10^12."""


LARGEST_WIDTH, GPT3_PARAMETERS = 49_152, 1.75e11
"""Of the hidden layers of GPT-3, 4 x 12,288, and the parameters published for it."""


@Claim(
    source="linearized-attention study, abstract",
    quote="12--17 orders of magnitude beyond the largest known architectures",
    stated="No known architecture is within 12 to 17 orders of magnitude of the width that is asked for.",
    formula=r"\log_{10}(m / m_{\text{largest}}) = 12 \dots 17",
    verdict=Verdict.UNDEFINED,
    corrected="12 and 17 divide a width by a number of parameters, about 10^12. Width by width it is 19 to 24 orders, "
    "parameters by parameters 15 to 20. The point that it is out of reach does not depend on it; whether the width is "
    "needed is claim L4.",
    condition="The largest width is that of GPT-3's hidden layers, 49,152.",
    computed="parameters are counted on fixed networks; nothing is drawn",
)
def l18(cases: int) -> Pieces:
    """The width is 12 to 17 orders of magnitude beyond the largest architectures."""
    per_neuron = {}
    for name, (_, pixels) in L18_WIDTHS.items():
        networks = [ReluNetwork(pixels, width, torch_generator(0, "L18")) for width in (8, 64)]
        few, many = (sum(p.numel() for p in network.parameters()) for network in networks)
        per_neuron[name] = (many - few) / (64 - 8)
    layer = torch.nn.TransformerEncoderLayer(12_288, 96, LARGEST_WIDTH, device="meta")  # shapes without memory
    counted = 96 * sum(p.numel() for p in layer.parameters())
    name = "a neuron of the study's network has as many trained weights as an image has pixels"
    yield corrected.holds(name, [per_neuron[data] == pixels for data, (_, pixels) in L18_WIDTHS.items()])
    name = "96 layers of that width have GPT-3's 175 billion parameters within 1 %: they are its layers"
    yield corrected.within(name, [abs(counted / GPT3_PARAMETERS - 1)], 0.01)
    (mnist, _), (cifar, _) = L18_WIDTHS.values()
    yield interpretation("orders of magnitude, MNIST: width over the number of parameters", log10(mnist / PARAMETERS))
    yield interpretation("width over the largest width", log10(mnist / LARGEST_WIDTH))
    yield interpretation("parameters over parameters", log10(mnist * per_neuron["MNIST"] / PARAMETERS))
    yield Figure("CIFAR-10: width over the largest width", log10(cifar / LARGEST_WIDTH))
    yield Figure("CIFAR-10: parameters over parameters", log10(cifar * per_neuron["CIFAR-10"] / PARAMETERS))


SIZE = 12
CONDITIONS = (10.0, 30.0, 100.0, 300.0)


def required_width(rows: Tensor) -> tuple[float, float]:
    """Return the width at which the root mean square of norm_F(K_m - K) is l_min(K)/4, and kappa(K), on these rows.

    E norm_F(K_m - K)^2 = (1/m) sum_ij G_ij^2 p_ij (1 - p_ij), exactly, with K_ij = G_ij p_ij.
    """
    G, K = rows @ rows.T, ReluNTK()(rows)
    variance = float((G * K - K.square()).sum())  # G_ij^2 p_ij (1 - p_ij) = G_ij K_ij - K_ij^2
    values = torch.linalg.eigvalsh(K)
    return 16 * variance / float(values[0]) ** 2, float(values[-1] / values[0])


@Claim(
    source="linearized-attention study, rebuttal",
    quote="The sixth-power dependence in the width bound then arises from the variance terms in the NTK approximation.",
    stated="The kernel has condition number kappa^3, and the variance of its entries squares that in the width.",
    formula=r"m \propto \kappa(K)^2 = (\kappa(G)^3)^2 = \kappa(G)^6",
    verdict=Verdict.AMENDED,
    corrected="The variance does square the kernel's own condition number, under the additive criterion. But the "
    "kernel of a ReLU network on attention features is not G^3, and its condition number is far below kappa(G)^3; with "
    "identity activation the kernel is G^3 and has no variance at all (L5). There is no network for which both steps "
    "hold.",
    corrected_formula=r"m \approx \frac{16\sum_{ij}(G_{ij}K_{ij}-K_{ij}^2)}{\lambda_{\min}(K)^2} \propto \kappa(K)^2, "
    r"\qquad \kappa(K) \ll \kappa(G)^3",
    condition="Additive criterion. Measured on square synthetic rows with condition numbers from 10 to 300.",
)
def l25(cases: int) -> Pieces:
    """The variance of the kernel makes the cube a sixth power."""
    by_gram, by_kernel, every = [], [], []
    for seed in range(drawn(cases, 5)):
        rows = [synthetic_rows(SIZE, SIZE, condition_number=kappa, seed=seed) for kappa in CONDITIONS]
        widths, kappas = zip(*(required_width(attention_features(X)) for X in rows), strict=True)
        by_gram.append(float(np.polyfit(np.log(CONDITIONS), np.log(widths), 1)[0]))
        by_kernel.append(float(np.polyfit(np.log(kappas), np.log(widths), 1)[0]))
        every.append(widths)
    power = "the width of the additive criterion grows as twice a power of the condition number"
    yield stated.within("it is kappa(G)^6, to 0.5 in the power", [abs(p - 6) for p in by_gram], 0.5, power)
    yield corrected.within("it is kappa(K)^2, to 0.5 in the power", [abs(p - 2) for p in by_kernel], 0.5, power)
    yield Figure("largest power of kappa(G) that was fitted", max(by_gram))
    yield Figure("smallest", min(by_gram))
    yield Figure("largest power of kappa(K)", max(by_kernel))
    yield Figure("smallest", min(by_kernel))
    yield plot(
        "condition number of G", "width", CONDITIONS, log="xy", solid={"width of the additive criterion": every[0]},
        dashed={"kappa(G)^6": lambda k: every[0][0] * (k / CONDITIONS[0]) ** 6},
        caption="A ReLU network's kernel is far better conditioned than G^3.",
    )  # fmt: skip
