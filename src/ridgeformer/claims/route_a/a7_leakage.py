"""A7: do the masks keep queries from reaching the supports?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, ConjugateGradients, Richardson
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP, HeadWeights
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Kernel
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, Mask, Tokens, reads

SUPPORTS, FEATURES, QUERIES, STEPS, WIDTH = 6, 3, 2, 3, 5
NETWORKS = (
    (DotProduct(), ConjugateGradients(steps=STEPS), "linear"),
    (DotProduct(), ConjugateGradients(steps=STEPS, preconditioner="jacobi"), "linear"),
    (Exponential(1.0), ConjugateGradients(steps=STEPS), "softmax"),
    (Exponential(1.0), Richardson(steps=STEPS), "softmax"),
    (Exponential(1.0), Richardson(steps=STEPS), "vanilla"),
)
OURS = reads((SUPPORT, AGGREGATOR, QUERY), (SUPPORT, AGGREGATOR))
PUBLISHED = Mask(OURS.rules + reads((AGGREGATOR,), (QUERY,)).rules)
"""The readout mask published with the theory: the aggregator may read the queries too."""


def _jacobians(kernel: Kernel, algorithm: Algorithm, attention: str, task: int) -> tuple[float, float]:
    """Return the largest derivative by a query's features of any other row at the end, and of the predictions."""
    X, y, Xq = unit_task(SUPPORTS, FEATURES, QUERIES, "A7", task)
    model = compile(kernel, algorithm, features=FEATURES, ridge=0.5, attention=attention)
    tokens = model.tokens(SUPPORTS, QUERIES)
    assert tokens.rows(QUERY).stop == tokens.total

    def end(Xq: Tensor) -> tuple[Tensor, Tensor]:
        streams: list[Tensor] = []

        def keep(place: str, sublayer: AttentionSublayer | GatedMLP, before: Tensor, after: Tensor) -> None:
            streams.append(after)

        trace = model.run_with_hook(keep, X, y, Xq)
        return streams[-1][: tokens.rows(QUERY).start], trace.f[-1]

    others, predictions = torch.autograd.functional.jacobian(end, Xq)
    return float(others.abs().max()), float(predictions.abs().max())


def _leak(mask: Mask, layers: int) -> float:
    """Return the largest derivative of a support row by a query row, through random softmax layers with this mask."""
    tokens = Tokens({SUPPORT: SUPPORTS, AGGREGATOR: 1, QUERY: QUERIES})
    generator = torch_generator(0, "A7", "readout")

    def weight() -> Tensor:
        return torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64) / WIDTH**0.5

    network = [
        AttentionSublayer("readout", "", [HeadWeights("head", weight(), weight(), weight(), weight(), mask, "softmax")])
        for _ in range(layers)
    ]
    start = torch.randn(tokens.total, WIDTH, generator=generator, dtype=torch.float64)

    def supports(queries: Tensor) -> Tensor:
        stream = torch.cat([start[:-QUERIES], queries])
        for layer in network:
            stream = layer(stream, tokens)
        return stream[tokens.rows(SUPPORT)]

    jacobian: Tensor = torch.autograd.functional.jacobian(supports, start[-QUERIES:])
    return float(jacobian.abs().max())


def check(cases: int) -> Evidence:
    """Differentiate compiled networks, and a readout with the published mask, by their queries."""
    found = [
        _jacobians(kernel, algorithm, attention, task)
        for kernel, algorithm, attention in NETWORKS
        for task in range(drawn(cases, 1))
    ]
    one, two, ours = _leak(PUBLISHED, 1), _leak(PUBLISHED, 2), _leak(OURS, 2)
    figures = (
        Figure("largest derivative of a support, anchor or aggregator by a query", max(leak for leak, _ in found)),
        Figure("least derivative of a prediction by its query, over the networks", min(own for _, own in found)),
        Figure("published readout mask: derivative of a support by a query, one layer", one),
        Figure("the same with two layers", two),
        Figure("our mask with two layers", ours),
    )
    return Evidence(
        stated=(
            Trial(
                "no derivative of another row by a query is other than 0.0", len(found), sum(a != 0 for a, _ in found)
            ),
        ),
        corrected=(
            Trial("the predictions do depend on the queries", len(found), sum(own == 0 for _, own in found)),
            Trial("the published readout mask leaks with two layers", 1, int(two == 0)),
            Trial("not with one, and ours does not with two", 2, int(one != 0) + int(ours != 0)),
        ),
        figures=figures,
    )


A7 = Claim(
    id="A7",
    source="softmax-route note, assumptions",
    origin=Origin.QUOTED,
    quote="The implementation uses causal masks to prevent query->support leakage during compute.",
    title="Masks keep queries from leaking into the supports",
    stated="The construction uses masks that prevent any flow from a query to the supports. Whether a causal mask does "
    "is claim A9.",
    formula=r"\frac{\partial\,(\text{support, aggregator rows})}{\partial\,\phi(x)} = 0",
    verdict=Verdict.TRUE,
    corrected="Exactly zero in the compiled networks, whose supports and aggregator never read a query. A readout in "
    "which the aggregator reads the query leaks from the second layer on.",
    corrected_formula=r"\text{query} \to \text{aggregator} \to \text{support takes two layers}",
    condition="No support and no aggregator reads a query, in any sublayer.",
    check=check,
)
