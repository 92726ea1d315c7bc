"""A9: is a causal mask the right mask?"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Counterexample, Evidence, Figure, Origin, Trial, Verdict, concluding
from ridgeformer.claims.tasks import unit_task
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

SUPPORTS, QUERIES, FEATURES, RIDGE, LAYERS = 6, 2, 3, 0.5, 400
KERNEL = Exponential(1.0)
SOLVES = "the network computes ridge regression"


def masked_descent(X: Tensor, y: Tensor, Xq: Tensor, mask: Tensor, layers: int) -> tuple[Tensor, Tensor]:
    """Return alpha and predictions of gradient-descent layers whose kernel products run through a mask.

    Rows and columns are the supports and then the queries. A query holds coefficient 0 and target 0, as in the
    compiled networks, and what it reads is its prediction.
    """
    rows = torch.cat([X, Xq])
    K = KERNEL(rows) * mask
    is_support = torch.cat([torch.ones(len(X)), torch.zeros(len(Xq))]).to(X)
    targets = torch.cat([y, torch.zeros(len(Xq), dtype=X.dtype)])
    step = 1 / (float(torch.linalg.matrix_norm(KERNEL(X), 2)) + RIDGE)
    alpha = torch.zeros_like(targets)
    for _ in range(layers):
        alpha = alpha + step * is_support * (targets - K @ alpha - RIDGE * alpha)
    return alpha[: len(X)], (K @ alpha)[len(X) :]


def masks() -> dict[str, Tensor]:
    """Return who reads whom: causal, and supports that read all supports while queries read supports only."""
    total = SUPPORTS + QUERIES
    block = torch.zeros(total, total, dtype=torch.float64)
    block[:, :SUPPORTS] = 1.0
    return {"causal": torch.ones(total, total, dtype=torch.float64).tril(), "block": block}


def _leak(task: int, mask: Tensor) -> float:
    """Return the largest derivative of a support's coefficient by a query's features."""
    X, y, Xq = unit_task(SUPPORTS, FEATURES, QUERIES, "A9", task)
    found = torch.autograd.functional.jacobian(lambda moved: masked_descent(X, y, moved, mask, 5)[0], Xq)
    return float(found.abs().max())


def _error(task: int, mask: Tensor) -> float:
    """Return the relative distance of the predictions from ridge regression's."""
    X, y, Xq = unit_task(SUPPORTS, FEATURES, QUERIES, "A9", task)
    exact = solve(KERNEL, X, y, RIDGE).predict(Xq)
    return float((masked_descent(X, y, Xq, mask, LAYERS)[1] - exact).norm() / exact.norm())


def check(cases: int) -> Evidence:
    """Run gradient-descent layers under a causal mask and under a mask by roles: leakage, and what they compute."""
    tasks, who = range(drawn(cases, 10)), masks()
    leaks = {name: [_leak(task, mask) for task in tasks] for name, mask in who.items()}
    errors = {name: [_error(task, mask) for task in tasks] for name, mask in who.items()}
    wrong = {name: sum(error > 1e-6 for error in found) for name, found in errors.items()}
    return Evidence(
        stated=(
            Trial(
                "under a causal mask no support depends on a query",
                len(tasks),
                sum(leak != 0 for leak in leaks["causal"]),
            ),
            *concluding(
                SOLVES,
                Trial("under a causal mask the layers reach ridge regression, to 1e-6", len(tasks), wrong["causal"]),
            ),
        ),
        corrected=(
            *concluding(SOLVES, Trial("where supports read all supports they do", len(tasks), wrong["block"])),
            Trial("and no support depends on a query", len(tasks), sum(leak != 0 for leak in leaks["block"])),
        ),
        figures=(
            Figure("least relative error under a causal mask", min(errors["causal"])),
            Figure("largest relative error under a mask by roles", max(errors["block"])),
        ),
    )


A9 = Claim(
    id="A9",
    source="softmax-route note, assumptions",
    origin=Origin.QUOTED,
    quote="The implementation uses causal masks to prevent query->support leakage during compute.",
    title="A causal mask keeps queries from the supports, and the network computes ridge regression",
    stated="With causal masks no query reaches a support, and the layers solve the ridge problem.",
    formula=r"\tilde K \circ \mathrm{tril} \text{ in place of } \tilde K",
    verdict=Verdict.AMENDED,
    corrected="A causal mask keeps queries that come last from the supports. It also keeps every support from the "
    "supports after it, so the layers solve (tril(K) + l I) alpha = y, which is not ridge regression. The "
    "mask must go by roles: supports read all supports, queries read the supports.",
    corrected_formula=r"(\mathrm{tril}(\tilde K) + \lambda I)\,\alpha = y \;\neq\; (\tilde K + \lambda I)\,\alpha = y",
    condition="Supports before queries in the sequence. A causal mask also lets a query read the queries before it.",
    check=check,
    counterexample=Counterexample(
        {"K": [[2.0, 1.0], [1.0, 2.0]], "ridge": 1.0, "y": [1.0, 0.0]},
        "(K + I) alpha = y gives alpha = (3/8, -1/8). Under a causal mask [[3, 0], [1, 3]] alpha = y gives "
        "(1/3, -1/9).",
    ),
)
