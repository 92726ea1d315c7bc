"""What a compiled transformer costs, and what of it a stock transformer does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP

if TYPE_CHECKING:
    from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["Budget", "count"]


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
