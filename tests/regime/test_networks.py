import pytest
import torch

from ridgeformer.core.errors import InputError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import (
    FrozenPattern,
    Linearised,
    LinearisedAttention,
    QKVBlock,
    QKVNetwork,
    ReluNetwork,
    dead_share,
    empirical_ntk,
    is_dead,
    relu_ntk_of_weights,
)


def rows(n=6, d=4):
    return torch.randn(n, d, generator=torch_generator(0, "rows"), dtype=torch.float64)


def relu(width=50, **options):
    return ReluNetwork(4, width, torch_generator(0, "weights"), **options)


def test_relu_network_is_its_formula():
    network, X = relu(outputs=2), rows()
    for c in range(2):
        terms = [a[c] * torch.relu(X @ w) for a, w in zip(network.signs, network.weights, strict=True)]
        torch.testing.assert_close(network(X)[:, c], sum(terms) / 50**0.5)
    assert set(network.signs.flatten().tolist()) == {-1.0, 1.0}
    assert [name for name, p in network.named_parameters() if p.requires_grad] == ["weights"]


def test_scale_is_the_deviation_of_the_weights():
    assert float(relu(5000).weights.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert float(relu(5000, scale=1).weights.detach().std()) == pytest.approx(1, rel=0.05)


def test_precisions_are_the_same_network():
    torch.testing.assert_close(relu(dtype=torch.float32).weights, relu().weights.float())


def test_every_output_of_a_relu_network_has_the_closed_form_kernel():
    network, X = relu(outputs=3), rows()
    torch.testing.assert_close(empirical_ntk(network, X), relu_ntk_of_weights(X, network.weights))


@pytest.mark.parametrize("softmax", [True, False])
def test_heads_are_attention_side_by_side(softmax):
    block, X = QKVBlock(4, torch_generator(0, "block"), heads=2, head_width=3, normalise=None, softmax=softmax), rows()
    expected = []
    for Q, K, V in zip(block.queries, block.keys, block.values, strict=True):
        logits = (X @ Q) @ (X @ K).T
        expected.append((torch.softmax(logits / 3**0.5, 1) if softmax else logits) @ X @ V)
    torch.testing.assert_close(block(X, X), torch.cat(expected, dim=1))


def test_tied_identity_is_linearised_attention():
    block, X = QKVBlock(4, torch_generator(0, "block"), tied=True), rows()
    assert block.keys is None
    with torch.no_grad():
        block.queries.copy_(torch.eye(4)[None])
        block.values.copy_(torch.eye(4)[None])
    torch.testing.assert_close(block(X, X), LinearisedAttention(X)(X))


def test_normalisation_after_attention():
    X = rows()
    unit = QKVBlock(4, torch_generator(0, "block"))(X, X)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(6, dtype=torch.float64))
    layer = QKVBlock(4, torch_generator(0, "block"), normalise="layer_norm")(X, X)
    torch.testing.assert_close(layer.mean(1), torch.zeros(6, dtype=torch.float64), atol=1e-12, rtol=0)
    with pytest.raises(UnknownNameError, match="did you mean 'layer_norm'"):
        QKVBlock(4, torch_generator(0, "block"), normalise="layernorm")


def test_stacked_blocks_attend_to_what_the_block_before_made():
    X = rows()
    network = QKVNetwork(X, 10, torch_generator(0, "network"), layers=2, heads=2)
    first, second = network.blocks
    middle = first(X, X)
    torch.testing.assert_close(network(X), network.head(second(middle, middle)))
    torch.testing.assert_close(network(X[:2]), network(X)[:2])


def test_same_generator_same_network():
    X = rows()
    one, two, other = (QKVNetwork(X, 10, torch_generator(seed, "network"), heads=2)(X) for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_dead_neurons_and_dead_networks():
    network, X = relu(), rows().abs()
    assert not is_dead(network, X)
    with torch.no_grad():
        network.weights[:20] = -1.0
        network.weights[20:] = 1.0
    assert dead_share(network, X) == pytest.approx(0.4)
    with torch.no_grad():
        network.weights.fill_(-1.0)
    assert dead_share(network, X) == 1.0
    assert is_dead(network, X)


def test_says_how_much_memory_is_needed_before_starting(monkeypatch):
    monkeypatch.setattr("ridgeformer.core.memory.free_bytes", lambda: 10**9)
    with pytest.raises(InputError, match=r"width 10,000,000 on 4 features needs about 1\.6 GB"):
        relu(10**7)


@pytest.mark.parametrize("bad", [{"width": 0}, {"outputs": 0}, {"scale": 0.0}])
def test_refuses_networks_of_nothing(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        relu(**bad)


def test_frozen_pattern_is_the_linearisation():
    network, X = relu(outputs=2), rows()
    frozen, general = FrozenPattern(network), Linearised(network)
    step = torch.randn(50, 4, generator=torch_generator(1, "step"), dtype=torch.float64)
    with torch.no_grad():
        frozen.weights.add_(step)
        general.weights[0].add_(step)
    torch.testing.assert_close(frozen(X), general(X), rtol=1e-12, atol=1e-12)
    assert float((frozen(X) - network(X)).detach().norm()) > 0.1
