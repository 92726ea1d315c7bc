"""Learners that run none of the candidates of `identify`: nulls, mixtures and algorithms that are not listed.

The kinds under "calibration" were looked at while the thresholds of the protocol were set. Those under "held out" were
written down afterwards and are only reported on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp

import numpy as np
import torch
from sklearn.tree import DecisionTreeRegressor
from torch import Tensor

from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.studies.unlisted_algorithms import (
    Model,
    adam,
    barzilai_borwein,
    conjugate_residuals,
    descent,
    elastic_net,
    fixed_polynomial,
    forgetting,
    partial_least_squares,
    passes,
    principal,
    reweighted,
    ridge,
    rmsprop,
    scaled_penalty,
    sweeps,
    theil_sen,
    times,
)

__all__ = ["KINDS", "Null", "make_null"]

KINDS: dict[str, tuple[str, ...]] = {
    "calibration": (
        "untrained linear network", "untrained softmax network", "shuffled ridge", "shuffled conjugate gradients",
        "ridge times 0.8", "ridge times 1.25", "tanh of ridge", "clipped ridge", "squared predictions",
        "ridge on half of the supports", "mixture of ridge and kernel average", "mixture of ridge and neighbours",
        "mixture of conjugate gradients and descent", "unlisted heavy ball", "unlisted nesterov", "unlisted chebyshev",
        "unlisted jacobi_pcg", "sign descent", "Adam", "Gauss-Seidel", "Huber regression", "local linear regression",
    ),
    "held out": (
        "ridge with quantised outputs", "ridge on a random subset", "ridge on clipped labels", "median of ridges",
        "least absolute deviations", "Theil-Sen", "random-feature regression", "decision tree",
        "averaged descent iterates", "descent with growing momentum", "one pass with falling steps",
        "Kaczmarz, two passes", "sketch and solve", "partial least squares with an intercept",
        "principal components by variance", "RMSProp", "conjugate residuals", "Barzilai-Borwein steps",
        "damped Jacobi iteration", "ridge with a penalty by feature", "ridge with a penalty by trace",
        "recursive least squares that forgets", "elastic net", "ridge with a quadratic kernel",
        "neighbours by distance", "ridge with permuted queries", "ridge plus the length of the query",
        "untrained recurrent network", "mixture of ridge and mean", "mixture of descent and ridge",
        "mixture of kernel average and neighbours",
    ),
    "relatives": ("unlisted heavy ball", "unlisted jacobi_pcg", "unlisted nesterov", "unlisted chebyshev"),
}  # fmt: skip
"""Kinds by what they are for; "relatives" repeats four of the calibration on new seeds."""

POLYNOMIALS = ("heavy_ball", "nesterov", "chebyshev")
"""Left out where a fixed-coefficient method is to be unlisted; then only its class may be named."""


@dataclass(frozen=True)
class Null:
    """A learner, the families to leave out for it, and the candidates that are right by definition all the same."""

    model: Model
    without: tuple[str, ...] = ()
    right: frozenset[str] = frozenset()


def _average(temperature: float) -> Model:
    return lambda X, y, Xq: times(torch.softmax(Xq @ X.mT / temperature, -1), y)


def _mean(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
    return y.mean(1, keepdim=True).expand(Xq.shape[:2])


def _by_distance(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
    weights = 1 / torch.cdist(Xq, X).square().clamp_min(1e-9)
    return times(weights / weights.sum(-1, keepdim=True), y)


def _curved(inner: Model, curve: Callable[[Tensor], Tensor]) -> Model:
    return lambda X, y, Xq: curve(inner(X, y, Xq))


def _mixture(first: Model, second: Model, share: float) -> Model:
    """Return a mixture of two models, the second scaled to the size of the first."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        a, b = first(X, y, Xq), second(X, y, Xq)
        return share * a + (1 - share) * b * (a.square().mean() / b.square().mean()).sqrt()

    return model


