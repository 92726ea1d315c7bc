"""How easily the influences on these data change sign, beside the controls that give a flip rate a meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.influence import (
    AttentionFeatures,
    Malleability,
    Network,
    RawFeatures,
    UnitRows,
    malleability,
    network_malleability,
)
from ridgeformer.influence.features import Features
from ridgeformer.solving import solve

__all__ = ["CONTROLS", "Flips", "Malleable", "examine_malleability"]

TAU = 0.1
"""Fraction of the training rows that is moved: the most influential."""

CONTROLS = {
    "noise": "random noise",
    "redrawn": "no attack, network re-initialised",
    "attacked": "attack on the training loss",
    "adaptive": "attack on the influence itself",
}
"""Treatments of the rows, in words; the first two are controls."""


@dataclass(frozen=True)
class Flips:
    """Share of the most influential points whose influence changed sign, one a draw.

    Attributes:
        model: Whose influences.
        size: Of the attack, as a multiple of a typical entry of the rows.
        control: A key of CONTROLS.
        shares: One a draw.
    """

    model: str
    size: float
    control: str
    shares: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the draws."""
        return float(np.mean(self.shares))


@dataclass(frozen=True)
class Malleable:
    """Flip rates of every model, size and control.

    Attributes:
        rows, moved, queries: Training rows, how many of them were moved, and held-out rows.
        typical: The typical entry that sizes are multiples of.
        flips: One a model, size and control.
    """

    rows: int
    moved: int
    queries: int
    typical: float
    flips: tuple[Flips, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Whose influences were looked at."""
        return tuple(dict.fromkeys(flips.model for flips in self.flips))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes of attack."""
        return tuple(dict.fromkeys(flips.size for flips in self.flips))

    def of(self, model: str, size: float, control: str) -> Flips | None:
        """Return one entry; None where a model has no such control."""
        wanted = (model, size, control)
        return next((flips for flips in self.flips if (flips.model, flips.size, flips.control) == wanted), None)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return asdict(self)


def examine_malleability(data: Split, certified: Certified, settings: Settings) -> Malleable:
    """Move the most influential rows of a small draw, by an attack and by random-sign noise, and count changes of sign.

    Raises:
        InputError: one class only in the draw, a singular system, ...
    """
    typical = float(data.X.square().mean().sqrt())
    found: dict[tuple[str, float, str], list[float]] = {}
    made: Malleability | None = None
    for draw in range(settings.repeats):
        for model, run in _models(data, certified, settings, settings.seed + draw).items():
            for size in settings.attack_sizes:
                made = run(size * typical)
                for control in CONTROLS:
                    comparison = getattr(made, control)
                    if comparison is not None:
                        found.setdefault((model, size, control), []).append(comparison.flips_top)
    assert made is not None
    flips = tuple(Flips(*key, tuple(shares)) for key, shares in found.items())
    return Malleable(len(made.before), len(made.top), made.before.shape[1], typical, flips)


def _models(
    data: Split, certified: Certified, settings: Settings, seed: int
) -> dict[str, Callable[[float], Malleability]]:
    """Return, for each model, the function from an attack's size to what it did to the influences."""
    generator = torch_generator(seed, "malleability rows")
    train = torch.randperm(len(data.X), generator=generator)[: settings.attack_rows]
    test = torch.randperm(len(data.Xt), generator=generator)[: settings.attack_queries]
    problem = data.X[train], data.y[train], data.Xt[test], data.yt[test]
    measure = "true_class" if data.labels is not None else "output" if data.y.shape[1] == 1 else "loss"
    network = Network(width=settings.attack_width)
    attacked: dict[str, Any] = {"measure": measure, "seed": seed}

    X, y, Xq, yq = problem
    small = solve(certified.fit.kernel, X, y, certified.fit.ridge, algorithm="direct")

    def fit(eps: float) -> Malleability:
        return malleability(small, Xq, yq, settings.attack(eps), TAU, **attacked)

    def network_behind(features: Features) -> Callable[[float], Malleability]:
        return lambda eps: network_malleability(
            network, *problem, settings.attack(eps), TAU, features=UnitRows(features), **attacked
        )

    return {
        "the certified fit": fit,
        "ReLU network": network_behind(RawFeatures()),
        "ReLU network behind attention": network_behind(AttentionFeatures()),
    }
