"""TransformerLens: its native model has no norm and a bidirectional mode, so that nothing has to be switched off."""

from __future__ import annotations

import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from ridgeformer.export.interface import Interface, describe
from ridgeformer.export.lowering import Basis, Lowered, fill, stream_width
from ridgeformer.export.rms import power_of_four

__all__ = ["SETTINGS", "boot", "bridge"]

SETTINGS = (
    "d_model", "d_head", "n_heads", "n_layers", "n_ctx", "d_mlp", "d_vocab", "d_vocab_out", "act_fn", "gated_mlp",
    "attn_only", "attention_dir", "normalization_type", "positional_embedding_type", "init_weights",
    "default_prepend_bos",
)  # fmt: skip
"""What a saved bridge is built from again; everything else keeps the default of TransformerLens."""


def boot(settings: dict[str, object], dtype: torch.dtype) -> TransformerBridge:
    """Return a native bridge of these settings, for inference."""
    model = TransformerBridge.boot_native(TransformerBridgeConfig(**settings), dtype=dtype)
    for parameter in model.original_model.parameters():
        parameter.requires_grad_(False).zero_()
    return model.eval()


def bridge(lowered: Lowered, rotate: int | None) -> tuple[TransformerBridge, Interface]:
    """Return a native bridge, called with the hidden states of the input; its logits are the predictions.

    Logits have one column more than there are outputs: 1 on queries.
    """
    size, gated = power_of_four(lowered.head_size), any(block.gated for block in lowered.blocks)
    hidden, outputs = stream_width(lowered, rotate), lowered.model.spec.outputs
    basis = Basis.choose(lowered.width, hidden, rotate)
    sizes = (hidden, size, lowered.heads, len(lowered.blocks), lowered.max_tokens, lowered.units, 2, outputs + 1)
    switches = ("silu", gated, not gated, "bidirectional", None, "standard", False, False)
    model = boot(dict(zip(SETTINGS, sizes + switches, strict=True)), lowered.dtype)
    native = model.original_model
    io = describe(lowered, basis, "lens", causal=False, rotate=rotate)
    answer = next(record for record in reversed(io.records) if record.name == "f")
    with torch.no_grad():
        for layer, block in zip(native.layers, lowered.blocks, strict=True):
            W = fill(lowered, block, basis, lowered.heads, size, scale=size**0.5)
            for name, weight in (("q", W.Q), ("k", W.K), ("v", W.V), ("o", W.O)):
                getattr(layer.attn, name).weight.copy_(weight.T)
            if gated:
                for name, weight in (("in", W.a), ("gate", W.b), ("out", W.d)):
                    getattr(layer.mlp, name).weight.copy_(weight.T)
        read = [answer.scale * io.directions[answer.channel].read, io.directions["role query"].read]
        native.head.weight.copy_(torch.cat(read, 1).T)
    return model, io