def _order(y: Tensor, seed: int) -> Tensor:
    return torch.rand(y.shape, generator=torch_generator(seed, "null order")).argsort(1)


def _shuffled(inner: Model, seed: int) -> Model:
    return lambda X, y, Xq: inner(X, y.gather(1, _order(y, seed)), Xq)


def _subset(inner: Model, seed: int) -> Model:
    """Return the model on a random 70 % of the supports, others in every task."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        kept = _order(y, seed)[:, : max(2, round(0.7 * y.shape[1]))]
        return inner(X.gather(1, kept[..., None].expand(-1, -1, X.shape[-1])), y.gather(1, kept), Xq)

    return model


def _median(inner: Model) -> Model:
    """Return the median over three interleaved thirds of the supports."""
    return lambda X, y, Xq: torch.stack([inner(X[:, i::3], y[:, i::3], Xq) for i in range(3)]).median(0).values


def _sketch(inner: Model, seed: int) -> Model:
    """Return the model on a Gaussian sketch of the supports, two thirds as many."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        k = X.shape[1]
        m = max(2, round(2 * k / 3))
        S = torch.randn(m, k, generator=torch_generator(seed, "sketch", k), dtype=X.dtype) / m**0.5
        return inner(S @ X, times(S, y), Xq)

    return model


def _network(linear: bool, features: int, seed: int, layers: int = 2) -> Model:
    """Return an untrained transformer on tokens (x, y) with the query last: linear or softmax attention, and an MLP."""
    width, heads = 4 * (features + 1), 2
    normal = _normals(torch_generator(seed, "untrained network"))
    embed, read = normal(features + 1, width), normal(width, 1)
    blocks = [[normal(width, width) for _ in range(4 * heads + 2)] for _ in range(layers)]

    def run(tokens: Tensor) -> Tensor:
        h = tokens @ embed
        for block in blocks:
            for head in range(heads):
                Q, K, V, out = block[4 * head : 4 * head + 4]
                scores = (h @ Q) @ (h @ K).mT / width**0.5
                weights = scores / h.shape[-2] if linear else torch.softmax(scores, -1)
                h = h + weights @ (h @ V) @ out
            if not linear:
                h = h + torch.relu(h @ block[-2]) @ block[-1]
                h = h / h.square().mean(-1, keepdim=True).sqrt()
        return (h[:, -1] @ read)[:, 0]

    return _query_last(run)


def _recurrent(features: int, seed: int) -> Model:
    """Return an untrained recurrent network that reads tokens (x, y) one by one and the query last."""
    width = 6 * (features + 1)
    normal = _normals(torch_generator(seed, "untrained recurrent network"))
    read_in, around, read_out = normal(features + 1, width), normal(width, width), normal(width, 1)

    def run(tokens: Tensor) -> Tensor:
        h = tokens.new_zeros(len(tokens), width)
        for token in tokens.unbind(1):
            h = torch.tanh(h @ around + token @ read_in)
        return (h @ read_out)[:, 0]

    return _query_last(run)


def _normals(generator: torch.Generator) -> Callable[..., Tensor]:
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5


def _query_last(run: Callable[[Tensor], Tensor]) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        pairs = torch.cat([X, y[..., None]], -1)
        queries = torch.nn.functional.pad(Xq, (0, 1))
        return torch.stack([run(torch.cat([pairs, queries[:, j : j + 1]], 1)) for j in range(Xq.shape[1])], 1)

    return model


def _random_features(level: float, features: int, seed: int) -> Model:
    normal = _normals(torch_generator(seed, "random features"))
    W, inner = normal(features, 60), ridge(level)
    return lambda X, y, Xq: inner(torch.relu(X @ W), y, torch.relu(Xq @ W))


def _tree(depth: int) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        found = [
            DecisionTreeRegressor(max_depth=depth, random_state=0).fit(*task[:2]).predict(task[2])
            for task in zip(X.numpy(), y.numpy(), Xq.numpy(), strict=True)
        ]
        return torch.from_numpy(np.stack(found))

    return model


