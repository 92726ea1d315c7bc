"""A study: a named, versioned grid of pure tasks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ridgeformer import datasets
from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.datasets import Dataset
from ridgeformer.studies.task import StudyTask, as_json

__all__ = ["Preset", "Study", "load_once", "product"]


@lru_cache(maxsize=1)
def load_once(data: str) -> Dataset:
    """Load a dataset once a process: reading images takes longer than many a task on some of them."""
    return datasets.load(data)


def product(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every combination of the axes' values; lists of points are joined with +.

    Example:
        >>> product(route=["linear"], width=[1, 2])
        [{'route': 'linear', 'width': 1}, {'route': 'linear', 'width': 2}]
    """
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


@dataclass(frozen=True)
class Preset:
    """One size of a study: the parameters of every point, and how often each is repeated."""

    points: Sequence[Mapping[str, Any]]
    seeds: int = 1

    def __len__(self) -> int:
        return len(self.points) * self.seeds

    def with_axes(self, **axes: Sequence[Any]) -> Preset:
        """Return the same grid with other values of some parameters.

        Example:
            >>> Preset(product(data=["digits"], width=[1, 2]), seeds=3).with_axes(data=["mnist"]).points
            [{'data': 'mnist', 'width': 1}, {'data': 'mnist', 'width': 2}]
        """
        known = list(dict.fromkeys(name for point in self.points for name in point))
        for name in axes:
            if name not in known:
                raise unknown_name("parameter", name, known)
        points: list[dict[str, Any]] = []
        for point, values in itertools.product(self.points, product(**axes)):
            changed = {**point, **{name: value for name, value in values.items() if name in point}}
            if changed not in points:
                points.append(changed)
        return replace(self, points=points)


@dataclass(frozen=True)
class Study:
    """A grid of tasks under a name.

    Attributes:
        version: Raise it when the function computes something else: all is then computed again.
        what: One sentence.
        function: "module:function"; called with a point's parameters and `seed`, returns a dictionary of values or a
            list of such rows. It must be pure: the same arguments, the same answer.
        presets: Sizes by name, usually quick, default and paper.
        within: Columns of the values that are coordinates, such as a step; intervals are taken at each.
        seed: Of the whole study; every task's own is spawned from it.
        seconds, memory: Budgets of a task, in seconds and bytes.
    """

    name: str
    version: int
    what: str
    function: str
    presets: Mapping[str, Preset]
    within: tuple[str, ...] = ()
    seed: int = 0
    seconds: float | None = None
    memory: int | None = None

    def preset(self, name: str) -> Preset:
        """Return a preset by name."""
        if name not in self.presets:
            raise unknown_name(f"preset of {self.name}", name, self.presets)
        return self.presets[name]

    def with_options(self, preset: str, *, seeds: int | None = None, **axes: Sequence[Any]) -> Study:
        """Return the study with a preset whose number of seeds or parameters are others; stored results stay valid.

        Example:
            >>> study = Study("demo", 1, "Nothing.", "math:sqrt", {"quick": Preset(product(x=[1, 2]), seeds=2)})
            >>> [(task.params["x"], task.seed) for task in study.with_options("quick", seeds=1, x=[5]).tasks("quick")]
            [(5, 0)]
        """
        chosen = self.preset(preset).with_axes(**axes)
        if seeds is not None:
            chosen = replace(chosen, seeds=whole(seeds, "seeds", 1))
        return replace(self, presets={**self.presets, preset: chosen})

    def tasks(self, preset: str) -> list[StudyTask]:
        """Return the tasks of a preset, in the order of the grid; the same point twice is refused.

        Example:
            >>> study = Study("demo", 1, "Nothing.", "math:sqrt", {"quick": Preset(product(x=[1, 2]), seeds=2)})
            >>> [(task.params["x"], task.seed) for task in study.tasks("quick")]
            [(1, 0), (1, 1), (2, 0), (2, 1)]
        """
        chosen = self.preset(preset)
        whole(chosen.seeds, "seeds", 1)
        tasks = [
            StudyTask(self.name, self.version, self.function, point, seed, self.seed, self.seconds, self.memory)
            for point in chosen.points
            for seed in range(chosen.seeds)
        ]
        keys = [task.key for task in tasks]
        if len(set(keys)) < len(keys):
            twice = next(task for task in tasks if keys.count(task.key) > 1)
            raise InputError(f"{self.name}, preset {preset}: {as_json(twice.params)} is there twice: name it once.")
        return tasks
