"""Two studies of `identify`: compiled models, whose algorithm is known, and nulls, which run none of the candidates.

Thresholds were set on the preset "calibration" and are reported on the others, which have other seeds and other kinds
of nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import ConjugateGradients, NadarayaWatson, Richardson, resolve
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.fitting import fit, group_rms
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import published_similarities
from ridgeformer.identification.tasks import Tasks, separating
from ridgeformer.identification.verdict import BehaviourVerdict, judge
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["COMPILED", "NULLS", "measure_compiled", "measure_null"]

Model = Callable[[Tensor, Tensor, Tensor], Tensor]
SIMILAR = 0.9
"""A published similarity above this is usually taken for an answer."""

ROUTES = ("gd", "gd found step", "chebyshev", "heavy_ball", "nesterov", "cg", "jacobi_pcg", "cg_centred",
          "nadaraya_watson", "kernel_cg_exponential", "kernel_cg_gaussian", "kernel_gd_exponential",
          "attention_only_gd")  # fmt: skip


def _compiled(route: str, features: int, seed: int) -> tuple[CompiledTransformer, str]:
    """Return a model with depth, ridge, steps and spectrum drawn by the seed, and the key of its algorithm."""
    draw = numpy_generator(seed, "compiled", route, features)
    d, steps, ridge = features, int(draw.integers(1, 8)), float(exp(draw.uniform(-3, 1)))
    top = float(draw.uniform(18, 40)) * d  # above the largest eigenvalues of these tasks
    options: dict[str, Any] = {"features": d, "ridge": ridge}
    linear, temperature = DotProduct(), float(d * exp(draw.uniform(-0.5, 0.7)))
    if route == "gd":
        size = float(draw.uniform(0.5, 1.5)) / top
        return compile(linear, Richardson(steps=steps, step_size=size), **options), f"gd-{steps}"
    if route == "gd found step":
        return compile(linear, Richardson(steps=steps), **options), f"gd-{steps}/trace"
    if route in ("chebyshev", "heavy_ball", "nesterov"):
        steps = max(2, steps)
        spectrum = (top / float(exp(draw.uniform(2.0, 5.0))), top)
        accelerated = resolve(route, steps=steps, spectrum=spectrum)
        return compile(linear, accelerated, **options), f"{route}-{steps}"
    if route in ("cg", "jacobi_pcg"):
        jacobi = "jacobi" if route == "jacobi_pcg" else None
        steps = min(steps, 6) if jacobi else steps
        return compile(linear, ConjugateGradients(steps=steps, preconditioner=jacobi), **options), f"{route}-{steps}"
    if route == "cg_centred":
        steps = min(steps, 6)
        model = compile(linear, ConjugateGradients(steps=steps), attention="imitation", **options)
        return model, f"cg_centred-{steps}"
    if route == "nadaraya_watson":
        return compile(Exponential(temperature), NadarayaWatson(), **options), route
    steps = min(steps, 6)
    if route.startswith("kernel_cg"):
        kernel = Gaussian(temperature) if route.endswith("gaussian") else Exponential(temperature)
        return compile(kernel, ConjugateGradients(steps=steps), **options), f"{route}-{steps}"
    temperature = 2 * temperature
    if route == "attention_only_gd":
        steps = max(2, steps)
        return compile(
            Exponential(temperature), Richardson(steps=steps), attention="vanilla", **options
        ), f"{route}-{steps}"
    steps = min(steps, 4)
    size = 0.05 * float(exp(draw.uniform(-1, 0.5))) / d
    return compile(Exponential(temperature), Richardson(steps=steps, step_size=size), **options), f"{route}-{steps}"


def _observe(
    model: Model, features: int, noise: float, seed: int, without: tuple[str, ...] = ()
) -> tuple[BehaviourVerdict, tuple[Candidate, ...], dict[str, Any]]:
    """Return the verdict on a model on separating tasks, with output noise, and the published scores beside it."""
    first, second = separating(features, seed=seed).halves()
    fitted = Problems(first)
    held_out = Problems(second, fitted)
    generator = torch_generator(seed, "output noise")

    def answers(tasks: Tasks) -> Tensor:
        f = torch.cat([model(group.X, group.y, group.Xq) for group in tasks.groups]).detach().double()
        rms = group_rms(Problems(tasks), f)[:, None]
        return f + noise * rms * torch.randn(f.shape, generator=generator, dtype=torch.float64)

    f, held = answers(first), answers(second)
    families = [family for name, family in FAMILIES.items() if name not in without]
    candidates = fit(families, fitted, f)
    predictions = torch.stack([one.predict(held_out) for one in candidates])
    verdict = judge(candidates, held_out, held, seed=seed, predictions=predictions)
    similar = {one.score: one for one in published_similarities(candidates, held_out, held, predictions)}
    facts = {
        "answer": verdict.name,
        "identified": " ".join(sorted(verdict.keys)),
        "remaining": len(verdict.remaining),
        "reason": None if verdict.reason is None else verdict.reason.name,
        "best": None if verdict.best is None else verdict.best.key,
        "unexplained": verdict.unexplained,
        "sim_e": similar["SimE"].key, "sim_e_value": similar["SimE"].value,
        "sim_w": similar["SimW"].key, "sim_w_value": similar["SimW"].value,
    }  # fmt: skip
    return verdict, candidates, facts


def measure_compiled(route: str, features: int, noise: float, split: str, seed: int) -> dict[str, Any]:
    """Return what is said about one compiled model, and whether that is right.

    The outcome is "family" (its family alone is left), "set" (its algorithm and depth are among what is left),
    "special case" (a family that its own contains is named, and its own is not excluded), "abstains" or "wrong".
    `split` only sets calibration and report apart.
    """
    draw = 1000 * (split == "held out") + seed
    model, truth = _compiled(route, features, draw)
    verdict, _, facts = _observe(model, features, noise, draw)
    remaining = {one.key for one in verdict.remaining}
    name = truth.partition("-")[0].partition("/")[0]
    if verdict.reason is not None:
        outcome = "abstains"
    elif truth in verdict.keys:
        outcome = "family" if verdict.families == {name} else "set"
    elif truth in remaining and any(name in FAMILIES[one].within for one in verdict.families if one in FAMILIES):
        outcome = "special case"
    else:
        outcome = "wrong"
    return {"truth": truth, "outcome": outcome, **facts,
            "sim_e_right": facts["sim_e"] == truth, "sim_w_right": facts["sim_w"] == truth}  # fmt: skip


# -- nulls and unlisted algorithms ---------------------------------------------------------------------


def _ridge(level: float) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        eye = torch.eye(X.shape[-1], dtype=X.dtype)
        w = torch.linalg.solve(X.mT @ X + level * eye, X.mT @ y[..., None])
        return (Xq @ w)[..., 0]

    return model


def _average(temperature: float) -> Model:
    return lambda X, y, Xq: (torch.softmax(Xq @ X.mT / temperature, -1) @ y[..., None])[..., 0]


def _network(linear: bool, features: int, seed: int, layers: int = 2) -> Model:
    """Return an untrained transformer on tokens (x, y) with the query last: linear or softmax attention, and an MLP."""
    width, heads = 4 * (features + 1), 2
    generator = torch_generator(seed, "untrained network")

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5

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

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        pairs = torch.cat([X, y[..., None]], -1)
        found = [
            run(torch.cat([pairs, torch.nn.functional.pad(Xq[:, j : j + 1], (0, 1))], 1)) for j in range(Xq.shape[1])
        ]
        return torch.stack(found, 1)

    return model


def _steps(update: Callable[[Tensor, Tensor, int], Tensor], steps: int) -> Model:
    """Return an optimiser on the mean squared error: (gradient, weights, step) to new weights."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        w = X.new_zeros(len(X), X.shape[-1])
        for t in range(1, steps + 1):
            gradient = (X.mT @ ((X @ w[..., None])[..., 0] - y)[..., None])[..., 0] / X.shape[1]
            w = update(gradient, w, t)
        return (Xq @ w[..., None])[..., 0]

    return model


