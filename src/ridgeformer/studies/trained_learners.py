"""Trained networks over training time: what `identify` says about them, beside published scores and untrained twins."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ridgeformer.core.seeds import torch_generator
from ridgeformer.identification.adapters import QueryLast
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.fitting import fit
from ridgeformer.identification.learner import Learner
from ridgeformer.identification.mechanism import examine
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import published_similarities
from ridgeformer.identification.tasks import Tasks
from ridgeformer.identification.verdict import judge
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.task import Result
from ridgeformer.studies.trained_networks import (
    LinearAttentionNetwork,
    covariance,
    draw_tasks,
    preconditioners,
    train,
    untrained,
)

__all__ = ["STUDY", "measure"]

CLAIMED = {
    "gd": ("gd", "gd_unequal"),
    "preconditioned": ("gd_covariance",),
    "newton": ("newton_schulz", "newton_identity"),
    "ridge": ("ridge", "ols"),
    "richardson": ("kernel_gd_gaussian", "kernel_gd_exponential", "attention_only_gd"),
    "kernel_ridge": ("kernel_ridge_gaussian",),
}
"""Families that claims of the literature name, by a short word."""


def measure(network: str, layers: int, mlp: bool, norm: bool, condition: float, size: int, seed: int) -> Result:
    """Train one network; return a row for its untrained twin and for every checkpoint, and the checkpoints themselves.

    `trained` is the fraction of the training: 0 for the untrained twin. Of linear attention, the step sizes that
    `identify` fits to the predictions stand beside those of the weights.
    """
    group = draw_tasks(network, condition, 72, torch_generator(seed, "tasks to identify on"))
    halves = Tasks("the training distribution", (group,), covariance(condition)).halves()
    rows, kept = [], dict[str, Tensor]()
    stages = [(0.0, untrained(network, layers, mlp, norm, seed))]
    for trained, module in (*stages, *train(network, layers, mlp, norm, condition, size, seed)):
        row = {"trained": trained, **_identified(module, halves, seed, inside=network != "linear" and trained == 1)}
        if isinstance(module, LinearAttentionNetwork):
            sizes, apart = preconditioners(module, condition)
            row["steps_by_weights"], row["from_covariance"] = _shown(sizes), apart
            fitted = row.pop("sizes").get(layers)
            row["steps_by_outputs"], row["apart"] = _shown(fitted or []), _apart(fitted, sizes)
        else:
            row.pop("sizes")
        rows.append(row)
        kept |= {f"{trained:g}.{name}": value.clone() for name, value in module.state_dict().items()}
    return Result(rows, kept)


def _shown(sizes: list[float]) -> str:
    return " ".join(f"{size:.4f}" for size in sorted(sizes))


def _apart(fitted: list[float] | None, weights: list[float]) -> float | None:
    """Return the largest relative difference of step sizes by outputs and by weights."""
    if fitted is None or len(fitted) != len(weights):
        return None
    return max(abs(a - b) / abs(b) for a, b in zip(sorted(fitted), sorted(weights), strict=True))


def _identified(module: nn.Module, halves: tuple[Tasks, Tasks], seed: int, *, inside: bool) -> dict[str, Any]:
    """Return the verdict on a network, the published scores of what was claimed for it, and its test error."""
    first, second = halves
    fitted = Problems(first)
    held_out = Problems(second, fitted)
    families = [family for family in FAMILIES.values() if family.suits(fitted)]
    model = QueryLast(module)
    learner = Learner(model)
    f, held = (torch.cat([learner(one.X, one.y, one.Xq) for one in half.groups]) for half in halves)
    candidates = fit(families, fitted, f)
    predictions = torch.stack([one.predict(held_out) for one in candidates])
    verdict = judge(candidates, held_out, held, seed=seed, predictions=predictions)
    truth = torch.cat([group.truth for group in held_out.groups if group.truth is not None])
    row: dict[str, Any] = {
        "test_error": float((held - truth).square().mean() / truth.square().mean()),
        "answer": verdict.name,
        "identified": " ".join(sorted(verdict.keys)),
        "reason": None if verdict.reason is None else verdict.reason.name,
        "best": None if verdict.best is None else verdict.best.key,
        "unexplained": verdict.unexplained,
        "resolution": verdict.resolution,
        "approximate": verdict.approximate,
        "sizes": _step_sizes(candidates),
        "steps_by_outputs": "",
    }
    for word, names in CLAIMED.items():
        some = [place for place, one in enumerate(candidates) if one.family.name in names]
        chosen = [candidates[place] for place in some]
        scores = {one.score: one.value for one in published_similarities(chosen, held_out, held, predictions[some])}
        error = ((predictions[some] - held).square().mean((1, 2)) / held.square().mean()).min()
        row |= {f"sim_e_{word}": scores["SimE"], f"sim_w_{word}": scores["SimW"], f"error_{word}": float(error)}
    row["inside"] = None
    if inside:
        assert not isinstance(module, LinearAttentionNetwork)
        layers = [f"blocks.{place}" for place in range(len(list(module.get_submodule("blocks").children())))]
        tasks = Tasks(first.name, tuple(halves[0].groups + halves[1].groups), first.covariance)
        found = examine(model, layers, tasks, candidates, float(fitted.mean_square), seed=seed)
        row["inside"] = None if found is None else found.sentence
    return row


def _step_sizes(candidates: tuple[Candidate, ...]) -> dict[int, list[float]]:
    """Return the fitted step sizes of covariance-preconditioned gradient descent by depth."""
    return {
        one.member.steps: list(one.values.values())
        for one in candidates
        if one.family.name == "gd_covariance" and one.member.steps is not None
    }


def _linear(layers: list[int], condition: float, size: int) -> list[dict[str, Any]]:
    return product(network=["linear"], layers=layers, mlp=[False], norm=[False], condition=[condition], size=[size])


def _softmax(layers: list[int], size: int, both: list[bool]) -> list[dict[str, Any]]:
    return product(network=["softmax"], layers=layers, mlp=both, norm=both, condition=[10.0], size=[size])


def _process(size: int) -> list[dict[str, Any]]:
    return product(network=["process"], layers=[4], mlp=[True], norm=[True], condition=[1.0], size=[size])


STUDY = Study(
    name="identify-trained",
    version=3,
    what="What `identify` says about networks over training time, beside their weights and their untrained twins.",
    function="ridgeformer.studies.trained_learners:measure",
    presets={
        "smoke": Preset([*_linear([1], 10.0, 200), *_softmax([1], 20, [False])]),
        "quick": Preset([*_linear([1], 10.0, 2000), *_softmax([2], 300, [True])]),
        "linear": Preset(
            [*_linear([1], 10.0, 16_000), *_linear([2], 10.0, 32_000), *_linear([1], 1.0, 16_000)], seeds=5
        ),
        "softmax": Preset([*_softmax([2, 4], 1500, [False, True]), *_process(1500)]),
        "default": Preset(
            [
                *_linear([1, 2, 3, 4], 10.0, 16_000),
                *_linear([1, 2, 3, 4], 1.0, 16_000),
                *_softmax([2, 4, 6], 2000, [False, True]),
                *_process(2000),
            ],
            seeds=3,
        ),
        "paper": Preset(
            [
                *_linear([1, 2, 3, 4], 10.0, 64_000),
                *_linear([1, 2, 3, 4], 1.0, 64_000),
                *_softmax([2, 3, 4, 6], 30_000, [False, True]),
                *_process(30_000),
            ],
            seeds=10,
        ),
    },
    within=("trained",),
    seconds=3600.0,
)
