"""A compiled transformer in words: what each channel holds, what each sublayer does."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ridgeformer.language.program import Attend, Gate, Instruction, Record

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["explain"]


def explain(model: CompiledTransformer) -> str:
    """Return the budget, the channel map and the program as text."""
    spec, budget = model.spec, model.budget
    stock = "; ".join(budget.beyond_stock) or "nothing"
    lines = [
        f"{model.program.name}, {spec.steps} steps, ridge {spec.ridge:g}",
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


def _columns(model: CompiledTransformer, name: str) -> str:
    columns = model.layout.columns[name]
    if len(columns) == 1:
        return str(columns[0])
    if columns == tuple(range(columns[0], columns[-1] + 1)):
        return f"{columns[0]}-{columns[-1]}"
    return ",".join(map(str, columns))


def _instructions(section: list[Instruction]) -> list[str]:
    """Return one line an instruction; neighbours that do the same share one."""
    sublayers = [instruction for instruction in section if not isinstance(instruction, Record)]
    runs = [list(run) for _, run in groupby(sublayers, lambda one: (type(one), one.caption, one.clear))]
    return [_line(run[0], len(run)) for run in runs]


def _line(instruction: Attend | Gate, times: int) -> str:
    kind = "attention" if isinstance(instruction, Attend) else "gated"
    cleared = f"   [clears {', '.join(instruction.clear)}]" if instruction.clear else ""
    repeated = f"   [{times} times]" if times > 1 else ""
    return f"  {kind:<10} {instruction.name:<20} {instruction.caption}{cleared}{repeated}"
