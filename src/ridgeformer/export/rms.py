"""T5's encoder and Llama: RMSNorm classes with gated SiLU layers, which hold every softmax route.

RMSNorm computes g x / sqrt(mean x^2 + eps), the mean in float32 whatever x is. With eps = 2^126 and g = 2^63 it is the
identity, bit for bit, while the root mean square of x is below 2^51; larger tokens are refused.
"""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaModel, PreTrainedModel, T5Config, T5EncoderModel

from ridgeformer.core.errors import InputError
from ridgeformer.export.interface import Interface, describe
from ridgeformer.export.lowering import Basis, Lowered, fill, stream_width

__all__ = ["EPSILON", "GAIN", "llama", "power_of_four", "t5"]

EPSILON, GAIN = 2.0**126, 2.0**63
"""With these a norm is the identity."""


def power_of_four(size: int) -> int:
    """Return the smallest power of 4 from `size` on: classes divide logits by its root, a power of 2."""
    found = 4
    while found < size:
        found *= 4
    return found


def t5(lowered: Lowered, rotate: int | None) -> tuple[PreTrainedModel, Interface]:
    """Return T5's encoder, called with `inputs_embeds` alone: its attention is bidirectional and does not scale."""
    heads, size, hidden = lowered.heads, lowered.head_size, stream_width(lowered, rotate)
    config = T5Config(
        d_model=hidden, d_kv=size, d_ff=lowered.units, num_layers=len(lowered.blocks), num_heads=heads,
        vocab_size=2, dropout_rate=0.0, layer_norm_epsilon=EPSILON, feed_forward_proj="gated-silu",
        use_cache=False,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model, basis = T5EncoderModel(config), Basis.choose(lowered.width, hidden, rotate)
    blank(model, lowered.dtype)
    with torch.no_grad():
        for layer, block in zip(model.encoder.block, lowered.blocks, strict=True):
            W = fill(lowered, block, basis, heads, size)
            attention, gated = layer.layer[0].SelfAttention, layer.layer[1].DenseReluDense
            targets = (attention.q, attention.k, attention.v, attention.o, gated.wi_1, gated.wi_0, gated.wo)
            for linear, weight in zip(targets, (W.Q, W.K, W.V, W.O, W.a, W.b, W.d), strict=True):
                linear.weight.copy_(weight.T)
    return model, describe(lowered, basis, "t5", causal=False, rotate=rotate)


def llama(lowered: Lowered, rotate: int | None) -> tuple[PreTrainedModel, Interface]:
    """Return Llama in float32, called with a mask of zeros and every position 0, which leaves rotary embeddings idle.

    Raises:
        InputError: float64: its norms and rotary embeddings compute in float32 whatever the weights are.
    """
    if lowered.dtype != torch.float32:
        raise InputError(
            "Llama's norms compute in float32, so a float64 model would lose half its digits without a word: compile "
            "with dtype='float32', or export to t5."
        )
    heads, size = lowered.heads, power_of_four(lowered.head_size)
    hidden = -(-lowered.width // heads) * heads  # its configuration insists on a multiple
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=lowered.units, num_hidden_layers=len(lowered.blocks),
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=size, vocab_size=2, rms_norm_eps=EPSILON,
        max_position_embeddings=lowered.max_tokens, use_cache=False, hidden_act="silu", attention_dropout=0.0,
        pad_token_id=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model, basis = LlamaModel(config), Basis.choose(lowered.width, hidden, rotate)
    blank(model, lowered.dtype)
    with torch.no_grad():
        for layer, block in zip(model.layers, lowered.blocks, strict=True):
            W = fill(lowered, block, basis, heads, size, scale=size**0.5)
            attention, gated = layer.self_attn, layer.mlp
            targets = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
            for linear, weight in zip(
                (*targets, gated.up_proj, gated.gate_proj, gated.down_proj),
                (W.Q, W.K, W.V, W.O, W.a, W.b, W.d), strict=True,
            ):  # fmt: skip
                linear.weight.copy_(weight.T)
    return model, describe(lowered, basis, "llama", causal=True, rotate=rotate)


def blank(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Set every weight to zero and every norm to the identity, in this precision, for inference."""
    model.to(dtype).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    for module in model.modules():
        if hasattr(module, "variance_epsilon") or isinstance(module, torch.nn.LayerNorm):
            module.weight.fill_(GAIN)
