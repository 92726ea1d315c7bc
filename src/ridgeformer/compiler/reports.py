"""Reports on a compiled transformer: its cost, its channels and sublayers in words, and a run step by step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ridgeformer.compiler.execution import Reading
from ridgeformer.compiler.specification import Specification
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.language.program import Attend, Gate, Instruction

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Budget", "Trace", "collect", "count", "explain"]


def explain(model: CompiledTransformer) -> str:
    """Return the budget, the channel map and the program as text."""
    spec, budget = model.spec, model.budget
    stock = "; ".join(budget.beyond_stock) or "nothing"
    lines = [
        f"{model.program.name}, {spec.steps} steps, {_options(spec)}",
        f"width {budget.width} = {model.layout.features} features + {budget.overhead}; a step has "
        f"{budget.attention_per_step} attention sublayers ({budget.heads_per_step} heads) and {budget.gated_per_step} "
        f"gated ones; {budget.sublayers} sublayers in all",
        f"{budget.parameters:,} weights, {budget.nonzeros:,} of them not zero; beyond a stock transformer: {stock}",
        "",
        "channels",
    ]
    lines += [
        f"  {_columns(model, name):<9} {name:<11} {channel.meaning}" for name, channel in model.program.channels.items()
    ]
    for title, section in (
        ("before the first step", model.program.prelude),
        (
            "every step" if model.program.uniform else "step 1 (coefficients change from step to step)",
            model.program.steps[0],
        ),
        ("after the last step", model.program.readout),
    ):
        if section:
            lines += ["", title, *_instructions(section)]
    return "\n".join(lines)


def _options(spec: Specification) -> str:
    """Return the ridge, or the options of a program of one's own."""
    if not spec.written:
        return f"ridge {spec.ridge:g}"
    given = {option.name: getattr(spec.algorithm, option.name) for option in fields(spec.algorithm)}
    return ", ".join(f"{name} {value:g}" for name, value in given.items() if name != "steps" and value is not None)


def _columns(model: CompiledTransformer, name: str) -> str:
    columns = model.layout.columns[name]
    if len(columns) == 1:
        return str(columns[0])
    if columns == tuple(range(columns[0], columns[-1] + 1)):
        return f"{columns[0]}-{columns[-1]}"
    return ",".join(map(str, columns))


def _instructions(section: list[Instruction]) -> list[str]:
    """Return one line an instruction; neighbours that do the same share one."""
    sublayers = [instruction for instruction in section if isinstance(instruction, Attend | Gate)]
    runs = [list(run) for _, run in groupby(sublayers, lambda one: (type(one), one.caption, one.clear))]
    return [_line(run[0], len(run)) for run in runs]


def _line(instruction: Attend | Gate, times: int) -> str:
    kind = "attention" if isinstance(instruction, Attend) else "gated"
    cleared = f"   [clears {', '.join(instruction.clear)}]" if instruction.clear else ""
    repeated = f"   [{times} times]" if times > 1 else ""
    return f"  {kind:<10} {instruction.name:<20} {instruction.caption}{cleared}{repeated}"


@dataclass(frozen=True)
class Budget:
    """The size of a compiled transformer.

    Attributes:
        width: Columns of the residual stream.
        overhead: Columns beyond the features: the c of "width p + c".
        heads_per_step: Attention heads in one step.
        attention_per_step: Attention sublayers in one step.
        gated_per_step: Gated sublayers in one step.
        widest_gated: Units of the widest gated sublayer, 0 if there is none.
        sublayers: Sublayers a token passes through in all.
        parameters: Numbers in the weights; tied steps count once.
        nonzeros: Those that are not zero.
        beyond_stock: What a stock transformer (softmax attention, SwiGLU or ReLU) does not have.
    """

    width: int
    overhead: int
    heads_per_step: int
    attention_per_step: int
    gated_per_step: int
    widest_gated: int
    sublayers: int
    parameters: int
    nonzeros: int
    beyond_stock: tuple[str, ...]


def count(model: CompiledTransformer) -> Budget:
    """Return the budget of a model."""
    passed = [sublayer for _, _, sublayer in model.schedule if sublayer is not None]
    step = [sublayer for section, _, sublayer in model.schedule if section == "step 1" and sublayer is not None]
    attention = [sublayer for sublayer in step if isinstance(sublayer, AttentionSublayer)]
    weights = [parameter.detach() for parameter in model.parameters()]
    return Budget(
        width=model.layout.width,
        overhead=model.layout.width - model.layout.features,
        heads_per_step=sum(len(sublayer.heads) for sublayer in attention),
        attention_per_step=len(attention),
        gated_per_step=len(step) - len(attention),
        widest_gated=max((len(sublayer.gates) for sublayer in passed if isinstance(sublayer, GatedMLP)), default=0),
        sublayers=len(passed),
        parameters=sum(weight.numel() for weight in weights),
        nonzeros=sum(int((weight != 0).sum()) for weight in weights),
        beyond_stock=_beyond_stock(passed),
    )


def _beyond_stock(sublayers: list[AttentionSublayer | GatedMLP]) -> tuple[str, ...]:
    kinds = {kind for sublayer in sublayers if isinstance(sublayer, AttentionSublayer) for kind in sublayer.kinds}
    gates = {gate for sublayer in sublayers if isinstance(sublayer, GatedMLP) for gate in sublayer.gates}
    found = []
    if "linear" in kinds:
        found.append("linear attention (no softmax)")
    if "identity" in gates:
        found.append("bilinear units (a gate without its sigmoid)")
    if "reciprocal" in gates:
        found.append("guarded reciprocal units")
    return tuple(found)


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
