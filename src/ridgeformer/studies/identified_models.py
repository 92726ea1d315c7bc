"""Studies of `identify`: compiled models, whose algorithm is known, nulls, which run none of the candidates, and power.

Thresholds were set on the preset "calibration" and are reported on the others, which have other seeds and other kinds
of nulls.
"""

from __future__ import annotations

from math import exp
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import Chebyshev, Compilable, ConjugateGradients, NadarayaWatson, Richardson, resolve
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import numpy_generator, torch_generator
from ridgeformer.identification.controls import noisy, power
from ridgeformer.identification.fitting import fit, group_rms
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import published_similarities
from ridgeformer.identification.tasks import separating
from ridgeformer.identification.verdict import BehaviourVerdict, judge
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.studies.null_learners import KINDS, make_null
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.unlisted_algorithms import Model

__all__ = ["COMPILED", "NULLS", "POWER", "SAME_FUNCTION", "measure_compiled", "measure_null", "measure_power"]

SIMILAR = 0.9
"""A published similarity above this is usually taken for an answer."""

SPLITS = {"calibration": 0, "held out": 3000, "relatives": 3000, "power": 6000}
"""Where the seeds of each split begin; 1000 to 1999 served an earlier version of the protocol."""

FRESH = 500_000
"""Offset of the seeds of fresh tasks."""

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
        steps = min(steps, 4)  # the imitation is approximate: deeper ones are several per cent away from the algorithm
        model = compile(linear, ConjugateGradients(steps=steps), attention="imitation", epsilon=1e-5, **options)
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
) -> tuple[BehaviourVerdict, dict[str, Any]]:
    """Return the verdict on a model on separating tasks, how far it is from what is named, and the published scores.

    With `noise` the model is not deterministic: the mean of 8 calls has this relative error, and its variance is
    estimated from the calls. The distance is that of the noiseless predictions from the nearest named candidate, on
    tasks that neither fitted nor judged it.
    """
    first, second = separating(features, seed=seed).halves()
    fitted = Problems(first)
    held_out = Problems(second, fitted)
    generator = torch_generator(seed, "output noise")

    def answers(problems: Problems) -> tuple[Tensor, Tensor, Tensor]:
        parts = [model(group.X, group.y, group.Xq) for group in problems.groups]
        exact = torch.cat(parts).detach().double()
        return exact, *noisy(exact, noise, problems, generator)

    (_, f, _), (_, held, spread) = answers(fitted), answers(held_out)
    families = [family for name, family in FAMILIES.items() if name not in without]
    candidates = fit(families, fitted, f)
    predictions = torch.stack([one.predict(held_out) for one in candidates])
    verdict = judge(candidates, held_out, held, seed=seed, predictions=predictions, noise=spread)
    similar = {one.score: one for one in published_similarities(candidates, held_out, held, predictions)}
    named = [one for one in candidates if one.key in verdict.keys]
    fresh = Problems(separating(features, seed=seed + FRESH), fitted)
    truth = answers(fresh)[0]
    rms = group_rms(fresh, truth)[:, None]
    distance = min((float(((truth - one.predict(fresh)) / rms).square().mean().sqrt()) for one in named), default=None)
    facts = {
        "answer": verdict.name,
        "identified": " ".join(sorted(verdict.keys)),
        "remaining": len(verdict.remaining),
        "reason": None if verdict.reason is None else verdict.reason.name,
        "best": None if verdict.best is None else verdict.best.key,
        "unexplained": verdict.unexplained,
        "resolution": verdict.resolution,
        "approximate": verdict.approximate,
        "distance": distance,
        "sim_e": similar["SimE"].key, "sim_e_value": similar["SimE"].value,
        "sim_w": similar["SimW"].key, "sim_w_value": similar["SimW"].value,
    }  # fmt: skip
    return verdict, facts


def measure_compiled(route: str, features: int, noise: float, split: str, seed: int) -> dict[str, Any]:
    """Return what is said about one compiled model, and whether that is right.

    The outcome is "family" (its family alone is left), "set" (its algorithm and depth are among what is left),
    "special case" (a family that its own contains is named, and its own is not excluded), "abstains" or "wrong".
    `split` only sets calibration and report apart.
    """
    draw = SPLITS[split] + seed
    model, truth = _compiled(route, features, draw)
    verdict, facts = _observe(model, features, noise, draw)
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


SAME_FUNCTION = 0.01
"""Relative root-mean-square distance up to which two learners count as one function on these tasks."""


