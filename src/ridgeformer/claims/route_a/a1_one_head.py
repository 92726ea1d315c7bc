"""A1: does one block with one softmax head do kernel ridge regression?"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients
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
from ridgeformer.claims.trials import within
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

NEAR, THIRD, QUERY, RIDGE = [[0.0], [1.0]], [1.1], [[0.6]], 0.1
Array = NDArray[np.float64]
KERNEL = Exponential(temperature=1.0)
RIDGE_WEIGHTS = "one block with one head has the weights of ridge regression"


def _head(supports: list[list[float]]) -> Tensor:
    """Return the weights a compiled one-head network puts on the supports: its answer to unit targets."""
    k = len(supports)
    model = compile(Exponential(1.0), "nadaraya_watson", features=1, ridge=RIDGE, outputs=k)
    return model(supports, torch.eye(k, dtype=torch.float64), QUERY)[0]


def _deep(supports: list[list[float]]) -> Tensor:
    """Return the same of a compiled deep network, one step of conjugate gradients for each support and some more."""
    k = len(supports)
    model = compile(Exponential(1.0), ConjugateGradients(steps=k + 3), features=1, ridge=RIDGE, outputs=k)
    return model(supports, torch.eye(k, dtype=torch.float64), QUERY)[0]


def _ridge(supports: list[list[float]]) -> Tensor:
    """Return the weights of ridge regression."""
    targets = torch.eye(len(supports), dtype=torch.float64)
    return solve(KERNEL, supports, targets, RIDGE).predict(QUERY)[0]


def _ratio(weights: Tensor) -> float:
    return float(weights[0] / weights[1])


def token_wise(answer: Array, k: int) -> float:
    """Return the ridge prediction from one head's answer, the moments sum_j w_j x_j^i and sum_j w_j x_j^i y_j.

    Prony's method finds the k supports from 2k moments: they are the roots of a polynomial whose coefficients solve a
    Hankel system. Two Vandermonde systems give w_j and w_j y_j.
    """
    moments, mixed = answer[: 2 * k], answer[2 * k :]
    hankel = np.array([moments[i : i + k] for i in range(k)])
    nodes = np.roots([1.0, *np.linalg.solve(hankel, -moments[k:])[::-1]]).real
    powers = np.vander(nodes, k, increasing=True).T
    targets = np.linalg.solve(powers, mixed) / np.linalg.solve(powers, moments[:k])
    return float(solve(KERNEL, nodes[:, None], targets, RIDGE).predict(QUERY)[0])


def _prony_errors(supports: list[list[float]], draws: int) -> list[float]:
    """Return how far a head whose values carry powers is from ridge regression, for random targets."""
    k, x = len(supports), torch.tensor(supports, dtype=torch.float64)[:, 0]
    model = compile(Exponential(1.0), "nadaraya_watson", features=1, ridge=RIDGE, outputs=3 * k)
    weights, found = _ridge(supports), []
    for y in torch.randn(draws, k, generator=torch_generator(0, "A1", "targets"), dtype=torch.float64):
        values = torch.stack([*(x**i for i in range(2 * k)), *(x**i * y for i in range(k))], dim=1)
        answer = model(supports, values, QUERY)[0].numpy()
        found.append(abs(token_wise(answer, k) - float(weights @ y)))
    return found


def _unmoved(draws: int) -> Trial:
    """Try whether a third support leaves the ratio of the first two ridge weights alone, as it does in a head."""
    places = 2 * torch.rand(draws, generator=torch_generator(0, "A1", "third"), dtype=torch.float64) - 0.5
    alone = _ratio(_ridge(NEAR))
    moved = [abs(_ratio(_ridge([*NEAR, [float(x)]])) - alone) > 1e-6 * abs(alone) for x in places]
    return Trial("a third support does not move the ratio of the first two ridge weights", draws, sum(moved))


def check(cases: int) -> Evidence:
    """Read the weights off networks with and without a third support, and compare with ridge regression."""
    few, more = NEAR, [*NEAR, THIRD]
    head, ridge = (_head(few), _head(more)), (_ridge(few), _ridge(more))
    gaps = [float((a - b).abs().max()) for a, b in zip(head, ridge, strict=True)]
    same = abs(_ratio(head[1]) / _ratio(head[0]) - 1)
    deep = [float((_deep(s) - w).abs().max()) for s, w in zip((few, more), ridge, strict=True)]
    prony = {len(s): _prony_errors(s, drawn(cases, 20)) for s in (few, more)}
    figures = (
        Figure("ridge: ratio of the first two weights, three supports", _ratio(ridge[1]), shown="1.2986"),
        Figure("ridge: the same with two supports", _ratio(ridge[0]), shown="0.9919"),
        Figure("one head: the ratio with three supports", _ratio(head[1]), shown="0.5488"),
        Figure("one head: the same with two supports", _ratio(head[0]), shown="0.5488"),
        Figure("largest weight error of the deep network", max(deep)),
        *(Figure(f"one head that carries powers of x: largest error, {k} supports", max(e)) for k, e in prony.items()),
    )
    return Evidence(
        stated=concluding(
            RIDGE_WEIGHTS,
            Trial(
                "a head whose values are the targets has ridge regression's weights, to 1e-6",
                2,
                sum(g > 1e-6 for g in gaps),
            ),
            _unmoved(drawn(cases, 200)),
        ),
        corrected=(
            *concluding(
                RIDGE_WEIGHTS,
                within("a head whose values carry powers of x predicts the same, two supports", prony[2], 1e-14),
                within("the same, three supports", prony[3], 1e-11),
            ),
            Trial("a head's ratio is the same whatever else it reads, to 1e-12", 1, int(same > 1e-12)),
            Trial("the deep network has the weights of ridge regression, to 1e-9", 2, sum(g > 1e-9 for g in deep)),
        ),
        figures=figures,
        plot=_plot(),
    )


def _plot() -> Plot:
    places = tuple(float(x) for x in torch.linspace(-0.5, 2.0, 26))
    ridge = tuple(_ratio(_ridge([*NEAR, [x]])) for x in places)
    head = tuple(_ratio(_head([*NEAR, [x]])) for x in places)
    return Plot(
        (Curve("ridge regression", places, ridge), Curve("one softmax head", places, head)),
        "place of the third support", "first weight / second weight",
        "The head does not notice the third support; ridge regression shares the second one's weight with it.",
    )  # fmt: skip


A1 = Claim(
    id="A1",
    source="theoretical analysis, theorem 1",
    origin=Origin.QUOTED,
    quote="A Transformer block with a single softmax attention head (queries Q=U Phi, keys K=U Phi) and an aggregator "
    "token can implement the prediction function f(x) = k~(x)^T (K~ + lambda I)^-1 y",
    title="One block with one softmax head does kernel ridge regression",
    stated="A transformer block with a single softmax head and an aggregator token computes the ridge prediction with "
    "the exponential kernel.",
    formula=r"f(x) = \tilde k(x)^\top(\tilde K+\lambda I)^{-1}y, \quad "
    r"\tilde K_{ij}=\exp(\tfrac1\tau\langle U\phi_i,U\phi_j\rangle)",
    verdict=Verdict.AMENDED,
    corrected="Not if the head's values carry the targets alone, or if what follows it is linear: the ratio of its "
    "weights on two supports depends on these two alone, and in ridge regression a third support changes it. If"
    " the values also carry powers x^i and x^i y, 3k numbers, and the token-wise map that follows may be any "
    "function, one head does it: Prony's method recovers supports and targets from the moments, exactly for two"
    " supports of this example and to 1e-11 for three. That map is badly conditioned for more. What is "
    "practical is depth, one step of an iteration a block.",
    corrected_formula=r"\frac{w_1}{w_2}\Big|_{\text{head}} = e^{S_1-S_2} \quad\text{whatever else is read};\qquad "
    r"w_{\text{ridge}} = (\tilde K+\lambda I)^{-1}\tilde k(x)",
    condition="Restriction: values carry the targets alone, or the readout is linear, and there are more than two "
    "supports. Prony's method was run on scalar features. Depth one step of conjugate gradients a support is always "
    "enough.",
    check=check,
    counterexample=Counterexample(
        {"supports": [0.0, 1.0, 1.1], "query": 0.6, "ridge": 0.1, "temperature": 1.0},
        "k(x) = (e^0, e^0.6, e^0.66), so a head has w_1/w_2 = e^-0.6 = 0.5488 with or without the third. Ridge "
        "regression with the first two: (1.1, 1; 1, e + 0.1) w = (1, e^0.6) gives w_1/w_2 = "
        "(e + 0.1 - e^0.6)/(1.1 e^0.6 - 1) = 0.9919; with all three, 1.2986.",
    ),
)
