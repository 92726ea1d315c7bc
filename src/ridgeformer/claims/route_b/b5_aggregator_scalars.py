"""B5: are the scalars of conjugate gradients computed via an aggregator token?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Trial, Verdict
from ridgeformer.claims.tasks import unit_task
from ridgeformer.claims.trials import within
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.sublayers import AttentionSublayer, HeadWeights
from ridgeformer.kernels import DotProduct
from ridgeformer.language.roles import AGGREGATOR, SUPPORT, Mask, Tokens, reads

SUPPORTS, FEATURES, STEPS, RIDGE = 10, 6, 4, 0.5
CHANNELS = ("one", "left", "right", "product")


def _head(query: str, key: str, value: str, mask: Mask) -> HeadWeights:
    """Return a head of linear attention that reads single channels and writes into `product`."""

    def pick(channel: str) -> Tensor:
        column = torch.zeros(len(CHANNELS), 1, dtype=torch.float64)
        column[CHANNELS.index(channel)] = 1.0
        return column

    return HeadWeights("head", pick(query), pick(key), pick(value), pick("product").T, mask, "linear")


GATHER = AttentionSublayer("gather", "", [_head("one", "left", "right", reads((AGGREGATOR,), (SUPPORT,)))])
BROADCAST = AttentionSublayer("broadcast", "", [_head("one", "one", "product", reads((SUPPORT,), (AGGREGATOR,)))])


def inner_product(left: Tensor, right: Tensor) -> Tensor:
    """Return left'right as every support has it after an aggregator token has gathered and broadcast it."""
    tokens = Tokens({SUPPORT: len(left), AGGREGATOR: 1})
    stream = torch.zeros(tokens.total, len(CHANNELS), dtype=torch.float64)
    stream[:, 0] = 1.0
    stream[:-1, 1], stream[:-1, 2] = left, right
    with torch.no_grad():
        return BROADCAST(GATHER(stream, tokens), tokens)[tokens.rows(SUPPORT), CHANNELS.index("product")]


def _errors(task: int) -> tuple[list[float], list[float]]:
    """Return relative errors of gamma and beta over the steps: by an aggregator, and in the compiled network."""
    X, y, Xq = unit_task(SUPPORTS, FEATURES, 1, "B5", task)
    A = X @ X.T + RIDGE * torch.eye(SUPPORTS, dtype=torch.float64)
    network = compile(DotProduct(), ConjugateGradients(steps=STEPS), features=FEATURES, ridge=RIDGE).trace(X, y, Xq)
    r, p = y, y
    aggregated, compiled = [], []
    for step in range(STEPS):
        u = A @ p
        gamma, new = r @ r / (p @ u), r - r @ r / (p @ u) * u
        beta = new @ new / (r @ r)
        aggregated += [
            float((inner_product(r, r) / inner_product(p, u) / gamma - 1).abs().max()),
            float((inner_product(new, new) / inner_product(r, r) / beta - 1).abs().max()),
        ]
        compiled.append(float((network.gamma[step].flatten() / gamma - 1).abs().max()))
        r, p = new, new + beta * p
    return aggregated, compiled


def check(cases: int) -> Evidence:
    """Gather and broadcast every inner product of a run, and compare with networks that have no aggregator."""
    found = [_errors(task) for task in range(drawn(cases, 5))]
    aggregated, compiled = ([error for one in found for error in one[which]] for which in (0, 1))
    model = compile(DotProduct(), ConjugateGradients(steps=STEPS), features=FEATURES, ridge=RIDGE)
    return Evidence(
        stated=(within("gathered, divided and broadcast, gamma and beta are those of CG", aggregated, 1e-12),),
        corrected=(
            within("compiled linear attention has the same gamma on every token", compiled, 1e-9),
            Trial("and no aggregator token", 1, int(AGGREGATOR in model.tokens(SUPPORTS, 1).counts)),
        ),
        figures=(
            Figure("largest relative error via an aggregator token", max(aggregated)),
            Figure("largest relative error in the compiled network, which has none", max(compiled)),
        ),
    )


B5 = Claim(
    id="B5",
    source="theoretical analysis, lemma 3",
    origin=Origin.QUOTED,
    quote="The scalar coefficients gamma_t, beta_t are computed via the aggregator token, and the matrix-vector "
    "product Ap_t is computed via the attention mechanism.",
    title="An aggregator token computes the scalars of conjugate gradients",
    stated="One token gathers the inner products of a step from the supports and broadcasts the quotients.",
    formula=r"\gamma_t = \frac{r_t^\top r_t}{p_t^\top A p_t}, \qquad "
    r"\beta_t = \frac{r_{t+1}^\top r_{t+1}}{r_t^\top r_t}",
    verdict=Verdict.TRUE,
    corrected="It can, with one attention sublayer to gather and one to broadcast. The compiled networks need no such "
    "token: every token reads the supports and has its own copy of the scalar, which saves the broadcast.",
    condition="Linear attention and a division at the token that holds the scalar.",
    check=check,
)
