"""TransformerLens: its native model has no norm and a bidirectional mode, so that nothing has to be switched off."""

from __future__ import annotations

import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from ridgeformer.export.interface import Interface, describe
from ridgeformer.export.lowering import Basis, Lowered, fill
from ridgeformer.export.rms import power_of_four

__all__ = ["bridge"]


def bridge(lowered: Lowered, rotate: int | None) -> tuple[TransformerBridge, Interface]:
    """Return a native bridge, called with the hidden states of the input; its logits are the predictions.

    Logits have one column more than there are outputs: 1 on queries.
    """
    size, gated = power_of_four(lowered.head_size), any(block.gated for block in lowered.blocks)
    basis, outputs = Basis.choose(lowered.width, lowered.width, rotate), lowered.model.spec.outputs
    config = TransformerBridgeConfig(
        d_model=lowered.width, d_head=size, n_heads=lowered.heads, n_layers=len(lowered.blocks),
        n_ctx=lowered.max_tokens, d_mlp=lowered.units, d_vocab=2, d_vocab_out=outputs + 1, act_fn="silu",
        gated_mlp=gated, attn_only=not gated, attention_dir="bidirectional", normalization_type=None,
        positional_embedding_type="standard", init_weights=False, default_prepend_bos=False,
    )  # fmt: skip
    model = TransformerBridge.boot_native(config, dtype=lowered.dtype)
    native = model.original_model
    io = describe(lowered, basis, "lens", causal=False, rotate=rotate)
    answer = next(record for record in reversed(io.records) if record.name == "f")
    with torch.no_grad():
        for parameter in native.parameters():
            parameter.requires_grad_(False).zero_()
        for layer, block in zip(native.layers, lowered.blocks, strict=True):
            W = fill(lowered, block, basis, lowered.heads, size, scale=size**0.5)
            for name, weight in (("q", W.Q), ("k", W.K), ("v", W.V), ("o", W.O)):
                getattr(layer.attn, name).weight.copy_(weight.T)
            if gated:
                for name, weight in (("in", W.a), ("gate", W.b), ("out", W.d)):
                    getattr(layer.mlp, name).weight.copy_(weight.T)
        read = [answer.scale * io.directions[answer.channel].read, io.directions["role query"].read]
        native.head.weight.copy_(torch.cat(read, 1).T)
    return model.eval(), io
