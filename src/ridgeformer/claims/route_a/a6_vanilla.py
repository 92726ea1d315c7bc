"""A6: can the normalisation of softmax be folded into the values?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ridgeformer import compiler
from ridgeformer.algorithms import Richardson
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict
from ridgeformer.claims.matrices import Numbers
from ridgeformer.claims.search import Inequality, search, try_to_break
from ridgeformer.claims.tasks import unit_task
from ridgeformer.compiler.compile import compile
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

SIZE, SUPPORTS, QUERIES, STEPS, DEEP = 4, 12, 4, 200, 2000
RIDGE, TEMPERATURE = 0.3, 0.5
SINKS = (math.log(RIDGE), 0.0, 2.0)
"""Logits c of the anchors, from e^c = l on."""


def _step(take: Numbers, anchor: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the D-norm of an error after a step, and what the rate allows, for e^c = `anchor`."""
    X = 1.5 * torch.tanh(take.matrix(SIZE, 2))
    K = (X @ X.mT).exp()
    D = K.sum(-1) + anchor[:, None]
    error = take.vector(SIZE)
    moved = error - ((K @ error[..., None])[..., 0] + ridge[:, None] * error) / D
    rate = 1 - ridge / D.amax(-1)
    return (D * moved.square()).sum(-1).sqrt(), rate * (D * error.square()).sum(-1).sqrt()


def _rate(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    ridge = take.positive()
    return _step(take, ridge * (1 + take.positive()), ridge)


def _below(theta: Tensor) -> tuple[Tensor, Tensor]:
    take = Numbers(theta)
    ridge = take.positive()
    return _step(take, ridge * take.between(0.0, 0.5), ridge)


FREE = 3 * SIZE + 2
RATE = Inequality("A6 rate", FREE, _rate, "a step leaves at most 1 - l/(e^c + Z_max) of the D-norm error, e^c >= l")
BELOW = Inequality("A6 below", FREE, _below, "the same for e^c < l/2, where nothing promises it")


def check(cases: int) -> Evidence:
    """Run attention-only networks against the direct solution and their rate, and search for a violation."""
    X, y, Xq = unit_task(SUPPORTS, 3, QUERIES, "A6")
    kernel = Exponential(TEMPERATURE)
    exact = solve(kernel, X, y, RIDGE)
    runs = [_run(sink, X, y, Xq, exact.alpha) for sink in SINKS]
    measured = [(error, bound) for errors, rate in runs for error, bound in zip(errors, _powers(rate), strict=True)]
    model = _network(SINKS[0], DEEP)
    answer, wanted = model(X, y, Xq), exact.predict(Xq)
    distance = float((answer - wanted).norm() / wanted.norm())
    extra = model.budget.gated_per_step + len(model.budget.beyond_stock)
    figures = (
        Figure("distance from ridge regression after 2000 layers", distance),
        Figure("sublayers a step", float(model.budget.attention_per_step)),
        Figure("gated sublayers, and parts that a stock transformer does not have", float(extra)),
        Figure("rate allowed at e^c = l", runs[0][1]),
        Figure("largest ratio found for e^c < l/2", search(BELOW, cases).ratio),
    )
    violations = sum(error > bound * (1 + 1e-9) + 1e-13 for error, bound in measured)
    return Evidence(
        stated=(
            Trial("softmax attention alone reaches ridge regression, to 1e-6", 1, int(not distance <= 1e-6)),
            Trial("it has nothing but softmax attention", 1, int(extra > 0)),
        ),
        corrected=(
            Trial("compiled networks keep the rate at every step, to 1e-13", len(measured), violations),
            try_to_break(RATE, cases),
        ),
        figures=figures,
        plot=_plot(*runs[0]),
    )


def _network(sink: float, steps: int) -> compiler.CompiledTransformer:
    kernel, algorithm = Exponential(TEMPERATURE), Richardson(steps=steps)
    return compile(kernel, algorithm, attention="vanilla", features=3, ridge=RIDGE, sink=sink)


def _run(sink: float, X: Tensor, y: Tensor, Xq: Tensor, exact: Tensor) -> tuple[list[float], float]:
    """Return the relative D-norm error after every step of a network, and the rate it should keep."""
    D = Exponential(TEMPERATURE)(X).sum(1) + math.exp(sink)
    alpha = _network(sink, STEPS).trace(X, y, Xq).alpha[..., 0]

    def d_norm(v: Tensor) -> Tensor:
        return (D * v.square()).sum(-1).sqrt()

    return (d_norm(alpha - exact) / d_norm(exact)).tolist(), 1 - RIDGE / float(D.max())


def _powers(rate: float) -> list[float]:
    return [rate**t for t in range(1, STEPS + 1)]


def _plot(errors: list[float], rate: float) -> Plot:
    steps = tuple(float(t) for t in range(1, STEPS + 1))
    return Plot(
        (
            Curve("attention-only network, e^c = l", steps, tuple(errors)),
            Curve("(1 - l/(e^c + Z_max))^t", steps, tuple(_powers(rate)), dashed=True),
        ),
        "layers", "relative D-norm error", "Slow, but without a step size, a product or a division.", log_y=True,
    )  # fmt: skip


A6 = Claim(
    id="A6",
    source="softmax-route note, strategy 1",
    origin=Origin.QUOTED,
    quote="Work in the exponential-kernel space directly, interpreting softmax weights as normalized kernel smoother "
    "and folding normalization into value channels and aggregator reductions",
    title="The normalisation of softmax can be folded into the values",
    stated="One may work with the normalised weights directly and fold the normalisation into value channels.",
    formula=r"\alpha \leftarrow \alpha - D^{-1}\big[(\tilde K+\lambda I)\alpha - y\big], \quad "
    r"D = \mathrm{diag}(Z + e^c)",
    verdict=Verdict.TRUE,
    corrected="Exactly so: with an anchor of logit c beside every support, softmax attention alone is gradient descent "
    "preconditioned by D. It needs no step size and has a rate.",
    corrected_formula=r"\|\alpha_{t+1}-\alpha^*\|_D \le "
    r"\Big(1-\frac{\lambda}{e^c+Z_{\max}}\Big)\|\alpha_t-\alpha^*\|_D",
    condition="e^c >= l: D - A is then a graph Laplacian plus (e^c - l) I, so no eigenvalue of D^-1 A exceeds 1.",
    check=check,
)