def _quadratic(level: float) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        d, k = X.shape[-1], X.shape[1]
        K, Kq = (1 + X @ X.mT / d).square(), (1 + Xq @ X.mT / d).square()
        return times(Kq, torch.linalg.solve(K + level * torch.eye(k, dtype=X.dtype), y))

    return model


def _local_linear(level: float, temperature: float) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        near = torch.softmax(Xq @ X.mT / temperature, -1)  # (T, q, k)
        A = torch.einsum("tqk,tki,tkj->tqij", near, X, X) + level * torch.eye(X.shape[-1], dtype=X.dtype)
        w = torch.linalg.solve(A, torch.einsum("tqk,tki,tk->tqi", near, X, y))
        return (w * Xq).sum(-1)

    return model


@dataclass(frozen=True)
class _Drawn:
    """What a seed draws for a null."""

    features: int
    seed: int
    compiled: Callable[[str], tuple[Model, str]]
    draw: np.random.Generator
    level: float
    steps: int
    ridge: Model
    average: Model
    near: Model
    mixed: float
    weight: float


_MAKERS: dict[str, Callable[[_Drawn], Model]] = {
    "untrained linear network": lambda o: _network(True, o.features, o.seed),
    "untrained softmax network": lambda o: _network(False, o.features, o.seed, o.steps),
    "shuffled ridge": lambda o: _shuffled(o.ridge, o.seed),
    "shuffled conjugate gradients": lambda o: _shuffled(o.compiled("cg")[0], o.seed),
    "ridge times 0.8": lambda o: _curved(o.ridge, lambda f: 0.8 * f),
    "ridge times 1.25": lambda o: _curved(o.ridge, lambda f: 1.25 * f),
    "tanh of ridge": lambda o: _curved(o.ridge, torch.tanh),
    "clipped ridge": lambda o: _curved(o.ridge, lambda f: f.clamp(-0.7, 0.7)),
    "squared predictions": lambda o: _curved(o.ridge, lambda f: f + 0.3 * f.square()),
    "ridge on half of the supports": lambda o: lambda X, y, Xq: o.ridge(X[:, ::2], y[:, ::2], Xq),
    "mixture of ridge and kernel average": lambda o: _mixture(o.ridge, o.average, o.mixed),
    "mixture of ridge and neighbours": lambda o: _mixture(o.ridge, o.near, o.mixed),
    "mixture of conjugate gradients and descent": lambda o: _mixture(o.compiled("cg")[0], o.compiled("gd")[0], o.mixed),
    "sign descent": lambda o: descent(lambda g, w, t, s: w - 0.1 * g.sign() / t**0.5, o.steps),
    "Adam": lambda o: adam(float(o.draw.uniform(0.05, 0.15)), o.steps),
    "Gauss-Seidel": lambda o: sweeps(o.level, int(o.draw.integers(1, 4)), None),
    "Huber regression": lambda o: reweighted(o.level, lambda r: (0.2 / r.abs().clamp_min(1e-9)).clamp_max(1.0)),
    "local linear regression": lambda o: _local_linear(0.02 * o.level, o.features * float(o.draw.uniform(0.5, 1.0))),
    "ridge with quantised outputs": lambda o: _curved(o.ridge, lambda f: (4 * f).round() / 4),
    "ridge on a random subset": lambda o: _subset(o.ridge, o.seed),
    "ridge on clipped labels": lambda o: lambda X, y, Xq: o.ridge(X, y.clamp(-0.7, 0.7), Xq),
    "median of ridges": lambda o: _median(o.ridge),
    "least absolute deviations": lambda o: reweighted(0.01, lambda r: 1 / r.abs().clamp_min(1e-3)),
    "Theil-Sen": lambda o: theil_sen(o.seed),
    "random-feature regression": lambda o: _random_features(o.level, o.features, o.seed),
    "decision tree": lambda o: _tree(o.steps),
    "one pass with falling steps": lambda o: passes(lambda i, x: 0.5 / (o.features * (1 + i) ** 0.5), 1),
    "Kaczmarz, two passes": lambda o: passes(lambda i, x: 0.7 / x.square().sum(-1, keepdim=True), 2),
    "sketch and solve": lambda o: _sketch(o.ridge, o.seed),
    "partial least squares with an intercept": lambda o: partial_least_squares(int(o.draw.integers(1, 3))),
    "principal components by variance": lambda o: principal(float(o.draw.uniform(0.8, 0.95))),
    "RMSProp": lambda o: rmsprop(float(o.draw.uniform(0.05, 0.2)), o.steps),
    "conjugate residuals": lambda o: conjugate_residuals(o.level, max(2, o.steps - 2)),
    "Barzilai-Borwein steps": lambda o: barzilai_borwein(o.level, o.steps),
    "damped Jacobi iteration": lambda o: sweeps(o.level, int(o.draw.integers(2, 5)), 0.4),
    "ridge with a penalty by feature": lambda o: scaled_penalty(0.3 * o.level, trace=False),
    "ridge with a penalty by trace": lambda o: scaled_penalty(0.3 * o.level, trace=True),
    "recursive least squares that forgets": lambda o: forgetting(o.level, float(o.draw.uniform(0.8, 0.92))),
    "elastic net": lambda o: elastic_net(0.2 * o.level, 0.1 * o.level),
    "ridge with a quadratic kernel": lambda o: _quadratic(o.level),
    "neighbours by distance": lambda o: _by_distance,
    "ridge with permuted queries": lambda o: lambda X, y, Xq: o.ridge(X, y, Xq.roll(1, -1)),
    "ridge plus the length of the query": lambda o: lambda X, y, Xq: o.ridge(X, y, Xq) + 0.1 * Xq.norm(dim=-1),
    "untrained recurrent network": lambda o: _recurrent(o.features, o.seed),
    "mixture of ridge and mean": lambda o: _mixture(o.ridge, _mean, o.weight),
    "mixture of descent and ridge": lambda o: _mixture(o.compiled("gd")[0], ridge(0.01), o.weight),
    "mixture of kernel average and neighbours": lambda o: _mixture(o.average, _by_distance, o.weight),
}
"""How each kind is made."""


