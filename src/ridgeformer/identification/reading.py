"""Streams that can be read and changed: compiled models, exports and torch modules with named layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ridgeformer.compiler import CompiledTransformer
from ridgeformer.core.errors import InputError
from ridgeformer.export import Export
from ridgeformer.identification.adapters import Adapter
from ridgeformer.identification.tasks import TaskGroup
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, NULL, QUERY, SUPPORT, Tokens

__all__ = ["Readable", "readable"]


class Readable(ABC):
    """A model whose stream can be read at some sites, on the support tokens, and changed there."""

    steps: int | None = None
    """Steps of its algorithm, where known."""

    @property
    @abstractmethod
    def sites(self) -> tuple[str, ...]:
        """Names of the sites in order."""

    @abstractmethod
    def read(self, group: TaskGroup) -> list[Tensor]:
        """Return the stream at every site, (T, k, hidden)."""

    @abstractmethod
    def patch(self, group: TaskGroup, site: int, change: Tensor) -> Tensor:
        """Return the predictions, (T, q), after adding `change`, (T, k, hidden), to the stream at a site."""


def readable(model: object, layers: Sequence[str] | None) -> Readable | None:
    """Return the readable stream of a model, or None where there is none."""
    if isinstance(model, CompiledTransformer):
        return _Compiled(model)
    if isinstance(model, Export) and model.io.target != "lens":
        return _Exported(model)
    if isinstance(model, Adapter) and layers:
        return _Hooked(model, tuple(layers))
    return None


@dataclass(eq=False)
class _Compiled(Readable):
    """A compiled model, read at the end of every step."""

    model: CompiledTransformer

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.model.spec.steps

    @cached_property
    def sites(self) -> tuple[str, ...]:
        ends: dict[str, str] = {}
        for section, instruction, _ in self.model.sublayers:
            if section.startswith("step"):
                ends[section] = f"{section}.{instruction.name}"
        return tuple(ends.values())

    def _rows(self, group: TaskGroup) -> slice:
        return self.model.tokens(group.X.shape[1], group.Xq.shape[1]).rows(SUPPORT)

    def read(self, group: TaskGroup) -> list[Tensor]:
        found: dict[str, Tensor] = {}
        rows = self._rows(group)

        def keep(place: str, sublayer: object, before: Tensor, after: Tensor) -> None:
            if place in self.sites:
                found[place] = after[..., rows, :].detach().double()

        with torch.no_grad():
            self.model.run_with_hook(keep, group.X, group.y, group.Xq)
        return [found[site] for site in self.sites]

    def patch(self, group: TaskGroup, site: int, change: Tensor) -> Tensor:
        rows = self._rows(group)

        def move(place: str, sublayer: object, before: Tensor, after: Tensor) -> Tensor | None:
            if place != self.sites[site]:
                return None
            moved = after.clone()
            moved[..., rows, :] += change
            return moved

        with torch.no_grad():
            trace = self.model.run_with_hook(move, group.X, group.y, group.Xq)
        return trace.f[-1][..., 0].double()


def _blocks(module: nn.Module, layers: int) -> nn.ModuleList:
    """Return the list of layers of a stock class."""
    for part in module.modules():
        if isinstance(part, nn.ModuleList) and len(part) == layers:
            return part
    raise InputError(f"{type(module).__name__} has no list of {layers} layers to read: give layers=[] to leave it out.")


@dataclass(eq=False)
class _Exported(Readable):
    """A stock class, read at the end of every step; its basis may be rotated."""

    model: Export

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.model.io.spec.steps

    @cached_property
    def _ends(self) -> dict[str, int]:
        """Layer at the end of every step."""
        ends: dict[str, int] = {}
        for name, (layer, _) in self.model.io.layers.items():
            section = name.partition(".")[0]
            if section.startswith("step"):
                ends[section] = max(layer, ends.get(section, 0))
        return ends

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self._ends)

    def _rows(self, group: TaskGroup) -> slice:
        k, q = group.X.shape[1], group.Xq.shape[1]
        counts = {SUPPORT: k, ANCHOR: k, AGGREGATOR: 1, NULL: 1, QUERY: q}
        return Tokens({role: counts[role] for role in self.model.io.roles}).rows(SUPPORT)

    def _run(self, group: TaskGroup, layer: int | None, change: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        blocks = _blocks(self.model.model, len({node.layer for node in self.model.io.circuit.nodes}) - 2)
        seen: dict[int, Tensor] = {}
        rows = self._rows(group)

        def hook(number: int) -> Callable[..., object]:
            def act(module: nn.Module, inputs: object, output: object) -> object:
                hidden = output[0] if isinstance(output, tuple) else output
                assert isinstance(hidden, Tensor)
                if number == layer and change is not None:
                    hidden = hidden.clone()
                    hidden[:, rows] += change.to(hidden)
                seen[number] = hidden[:, rows].double()
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            return act

        handles = [blocks[number].register_forward_hook(hook(number)) for number in set(self._ends.values())]
        try:
            parts = self.model(group.X, group.y, group.Xq)
        finally:
            for handle in handles:
                handle.remove()
        q = group.Xq.shape[1]  # a change that hits the columns of roles leaves no query to read: unknown
        found = torch.stack([part[..., 0] if len(part) == q else torch.full((q,), torch.nan) for part in parts])
        return found.double(), [seen[number] for number in self._ends.values()]

    def read(self, group: TaskGroup) -> list[Tensor]:
        return self._run(group, None, None)[1]

    def patch(self, group: TaskGroup, site: int, change: Tensor) -> Tensor:
        return self._run(group, list(self._ends.values())[site], change)[0]


@dataclass(eq=False)
class _Hooked(Readable):
    """A module in an adapter, read at the outputs of named submodules: the first k tokens, query by query.

    Supports are read behind the first query; a change is made behind every query.
    """

    model: Adapter
    layers: tuple[str, ...]

    def __post_init__(self) -> None:
        known = dict(self.model.module.named_modules())
        for name in self.layers:
            if name not in known:
                raise InputError(
                    f"the module has no layer {name!r}: name submodules, such as {', '.join(list(known)[1:4])}."
                )

    @property
    def sites(self) -> tuple[str, ...]:
        return self.layers

    def _run(self, group: TaskGroup, site: int | None, change: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        T, k, q = len(group.X), group.X.shape[1], group.Xq.shape[1]
        seen: dict[int, list[Tensor]] = {}
        known = dict(self.model.module.named_modules())
        stride = self.model.tokens_a_support

        def hook(number: int) -> Callable[..., object]:
            def act(module: nn.Module, inputs: object, output: object) -> object:
                hidden = output[0] if isinstance(output, tuple) else output
                assert isinstance(hidden, Tensor)
                if number == site and change is not None:
                    hidden = hidden.clone()
                    rows = slice(stride - 1, stride * k, stride)
                    hidden[:, rows] += change.repeat_interleave(q, 0).to(hidden)
                seen.setdefault(number, []).append(hidden[::q, stride - 1 : stride * k : stride].double())
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            return act

        handles = [known[name].register_forward_hook(hook(number)) for number, name in enumerate(self.layers)]
        whole = self.model.with_batch(T * q)
        try:
            found = whole(group.X, group.y, group.Xq)
        finally:
            for handle in handles:
                handle.remove()
        return found, [torch.cat(seen[number]) for number in range(len(self.layers))]

    def read(self, group: TaskGroup) -> list[Tensor]:
        return self._run(group, None, None)[1]

    def patch(self, group: TaskGroup, site: int, change: Tensor) -> Tensor:
        return self._run(group, site, change)[0]