def _adam(size: float, steps: int) -> Model:
    state: dict[str, Tensor] = {}

    def update(g: Tensor, w: Tensor, t: int) -> Tensor:
        if t == 1:
            state["m"], state["v"] = torch.zeros_like(g), torch.zeros_like(g)
        state["m"], state["v"] = 0.9 * state["m"] + 0.1 * g, 0.99 * state["v"] + 0.01 * g.square()
        return w - size * (state["m"] / (1 - 0.9**t)) / ((state["v"] / (1 - 0.99**t)).sqrt() + 1e-8)

    return _steps(update, steps)


def _gauss_seidel(level: float, sweeps: int) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        A = X.mT @ X + level * torch.eye(X.shape[-1], dtype=X.dtype)
        b, w = (X.mT @ y[..., None])[..., 0], X.new_zeros(len(X), X.shape[-1])
        for _ in range(sweeps):
            for j in range(X.shape[-1]):
                new = w[:, j] + (b[:, j] - (A[:, j] * w).sum(-1)) / A[:, j, j]
                w = torch.cat([w[:, :j], new[:, None], w[:, j + 1 :]], 1)
        return (Xq @ w[..., None])[..., 0]

    return model


def _huber(level: float) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        weights, eye = torch.ones_like(y), torch.eye(X.shape[-1], dtype=X.dtype)
        for _ in range(10):
            A = X.mT @ (weights[..., None] * X) + level * eye
            w = torch.linalg.solve(A, X.mT @ (weights * y)[..., None])
            weights = (0.2 / (y - (X @ w)[..., 0]).abs().clamp_min(1e-9)).clamp_max(1.0)
        return (Xq @ w)[..., 0]

    return model


