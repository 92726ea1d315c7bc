"""What a forward pass did, step by step, read from the named channels of the stream and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.compiler.execution import Reading

__all__ = ["Trace", "collect"]


@dataclass(frozen=True, eq=False)
class Trace:
    """The values of every recorded channel after each step.

    Attributes:
        values: Name to (steps, ..., tokens, outputs): alpha, r, p, gamma, rho (as far as the program has them)
            on the supports, and f, the prediction, on the queries.
        steps: How many steps there were.
    """

    values: dict[str, Tensor]
    steps: int

    def __getattr__(self, name: str) -> Tensor:
        values = self.__dict__.get("values", {})
        if name in values:
            found: Tensor = values[name]
            return found
        raise AttributeError(f"this program records {', '.join(sorted(values))}, not {name!r}")


def collect(readings: Iterable[Reading], steps: int) -> Trace:
    """Return the trace of a run; a reading with a lag belongs to an earlier step, one before the first to none."""
    found: dict[str, dict[int, Tensor]] = {}
    for section, record, value in readings:
        step = (steps if section == "readout" else int(section.split()[1])) - record.lag
        if step >= 1:
            found.setdefault(record.name, {})[step] = value.clone()
    return Trace({name: torch.stack([by[s] for s in sorted(by)]) for name, by in found.items()}, steps)
