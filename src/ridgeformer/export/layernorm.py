"""BERT, ALBERT and GPT-2: LayerNorm classes without gated layers, which hold the vanilla route.

A LayerNorm subtracts the mean, so every column of the stream has a negated twin, and the mean is 0 up to rounding. The
rest of the norm is the identity for the same reason as RMSNorm, in float64 while the root mean square is below 2^36,
and the feed-forward layers are zero.
"""

from __future__ import annotations

import torch
from torch import nn
from transformers import AlbertConfig, AlbertModel, BertConfig, BertModel, GPT2Config, GPT2Model, PreTrainedModel

from ridgeformer.core.errors import InputError
from ridgeformer.export.interface import Interface, describe
from ridgeformer.export.lowering import Basis, Lowered, Matrices, fill
from ridgeformer.export.rms import EPSILON, blank, power_of_four

__all__ = ["albert", "bert", "gpt2"]


def bert(lowered: Lowered, rotate: int | None) -> tuple[PreTrainedModel, Interface]:
    """Return BERT, called with `inputs_embeds`; its embeddings of position and token type are zero."""
    heads, size, basis = _sizes(lowered, rotate, "bert")
    model = BertModel(BertConfig(num_hidden_layers=len(lowered.blocks), **_common(lowered, heads, size)), False)
    blank(model, lowered.dtype)
    for layer, block in zip(model.encoder.layer, lowered.blocks, strict=True):
        W, attention = fill(lowered, block, basis, heads, size, scale=size**0.5), layer.attention
        _copy(W, attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    return model, describe(lowered, basis, "bert", causal=False, rotate=rotate)


def albert(lowered: Lowered, rotate: int | None) -> tuple[PreTrainedModel, Interface]:
    """Return ALBERT, whose layers share their weights: one layer is stored, whatever the depth."""
    heads, size, basis = _sizes(lowered, rotate, "albert")
    if any(block.attention is not lowered.blocks[0].attention for block in lowered.blocks):
        raise InputError("ALBERT's layers share their weights: compile with tied=True, or export to bert.")
    common = _common(lowered, heads, size)
    options = {"embedding_size": heads * size, "num_hidden_groups": 1, "inner_group_num": 1}
    model = AlbertModel(AlbertConfig(num_hidden_layers=len(lowered.blocks), **options, **common), False)
    blank(model, lowered.dtype)
    model.encoder.embedding_hidden_mapping_in.weight.copy_(torch.eye(heads * size))
    attention = model.encoder.albert_layer_groups[0].albert_layers[0].attention
    W = fill(lowered, lowered.blocks[0], basis, heads, size, scale=size**0.5)
    _copy(W, attention.query, attention.key, attention.value, attention.dense)
    return model, describe(lowered, basis, "albert", causal=False, rotate=rotate)


def gpt2(lowered: Lowered, rotate: int | None) -> tuple[PreTrainedModel, Interface]:
    """Return GPT-2, called with a mask of zeros, as supports read all supports."""
    heads, size, basis = _sizes(lowered, rotate, "gpt2")
    config = GPT2Config(
        n_embd=heads * size, n_layer=len(lowered.blocks), n_head=heads, n_inner=1, n_positions=lowered.max_tokens,
        vocab_size=2, layer_norm_epsilon=EPSILON, scale_attn_weights=False, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model = GPT2Model(config)
    blank(model, lowered.dtype)
    for layer, block in zip(model.h, lowered.blocks, strict=True):
        W = fill(lowered, block, basis, heads, size)
        layer.attn.c_attn.weight.copy_(torch.cat([W.Q, W.K, W.V], 1))
        layer.attn.c_proj.weight.copy_(W.O)
    return model, describe(lowered, basis, "gpt2", causal=True, rotate=rotate)


def _sizes(lowered: Lowered, rotate: int | None, target: str) -> tuple[int, int, Basis]:
    """Return heads, their size, and the balanced basis; the hidden size is heads times size in these classes."""
    if any(block.gated for block in lowered.blocks):
        raise InputError(
            f"{target} has no gated layers, which this model needs: compile attention='vanilla', or export to t5 or "
            "llama."
        )
    size = power_of_four(lowered.head_size)
    heads = max(lowered.heads, -(-2 * lowered.width // size))
    return heads, size, Basis.choose(lowered.width, heads * size, rotate, balanced=True)


def _common(lowered: Lowered, heads: int, size: int) -> dict[str, object]:
    return {
        "hidden_size": heads * size, "num_attention_heads": heads, "intermediate_size": 1, "vocab_size": 2,
        "max_position_embeddings": lowered.max_tokens, "type_vocab_size": 1, "layer_norm_eps": EPSILON,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0, "bos_token_id": 0,
        "eos_token_id": 0, "hidden_act": "relu", "attn_implementation": "eager",
    }  # fmt: skip


def _copy(W: Matrices, *linears: nn.Linear) -> None:
    for linear, weight in zip(linears, (W.Q, W.K, W.V, W.O), strict=True):
        linear.weight.copy_(weight.T)
