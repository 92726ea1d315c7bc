"""The forward pass as the weights say it, matrix by matrix: slow, transparent, differentiable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.language.program import Record
from ridgeformer.language.roles import Tokens

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Hook", "Reading", "run_literally"]

Hook = Callable[[str, AttentionSublayer | GatedMLP, Tensor, Tensor], Tensor | None]
"""Called with (place, sublayer, stream before, stream after); what it returns, if anything, is the stream."""

Reading = tuple[str, Record, Tensor]
"""What a record read: the section it stands in, the record, and the channel on the tokens of its role."""


def run_literally(
    model: CompiledTransformer,
    stream: Tensor,
    tokens: Tokens,
    hook: Hook | None = None,
    wanted: frozenset[int] | None = None,
) -> Iterator[Reading]:
    """Run every sublayer on the stream (..., tokens, width); yield what the records read on the way.

    Args:
        model: Whose weights.
        stream: As `model.stream` makes it.
        tokens: The sequence.
        hook: Sees, and may replace, the stream after every sublayer.
        wanted: Places in the schedule whose records are to be read; None is all.
    """
    for place, (section, instruction, sublayer) in enumerate(model.schedule):
        if isinstance(instruction, Record):
            if wanted is None or place in wanted:
                value = model.channel(instruction.channel, stream, instruction.role, tokens)
                yield section, instruction, instruction.scale * value
            continue
        assert sublayer is not None
        after: Tensor = sublayer(stream, tokens)
        if hook is not None:
            replaced = hook(f"{section}.{instruction.name}", sublayer, stream, after)
            after = after if replaced is None else replaced
        stream = after