def measure_null(kind: str, features: int, noise: float, split: str, seed: int) -> dict[str, Any]:
    """Return what is said about one null, and whether that is true.

    An answer speaks of predictions, to within a resolution that it states. The outcome is "abstains", "right class" (of
    an unlisted fixed-coefficient method), "same function" (the noiseless predictions of the null are those of a named
    candidate to within 1 %, on fresh tasks), "within resolution" (to within the resolution stated), "said to be near"
    (within it too, and the answer says that the null only approximates the candidate), or "false".
    """
    draw = SPLITS[split] + seed
    null = make_null(kind, features, draw, lambda route: _compiled(route, features, draw))
    verdict, facts = _observe(null.model, features, noise, draw, null.without)
    if verdict.reason is not None:
        outcome = "abstains"
    elif verdict.keys & null.right:
        outcome = "right class"
    elif facts["distance"] > max(SAME_FUNCTION, verdict.resolution):
        outcome = "false"
    elif verdict.approximate:
        outcome = "said to be near"
    else:
        outcome = "same function" if facts["distance"] <= SAME_FUNCTION else "within resolution"
    return {"outcome": outcome, **facts,
            "sim_e_false": facts["sim_e_value"] > SIMILAR and facts["sim_e"] not in null.right,
            "sim_w_false": facts["sim_w_value"] > SIMILAR and facts["sim_w"] not in null.right}  # fmt: skip


POWER_ROUTES: dict[str, Compilable] = {
    "cg-3": ConjugateGradients(steps=3),
    "gd-4": Richardson(steps=4, step_size=0.008),
    "chebyshev-4": Chebyshev(steps=4, spectrum=(4.0, 120.0)),
}
"""Models of the power study, by the key of their candidate; five features, ridge 0.5."""

POWER_FEATURES, POWER_REPLAYS = 5, 10


def measure_power(route: str, tasks: int, noise: float, seed: int) -> dict[str, Any]:
    """Return whether a compiled model is recognised from few tasks and with noise, and the power that is reported.

    The power is that of the report: the fraction of replays, on the same tasks, that give the same answer. Whether it
    is right shows across seeds, which draw tasks and noise anew.
    """
    model = compile(DotProduct(), POWER_ROUTES[route], features=POWER_FEATURES, ridge=0.5)
    halves = separating(POWER_FEATURES, tasks=tasks, seed=SPLITS["power"] + seed).halves()
    fitted = Problems(halves[0])
    held_out = Problems(halves[1], fitted)
    generator = torch_generator(seed, "output noise", route, tasks, round(1000 * noise))
    parts = []
    for problems in (fitted, held_out):
        exact = torch.cat([model(group.X, group.y, group.Xq) for group in problems.groups]).detach().double()
        parts.append(noisy(exact, noise, problems, generator))
    (f, _), (held, spread) = parts
    families = list(FAMILIES.values())
    candidates = fit(families, fitted, f)
    verdict = judge(candidates, held_out, held, seed=seed, noise=spread)
    reported = None
    if verdict.reason is None:
        reported = power(
            families, candidates, verdict, (fitted, held_out), (f, held), replays=POWER_REPLAYS, noise=None,
            variance=spread, seed=seed,
        ).power  # fmt: skip
    return {"answered": verdict.reason is None, "right": route in verdict.keys, "power": reported,
            "wrong": verdict.reason is None and route not in verdict.keys,
            "families": " ".join(sorted(verdict.families)), "resolution": verdict.resolution}  # fmt: skip


def _models(split: str, features: list[int], noises: list[float]) -> list[dict[str, Any]]:
    return product(route=list(ROUTES), features=features, noise=noises, split=[split])


def _kinds(split: str, features: list[int], noises: list[float]) -> list[dict[str, Any]]:
    return product(kind=list(KINDS[split]), features=features, noise=noises, split=[split])


COMPILED = Study(
    name="identify-compiled",
    version=4,
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
    version=4,
    what="What `identify` says about models that run none of its candidates.",
    function="ridgeformer.studies.identified_models:measure_null",
    presets={
        "quick": Preset(_kinds("held out", [3], [0.0]), seeds=1),
        "calibration": Preset(_kinds("calibration", [3, 5], [0.0, 0.05]), seeds=2),
        "default": Preset(
            _kinds("held out", [3, 5, 8], [0.0, 0.05]) + _kinds("relatives", [3, 5, 8], [0.0, 0.05]), seeds=2
        ),
        "relatives": Preset(
            _kinds("relatives", [3, 5, 8], [0.0, 0.05])
            + [one for one in _kinds("held out", [3, 5, 8], [0.0, 0.05]) if one["kind"].startswith("mixture")],
            seeds=2,
        ),
        "paper": Preset(_kinds("held out", [3, 5, 8], [0.0, 0.05, 0.1]), seeds=20),
    },
    seconds=300.0,
)

POWER = Study(
    name="identify-power",
    version=1,
    what="How many tasks, and how little noise, `identify` needs, and whether the power that it reports is right.",
    function="ridgeformer.studies.identified_models:measure_power",
    presets={
        "quick": Preset(product(route=["cg-3"], tasks=[12, 72], noise=[0.1]), seeds=2),
        "default": Preset(product(route=list(POWER_ROUTES), tasks=[12, 24, 72], noise=[0.05, 0.1, 0.2]), seeds=8),
        "paper": Preset(
            product(route=list(POWER_ROUTES), tasks=[12, 24, 48, 72, 144], noise=[0.0, 0.05, 0.1, 0.2, 0.4]), seeds=40
        ),
    },
    seconds=300.0,
)
