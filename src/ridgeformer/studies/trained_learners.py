"""Trained linear attention: is what `identify` says about the predictions what the weights say?

The networks have the form of [Ahn2023]: layer l adds -(1/k) sum_i r_i <x_i, A_l x> to the residual channel of every
token, so that one layer with A_l = eta Sigma^-1 is one step of covariance-preconditioned gradient descent with step
eta. They are trained, by L-BFGS to convergence, on tasks whose rows share one covariance of condition number 10.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ridgeformer.core.seeds import torch_generator
from ridgeformer.identification.adapters import QueryLast
from ridgeformer.identification.fitting import fit
from ridgeformer.identification.learner import Learner
from ridgeformer.identification.other_families import FAMILIES
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.signatures import published_similarities
from ridgeformer.identification.tasks import Setting, TaskGroup, Tasks, draw
from ridgeformer.identification.verdict import judge
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "LinearAttentionNetwork", "measure"]

FEATURES, SUPPORTS, CONDITION = 5, 20, 10.0
ROUNDS = 150


class LinearAttentionNetwork(nn.Module):
    """Linear attention on tokens (x_i, r_i) whose features stay as they are: one matrix A_l a layer."""

    def __init__(self, layers: int, features: int, generator: torch.Generator, start: float = 0.3) -> None:
        super().__init__()
        noise = [torch.randn(features, features, generator=generator, dtype=torch.float64) for _ in range(layers)]
        eye = torch.eye(features, dtype=torch.float64)
        self.A = nn.ParameterList([nn.Parameter(start * (eye + 0.1 * part)) for part in noise])

    def forward(self, tokens: Tensor) -> Tensor:
        """Return minus the residual channel of every token, which on the query is the prediction."""
        X, r = tokens[..., :-1], tokens[..., -1]
        k = X.shape[-2] - 1
        for A in self.A:
            scores = (X @ A) @ X[..., :-1, :].mT  # every token reads the supports
            r = r - (scores @ r[..., :-1, None])[..., 0] / k
        return torch.cat([X, -r[..., None]], -1)


def _tasks(count: int, generator: torch.Generator) -> TaskGroup:
    return draw(Setting(SUPPORTS, CONDITION, True, 0.0), FEATURES, count, 8, generator, turn=False)


def _covariance() -> Tensor:
    spectrum = torch.logspace(0, -1, FEATURES, base=CONDITION, dtype=torch.float64)
    return torch.diag(spectrum * FEATURES / spectrum.sum())


def train(layers: int, tasks: int, seed: int) -> LinearAttentionNetwork:
    """Return a network trained to convergence on a fixed set of tasks, one query each, by L-BFGS."""
    network = LinearAttentionNetwork(layers, FEATURES, torch_generator(seed, "initial weights"))
    group = _tasks(tasks, torch_generator(seed, "training tasks"))
    assert group.truth is not None
    truth = group.truth[:, 0]
    pairs = torch.cat([group.X, group.y[..., None]], -1)
    tokens = torch.cat([pairs, torch.nn.functional.pad(group.Xq[:, :1], (0, 1))], 1)
    optimiser = torch.optim.LBFGS(
        network.parameters(), max_iter=ROUNDS, history_size=20, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = (network(tokens)[:, -1, -1] - truth).square().mean()
        value.backward()
        return value

    optimiser.step(loss)
    return network


def step_sizes(network: LinearAttentionNetwork) -> list[float]:
    """Return the step size of every layer as its weights have it: the multiple of Sigma^-1 nearest to A_l."""
    root = torch.linalg.cholesky(_covariance())
    return [float((root.T @ A.detach() @ root).diagonal().mean()) for A in network.A]


def measure(layers: int, tasks: int, seed: int) -> dict[str, Any]:
    """Return what is said about a trained network and about its untrained twin, and the step sizes of both sources."""
    network = train(layers, tasks, seed)
    group = _tasks(72, torch_generator(seed, "tasks to identify on"))
    design = Tasks("the training distribution", (group,), _covariance())
    first, second = design.halves()
    fitted = Problems(first)
    held_out = Problems(second, fitted)
    families = [family for family in FAMILIES.values() if family.suits(fitted)]

    def ask(module: nn.Module) -> tuple[Any, Any, Any]:
        learner = Learner(QueryLast(module))
        f, held = (torch.cat([learner(one.X, one.y, one.Xq) for one in half.groups]) for half in (first, second))
        candidates = fit(families, fitted, f)
        similar = {one.score: one for one in published_similarities(candidates, held_out, held)}
        return judge(candidates, held_out, held, seed=seed), candidates, similar

    verdict, candidates, similar = ask(network)
    untrained = LinearAttentionNetwork(layers, FEATURES, torch_generator(seed, "untrained weights"), start=0.05)
    with torch.no_grad():
        for A in untrained.A:
            A.copy_(torch.randn(A.shape, generator=torch_generator(seed, "untrained", len(A)), dtype=torch.float64))
    null, _, null_similar = ask(untrained)
    ours = next(one for one in candidates if one.family.name == "gd_covariance" and one.member.steps == layers)
    weights, fits = sorted(step_sizes(network)), sorted(ours.values.values())
    apart = max(abs(a - b) / abs(b) for a, b in zip(fits, weights, strict=False)) if len(fits) == len(weights) else None
    return {
        "answer": verdict.name,
        "identified": " ".join(sorted(verdict.keys)),
        "right": verdict.reason is None and ours.key in verdict.keys,
        "reason": None if verdict.reason is None else verdict.reason.name,
        "unexplained": verdict.unexplained,
        "steps_by_outputs": " ".join(f"{size:.4f}" for size in fits),
        "steps_by_weights": " ".join(f"{size:.4f}" for size in weights),
        "apart": apart,
        "untrained": "abstains" if null.reason is not None else null.name,
        "sim_e": similar["SimE"].key, "sim_e_value": similar["SimE"].value,
        "sim_e_untrained": null_similar["SimE"].value, "sim_w_untrained": null_similar["SimW"].value,
    }  # fmt: skip


STUDY = Study(
    name="identify-trained",
    version=1,
    what="What `identify` says about trained linear attention, beside its weights and its untrained twin.",
    function="ridgeformer.studies.trained_learners:measure",
    presets={
        "quick": Preset(product(layers=[1], tasks=[2000]), seeds=1),
        "default": Preset(product(layers=[1, 2], tasks=[16_000]), seeds=5),
        "paper": Preset(product(layers=[1, 2, 3, 4], tasks=[64_000]), seeds=10),
    },
    seconds=1800.0,
)