def make_null(kind: str, features: int, seed: int, compiled: Callable[[str], tuple[Model, str]]) -> Null:
    """Return a null with parameters drawn by the seed; `compiled` is a route to a compiled model and its key."""
    draw = numpy_generator(seed, "null", kind, features)
    level, steps, d = float(exp(draw.uniform(-2, 1))), int(draw.integers(3, 7)), features
    if kind.startswith("unlisted"):
        name = kind.removeprefix("unlisted ").replace(" ", "_")
        model, truth = compiled(name)
        if name == "jacobi_pcg":
            return Null(model, ("jacobi_pcg", "jacobi_pcg_primal"))
        return Null(model, POLYNOMIALS, frozenset({f"polynomial-{truth.rpartition('-')[2]}"}))
    if kind in ("averaged descent iterates", "descent with growing momentum"):
        size = float(draw.uniform(0.5, 1.2)) / (20 * d)
        made = fixed_polynomial(size, steps, growing=kind == "descent with growing momentum")
        return Null(made, (), frozenset({f"polynomial-{steps}"}))
    average, near = _average(d * float(exp(draw.uniform(-0.5, 0.7)))), _average(0.05 * d)
    mixed, weight = float(draw.uniform(0.35, 0.65)), float(draw.choice([0.2, 0.35, 0.5, 0.65, 0.8]))
    drawn = _Drawn(features, seed, compiled, draw, level, steps, ridge(level), average, near, mixed, weight)
    return Null(_MAKERS[kind](drawn))