def _local_linear(level: float, temperature: float) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        near = torch.softmax(Xq @ X.mT / temperature, -1)  # (T, q, k)
        A = torch.einsum("tqk,tki,tkj->tqij", near, X, X) + level * torch.eye(X.shape[-1], dtype=X.dtype)
        w = torch.linalg.solve(A, torch.einsum("tqk,tki,tk->tqi", near, X, y)[..., None])[..., 0]
        return (w * Xq).sum(-1)

    return model


def _shuffled(inner: Model, seed: int) -> Model:
    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        order = torch.rand(y.shape, generator=torch_generator(seed, "null order")).argsort(1)
        return inner(X, y.gather(1, order), Xq)

    return model


def _half(first: Model, second: Model, share: float = 0.5) -> Model:
    """Return a mixture of two models, the second scaled to the size of the first."""

    def model(X: Tensor, y: Tensor, Xq: Tensor) -> Tensor:
        a, b = first(X, y, Xq), second(X, y, Xq)
        return share * a + (1 - share) * b * (a.square().mean() / b.square().mean()).sqrt()

    return model


def _squashed(inner: Model, curve: Callable[[Tensor], Tensor]) -> Model:
    return lambda X, y, Xq: curve(inner(X, y, Xq))


def _subset(inner: Model) -> Model:
    return lambda X, y, Xq: inner(X[:, ::2], y[:, ::2], Xq)


POLYNOMIALS = ("heavy_ball", "nesterov", "chebyshev")
"""Left out where a fixed-coefficient method is to be unlisted; then only its class may be named."""

KINDS: dict[str, tuple[str, ...]] = {
    "calibration": ("untrained linear network", "shuffled ridge", "ridge times 0.8", "tanh of ridge",
                    "mixture of ridge and kernel average", "unlisted heavy ball", "sign descent"),
    "held out": ("untrained softmax network", "shuffled conjugate gradients", "ridge times 1.25", "clipped ridge",
               "ridge on half of the supports", "ridge with 30 % noise", "mixture of conjugate gradients and descent",
               "mixture of ridge and neighbours", "unlisted nesterov", "unlisted chebyshev", "unlisted jacobi_pcg",
               "Adam", "Gauss-Seidel", "Huber regression", "local linear regression", "squared predictions"),
}  # fmt: skip


