import pytest
import torch
from torch import nn

from ridgeformer.core.errors import UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import Architecture, CustomArchitecture, LinearisedAttention, QKVNetwork, ReluNetwork


def rows():
    return torch.randn(6, 4, generator=torch_generator(0, "rows"), dtype=torch.float64)


def build(architecture, **options):
    return architecture.build(rows(), 8, 2, torch_generator(0, "weights"), **options)


def test_relu_sees_the_rows_and_attention_their_features():
    X = rows()
    plain, attended = build(Architecture("relu")), build(Architecture("mlp-attn", layers=2, rank=3, recompute=False))
    assert torch.equal(plain.features(X), X)
    assert torch.equal(attended.features(X), LinearisedAttention(X, 2, False, 3, True)(X))
    assert isinstance(attended.model, ReluNetwork)
    assert torch.equal(plain.model.weights, attended.model.weights)
    assert plain.closed_form
    assert attended.closed_form


def test_qkv_takes_its_options():
    built = build(Architecture("qkv", layers=2, heads=2, tied=True, layer_norm=True), dtype=torch.float32)
    assert isinstance(built.model, QKVNetwork)
    assert not built.closed_form
    assert [block.normalise for block in built.model.blocks] == ["layer_norm", "layer_norm"]
    assert all(block.keys is None for block in built.model.blocks)
    assert built.model(rows().float()).dtype == torch.float32


def test_networks_of_your_own_repeat_and_leave_the_global_generator_alone():
    mine = CustomArchitecture(lambda d, c, m: nn.Sequential(nn.Linear(d, m), nn.Dropout(), nn.Linear(m, c)))
    before = torch.random.get_rng_state()
    one, two = build(mine).model, build(mine).model
    assert torch.equal(one(rows()), two(rows()))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_refuses_unknown_networks():
    with pytest.raises(UnknownNameError, match="did you mean 'mlp-attn'"):
        Architecture("mlp_attn")
