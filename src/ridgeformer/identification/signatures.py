"""Signatures: symmetries of the predictions, which need no candidate, and the published similarity scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.words import listed, number
from ridgeformer.identification.candidates import Candidate
from ridgeformer.identification.learner import Learner
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.tasks import TaskGroup, Tasks

__all__ = ["Signatures", "Similarity", "measure_signatures", "published_similarities"]

HOLDS = 0.02


@dataclass(frozen=True)
class Signatures:
    """Relative root-mean-square violations of symmetries; None where the model could not be run on the changed task.

    Attributes:
        additivity: f(y1 + y2) = f(y1) + f(y2); holds for linear smoothers, fails for CG stopped early.
        homogeneity: f(2 y) = 2 f(y).
        linearity: Predictions linear in the query; fails for kernel averages.
        rotation: Rotated rows give the same predictions; fails for a fixed preconditioner.
        scale: Doubled rows give the same predictions; fails for fixed step sizes.
        duplicates: Doubled supports give the same predictions; fails for sums over supports.
        order: Supports in another order give the same predictions; fails for one pass over them.
    """

    additivity: float | None
    homogeneity: float | None
    linearity: float | None
    rotation: float | None
    scale: float | None
    duplicates: float | None
    order: float | None

    @property
    def sentence(self) -> str:
        """Which symmetries hold."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        holds = [name for name, value in known.items() if value <= HOLDS]
        fails = [f"{name} ({number(value, 2)})" for name, value in known.items() if value > HOLDS]
        first = f"Symmetries that hold within {HOLDS:.0%}: {listed(holds) or 'none'}"
        return f"{first}; that fail: {listed(fails) or 'none'}."


def measure_signatures(learner: Learner, tasks: Tasks, *, seed: int = 0, most: int = 12) -> Signatures:
    """Return the signatures of a model on a few tasks of every group."""
    few = [group.take(slice(0, most)) for group in tasks.groups]
    found = {
        field.name: _violation(learner, few, field.name, torch_generator(seed, "signature", field.name))
        for field in fields(Signatures)
    }
    return Signatures(**found)


def _violation(learner: Learner, groups: Sequence[TaskGroup], name: str, generator: torch.Generator) -> float | None:
    violations, sizes = 0.0, 0.0
    for group in groups:
        X, y, Xq = group.X, group.y, group.Xq
        try:
            base = learner(X, y, Xq)
            expected, found = base, base
            if name == "additivity":
                other = y[torch.randperm(len(y), generator=generator)]
                expected, found = base + learner(X, other, Xq), learner(X, y + other, Xq)
            elif name == "homogeneity":
                expected, found = 2 * base, learner(X, 2 * y, Xq)
            elif name == "linearity":
                expected, found = (base + base.roll(1, 1)) / 2, learner(X, y, (Xq + Xq.roll(1, 1)) / 2)
            elif name == "rotation":
                d = X.shape[-1]
                Q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64)).Q
                found = learner(X @ Q, y, Xq @ Q)
            elif name == "scale":
                found = learner(2 * X, y, 2 * Xq)
            elif name == "duplicates":
                found = learner(torch.cat([X, X], 1), torch.cat([y, y], 1), Xq)
            else:
                order = torch.randperm(X.shape[1], generator=generator)
                found = learner(X[:, order], y[:, order], Xq)
        except Exception:  # a model may refuse longer sequences or larger rows; then the signature is unknown
            return None
        unit = float(base.square().mean()) or 1.0
        violations += float((found - expected).square().mean()) / unit
        sizes += float(expected.square().mean()) / unit
    value = (violations / sizes) ** 0.5 if sizes else float("nan")
    return value if value == value and value != float("inf") else None


@dataclass(frozen=True)
class Similarity:
    """The best match by a published score, for comparison: it names an algorithm whatever the model is.

    Attributes:
        score: SimE (cosine of the errors on queries) or SimW (of the induced weights), mean over tasks.
        candidate: Title of the best match.
        key: Its short name.
        value: Its similarity.
    """

    score: str
    candidate: str
    key: str
    value: float


def published_similarities(
    candidates: Sequence[Candidate], problems: Problems, f: Tensor, predictions: Tensor | None = None
) -> tuple[Similarity, ...]:
    """Return the best match by SimE and by SimW; SimE needs the true targets of the queries."""
    g = torch.stack([one.predict(problems) for one in candidates]) if predictions is None else predictions
    g = torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0)
    found = []
    truths = [group.truth for group in problems.groups]
    if all(truth is not None for truth in truths):
        truth = torch.cat([truth for truth in truths if truth is not None])
        found.append(("SimE", torch.nn.functional.cosine_similarity(g - truth, (f - truth)[None], dim=2).mean(1)))
    Xq = torch.cat([group.Xq for group in problems.groups])
    if Xq.shape[1] >= Xq.shape[2]:
        inverse = torch.linalg.pinv(Xq)  # (T, d, q)
        ours, theirs = (inverse @ f[..., None])[..., 0], torch.einsum("tdq,ctq->ctd", inverse, g)
        found.append(("SimW", torch.nn.functional.cosine_similarity(theirs, ours[None], dim=2).mean(1)))
    best = [(score, int(values.argmax()), values) for score, values in found]
    return tuple(
        Similarity(score, candidates[place].title, candidates[place].key, float(values[place]))
        for score, place, values in best
    )