def _null(kind: str, features: int, seed: int) -> tuple[Model, tuple[str, ...], frozenset[str]]:
    """Return a null, the families to leave out for it, and the candidates that would be right all the same."""
    draw, none = numpy_generator(seed, "null", kind, features), frozenset[str]()
    level, steps, d = float(exp(draw.uniform(-2, 1))), int(draw.integers(3, 7)), features
    ridge, average = _ridge(level), _average(d * float(exp(draw.uniform(-0.5, 0.7))))
    if kind.startswith("unlisted"):
        name = kind.removeprefix("unlisted ").replace(" ", "_")
        model, truth = _compiled(name, features, seed)
        if name == "jacobi_pcg":
            return model, ("jacobi_pcg", "jacobi_pcg_primal"), none
        depth = truth.rpartition("-")[2]
        return model, POLYNOMIALS, frozenset({f"polynomial-{depth}", f"gd_unequal-{depth}"})
    mixed = float(draw.uniform(0.35, 0.65))
    cg, gd = (_compiled(route, features, seed)[0] for route in ("cg", "gd")) if "conjugate" in kind else (None, None)
    makers: dict[str, Callable[[], Model]] = {
        "untrained linear network": lambda: _network(True, d, seed),
        "untrained softmax network": lambda: _network(False, d, seed, steps),
        "shuffled ridge": lambda: _shuffled(ridge, seed),
        "shuffled conjugate gradients": lambda: _shuffled(cg, seed),  # type: ignore[arg-type]
        "ridge times 0.8": lambda: _squashed(ridge, lambda f: 0.8 * f),
        "ridge times 1.25": lambda: _squashed(ridge, lambda f: 1.25 * f),
        "tanh of ridge": lambda: _squashed(ridge, torch.tanh),
        "clipped ridge": lambda: _squashed(ridge, lambda f: f.clamp(-0.7, 0.7)),
        "squared predictions": lambda: _squashed(ridge, lambda f: f + 0.3 * f.square()),
        "ridge on half of the supports": lambda: _subset(ridge),
        "ridge with 30 % noise": lambda: ridge,
        "mixture of ridge and kernel average": lambda: _half(ridge, average, mixed),
        "mixture of ridge and neighbours": lambda: _half(ridge, _average(0.05 * d), mixed),
        "mixture of conjugate gradients and descent": lambda: _half(cg, gd, mixed),  # type: ignore[arg-type]
        "sign descent": lambda: _steps(lambda g, w, t: w - 0.1 * g.sign() / t**0.5, steps),
        "Adam": lambda: _adam(float(draw.uniform(0.05, 0.15)), steps),
        "Gauss-Seidel": lambda: _gauss_seidel(level, int(draw.integers(1, 4))),
        "Huber regression": lambda: _huber(level),
        "local linear regression": lambda: _local_linear(0.02 * level, d * float(draw.uniform(0.5, 1.0))),
    }
    return makers[kind](), (), none


def measure_null(kind: str, features: int, noise: float, split: str, seed: int) -> dict[str, Any]:
    """Return what is said about one null, and whether an algorithm is named that it does not run.

    The outcome is "abstains", "right class" (of an unlisted fixed-coefficient method), "special case" (a method that
    this class contains is named, and the class is not excluded) or "false".
    """
    draw = 1000 * (split == "held out") + seed
    model, without, right = _null(kind, features, draw)
    level = 0.3 if kind == "ridge with 30 % noise" else noise
    verdict, _, facts = _observe(model, features, level, draw, without)
    named = verdict.reason is None
    outcome = "abstains" if not named else "right class" if verdict.keys & right else "false"
    if outcome == "false" and any(one.key in right for one in verdict.remaining):
        outcome = "special case"
    return {"outcome": outcome, **facts,
            "sim_e_false": facts["sim_e_value"] > SIMILAR and facts["sim_e"] not in right,
            "sim_w_false": facts["sim_w_value"] > SIMILAR and facts["sim_w"] not in right}  # fmt: skip


def _models(split: str, features: list[int], noises: list[float]) -> list[dict[str, Any]]:
    return product(route=list(ROUTES), features=features, noise=noises, split=[split])


def _kinds(split: str, features: list[int], noises: list[float]) -> list[dict[str, Any]]:
    return product(kind=list(KINDS[split]), features=features, noise=noises, split=[split])


COMPILED = Study(
    name="identify-compiled",
    version=1,
    what="What `identify` says about compiled models, whose algorithm is known.",
    function="ridgeformer.studies.identified_models:measure_compiled",
    presets={
        "quick": Preset(_models("held out", [3], [0.0]), seeds=1),
        "calibration": Preset(_models("calibration", [3, 5], [0.0, 0.05]), seeds=2),
        "default": Preset(_models("held out", [3, 5, 8], [0.0, 0.05]), seeds=4),
        "paper": Preset(_models("held out", [3, 5, 8], [0.0, 0.05, 0.1]), seeds=20),
    },
    seconds=300.0,
)

NULLS = Study(
    name="identify-nulls",
    version=1,
    what="What `identify` says about models that run none of its candidates.",
    function="ridgeformer.studies.identified_models:measure_null",
    presets={
        "quick": Preset(_kinds("held out", [3], [0.0]), seeds=1),
        "calibration": Preset(_kinds("calibration", [3, 5], [0.0, 0.05]), seeds=2),
        "default": Preset(_kinds("held out", [3, 5, 8], [0.0, 0.05]), seeds=4),
        "paper": Preset(_kinds("held out", [3, 5, 8], [0.0, 0.05, 0.1]), seeds=20),
    },
    seconds=300.0,
)
