"""Scores of answers: how well nodes and edges were ranked and chosen, and how well probes and patches work."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from ridgeformer.circuits.methods import CircuitAnswer, PatchedRuns
from ridgeformer.circuits.recipes import KnownCircuit
from ridgeformer.core.errors import InputError, ShapeError

__all__ = ["Graded", "Score", "mean_score", "score"]

HELD_OUT = (0, 10)
"""Seeds of the tasks that probes and patches are scored on."""


@dataclass(frozen=True)
class Graded:
    """How well a yes-or-no question was answered by scores; nan where it cannot be said.

    Attributes:
        auc: Area under the ROC curve.
        precision: Fraction of what was chosen that is right.
        recall: Fraction of what is right that was chosen.
    """

    auc: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Score:
    """The score of an answer.

    Attributes:
        nodes, edges: None where the answer says nothing of them.
        probe: Squared correlation of the states along the probe with the variable in question, on new tasks.
        patch: How much of the effect of exchanging the variable is had by exchanging states along the direction: 1 is
            all of it, 0 as good as none, and negative is worse than leaving the model alone.
    """

    nodes: Graded | None
    edges: Graded | None
    probe: float | None
    patch: float | None


def score(known: KnownCircuit, answer: CircuitAnswer) -> Score:
    """Return how good an answer is.

    Where the answer has no threshold, as many nodes and edges count as chosen as there are in truth, highest first.

    Raises:
        InputError: names that the circuit does not have, scores that are not finite, directions of another size.
    """
    truth = known.truth
    probe = None if answer.probe is None else _probe(known, _direction(known, answer.probe, "probe"))
    patch = None if answer.patch is None else _patch(known, _direction(known, answer.patch, "patch"))
    nodes = _graded(truth.nodes, answer.nodes, answer.threshold, known.recipe.name) if answer.nodes else None
    edges = _graded(truth.edges, answer.edges, answer.threshold, known.recipe.name) if answer.edges else None
    return Score(nodes, edges, probe, patch)


def mean_score(scores: Sequence[Score]) -> dict[str, float | None]:
    """Return the mean of every figure over the circuits for which there is one."""
    found: dict[str, float | None] = {}
    for part in ("nodes", "edges"):
        for figure in ("auc", "precision", "recall"):
            graded = [getattr(one, part) for one in scores]
            found[f"{part} {figure}"] = _mean([nan if one is None else getattr(one, figure) for one in graded])
    for part in ("probe", "patch"):
        found[part] = _mean([nan if getattr(one, part) is None else getattr(one, part) for one in scores])
    return found


def _mean(values: list[float]) -> float | None:
    kept = [value for value in values if isfinite(value)]
    return sum(kept) / len(kept) if kept else None


def _graded(truth: Mapping, given: Mapping, threshold: float | None, name: str) -> Graded:  # type: ignore[type-arg]
    """Compare scores with a truth; what the truth leaves open is left out, what the answer leaves out scores 0."""
    unknown: list[Hashable] = [key for key in given if key not in truth]
    if unknown:
        raise InputError(f"{name} has no {unknown[0]!r}: answer about the nodes and edges that its truth lists.")
    broken = [key for key, value in given.items() if not isfinite(value)]
    if broken:
        raise InputError(f"the score of {broken[0]!r} of {name} is {given[broken[0]]}: give finite scores.")
    keys = [key for key, found in truth.items() if found is not None]
    right = np.array([bool(truth[key]) for key in keys])
    scores = np.array([float(given.get(key, 0.0)) for key in keys])
    if not right.any() or right.all():
        return Graded(nan, nan, nan)
    if threshold is None:
        order = np.argsort(-scores, kind="stable")
        chosen = np.zeros(len(keys), dtype=bool)
        chosen[order[: int(right.sum())]] = True
    else:
        chosen = scores > threshold
    hits = int((chosen & right).sum())
    precision = hits / int(chosen.sum()) if chosen.any() else nan
    return Graded(float(roc_auc_score(right, scores)), precision, hits / int(right.sum()))


def _direction(known: KnownCircuit, given: tuple[float, ...], what: str) -> Tensor:
    width, found = known.export.model.cfg.d_model, torch.tensor(given, dtype=torch.float64)
    if found.shape != (width,):
        raise ShapeError(f"{what} of {known.recipe.name} has shape {tuple(found.shape)}; ({width},) was expected.")
    if not bool(torch.isfinite(found).all()) or not bool(found.any()):
        raise InputError(f"{what} of {known.recipe.name} is zero or not finite: give a direction.")
    return found


def _probe(known: KnownCircuit, direction: Tensor) -> float | None:
    """Return the squared correlation with the variable in question; None if there is none."""
    question = known.truth.question
    if question is None:
        return None
    name = f"blocks.{question.state - 1}.hook_resid_post"
    with torch.no_grad():
        _, cache = known.export.model.run_with_cache(known.embeds(*range(*HELD_OUT)), names_filter=[name])
    states = cache[name][:, known.tokens[question.role]].flatten(0, 1)
    pair = torch.stack([states @ direction, known.export.io.channel(question.channel, states)[:, 0]])
    return float(torch.corrcoef(pair)[0, 1].nan_to_num(0.0).square())


def _patch(known: KnownCircuit, direction: Tensor) -> float | None:
    """Return the fraction of the effect of an exchange of the variable that an exchange along a direction has."""
    question = known.truth.question
    if question is None:
        return None
    exact = known.export.io.directions[question.channel]
    name, tokens = f"blocks.{question.state - 1}.hook_resid_post", known.tokens[question.role]
    unit = direction / direction.norm()
    missed = whole = 0.0
    for seed in range(HELD_OUT[0], HELD_OUT[1], 2):
        shown = PatchedRuns(known, seed, seed + 1)

        def exchanged(read: Tensor, write: Tensor, shown: PatchedRuns = shown) -> Tensor:
            """Return the predictions when what is read on the tokens of the role is that of the other run."""

            def swap(value: Tensor, hook: object) -> Tensor:
                moved = (shown.other[name] - value) @ read @ write
                return value + moved * tokens[:, None]

            return shown.run([(name, swap)], 1)[0]

        aim = exchanged(exact.read, exact.write)
        found = exchanged(unit[:, None], unit[None])
        missed += float((found - aim).square().sum().nan_to_num(1e30))
        whole += float((shown.predictions - aim).square().sum())
    return 1 - missed / whole
