import pytest
import torch

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import unit_rows
from ridgeformer.kernels import GramPower
from ridgeformer.regime import (
    FrozenPattern,
    Linearised,
    LinearisedAttention,
    QKVBlock,
    QKVNetwork,
    ReluNetwork,
    dead_share,
    empirical_ntk,
    expected_qkv_kernel,
    gram_spectrum,
    is_dead,
    normalise_rows,
    qkv_features,
    relu_ntk_of_weights,
    softmax_gap,
)


def test_agrees_with_the_one_for_arrays_at_every_size():
    X = torch.randn(4, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)
    X = X * torch.tensor([[1.0], [1e200], [1e-200], [3.0]], dtype=torch.float64)
    torch.testing.assert_close(normalise_rows(X), torch.from_numpy(unit_rows(X)), rtol=1e-15, atol=1e-15)


def test_zero_rows_are_refused_or_kept():
    X = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"row 1 of features is all zeros \(1 such"):
        normalise_rows(X, "features")
    assert normalise_rows(X, keep_zero=True)[1].tolist() == [0.0, 0.0]


def test_gradient_is_that_of_the_direction():
    x = torch.randn(2, 3, generator=torch_generator(0, "rows"), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalise_rows, x)


def rows(n=7, d=4, purpose="rows"):
    return torch.randn(n, d, generator=torch_generator(0, purpose), dtype=torch.float64)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("normalise", [True, False])
def test_two_layers_equal_the_formula(normalise):
    X = rows()
    unit = normalise_rows if normalise else lambda Z: Z
    first = unit(X @ X.T @ X)
    close(LinearisedAttention(X, layers=2, normalise=normalise)(X), unit(first @ first.T @ first))
    close(LinearisedAttention(X, layers=2, recompute=False, normalise=normalise)(X), unit(X @ X.T @ first))


@pytest.mark.parametrize("recompute", [True, False])
def test_a_row_of_the_context_is_treated_alike_alone(recompute):
    X = rows()
    attention = LinearisedAttention(X, layers=3, recompute=recompute, rank=2)
    close(attention(X[2:4]), attention(X)[2:4])


def test_kernel_of_the_features_is_the_gram_power():
    X, Z = rows(), rows(3, purpose="queries")
    attention = LinearisedAttention(X, normalise=False)
    close(attention(Z) @ attention(X).T, GramPower(3, X)(Z, X))


def test_kernel_with_a_fixed_dataset_is_linear_with_its_own_penalty():
    """L15: ridge regression with x'C^2 z is linear ridge regression with penalty l w'C^-2 w."""
    X, Z, y, ridge = rows(), rows(3, purpose="queries"), rows(7, 1, "y"), 0.3
    attention = LinearisedAttention(X, normalise=False)
    F, C = attention(X), X.T @ X
    by_kernel = attention(Z) @ F.T @ torch.linalg.solve(F @ F.T + ridge * torch.eye(7, dtype=torch.float64), y)
    w = torch.linalg.solve(C + ridge * torch.linalg.inv(C @ C), X.T @ y)
    assert float((by_kernel - Z @ w).abs().max()) < 5e-12 * float(by_kernel.abs().max()) * 10


def test_truncation_keeps_the_best_rank():
    X = rows()
    U, S, Vt = torch.linalg.svd(X, full_matrices=False)
    best = U[:, :2] @ torch.diag(S[:2] ** 3) @ Vt[:2]
    close(LinearisedAttention(X, rank=2, normalise=False)(X), best)
    close(LinearisedAttention(X, rank=4)(X), LinearisedAttention(X)(X))


@pytest.mark.parametrize("seed", range(3))
def test_linear_attention_is_softmax_for_centred_rows_only(seed):
    """L16, n = 40, d = 5: centred, the gap falls with the scale (.081 / .0078 / .00077); uncentred it tends to 1."""
    X = torch.randn(40, 5, generator=torch_generator(seed, "rows"), dtype=torch.float64)
    centred = [softmax_gap(X - X.mean(0), scale) for scale in (0.1, 0.01, 0.001)]
    assert centred[0] / centred[1] == pytest.approx(10, rel=0.2)
    assert centred[1] / centred[2] == pytest.approx(10, rel=0.05)
    assert 0.0004 < centred[2] < 0.004
    uncentred = [softmax_gap(X, scale) for scale in (0.1, 0.01, 0.001)]
    assert 0.4 < uncentred[0] < uncentred[1] < uncentred[2] < 1
    assert uncentred[2] > 0.99


def test_gradient_flows_through_the_row_and_not_the_context():
    X = rows().requires_grad_()
    attention = LinearisedAttention(X)
    x = rows(1, purpose="x").requires_grad_()
    attention(x).square().sum().backward()
    assert x.grad is not None
    assert X.grad is None


def test_refuses_bad_input():
    with pytest.raises(InputError, match=r"row 1 of the attention features is all zeros"):
        LinearisedAttention([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(InputError, match="rank is 5"):
        LinearisedAttention(rows(), rank=5)
    with pytest.raises(ShapeError, match="features"):
        LinearisedAttention(rows())(rows(2, 3))
    with pytest.raises(InputError, match="layers"):
        LinearisedAttention(rows(), layers=-1)


def conditioned_rows(kappa=100.0, n=20):
    """Square rows whose G has condition number kappa."""
    generator = torch_generator(0, "rows")
    U, _ = torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))
    return U * torch.logspace(0, -torch.tensor(kappa).log10() / 2, n, dtype=torch.float64)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head_width", [None, 3])
def test_average_over_heads_is_the_expected_kernel(tied, head_width):
    X = conditioned_rows(n=4)
    features = qkv_features(X, torch_generator(0, "heads"), heads=30_000, head_width=head_width, tied=tied)
    expected = expected_qkv_kernel(X, head_width=head_width, tied=tied)
    assert float((features @ features.T - expected).norm() / expected.norm()) < 0.03


def test_one_head_equals_its_formula():
    X, generator = conditioned_rows(n=4), torch_generator(3, "head")
    found = qkv_features(X, torch_generator(3, "head"), head_width=5)
    Q, K = (torch.randn(4, 5, generator=generator, dtype=torch.float64) / 5**0.5 for _ in range(2))
    torch.testing.assert_close(found, (X @ Q) @ (X @ K).T @ X)


def test_heads_bring_the_condition_number_back():
    """L6: one draw has kappa^3 or more; 64 independent heads have 139 at kappa_G = 100; tied ones stay above."""
    X = conditioned_rows()

    def condition(heads, tied=False):
        return gram_spectrum(qkv_features(X, torch_generator(0, "heads"), heads=heads, tied=tied)).condition(20)

    assert condition(1) > 1e6
    assert condition(64) == pytest.approx(139, rel=0.25)
    assert condition(64, tied=True) > 4 * condition(64)


def test_refuses_no_heads():
    with pytest.raises(InputError, match="heads"):
        qkv_features(torch.eye(2), torch_generator(0, "heads"), heads=0)


def six_rows(n=6, d=4):
    return torch.randn(n, d, generator=torch_generator(0, "rows"), dtype=torch.float64)


def relu(width=50, **options):
    return ReluNetwork(4, width, torch_generator(0, "weights"), **options)


def test_relu_network_is_its_formula():
    network, X = relu(outputs=2), six_rows()
    for c in range(2):
        terms = [a[c] * torch.relu(X @ w) for a, w in zip(network.signs, network.weights, strict=True)]
        torch.testing.assert_close(network(X)[:, c], sum(terms) / 50**0.5)
    assert set(network.signs.flatten().tolist()) == {-1.0, 1.0}
    assert [name for name, p in network.named_parameters() if p.requires_grad] == ["weights"]


def test_scale_is_the_deviation_of_the_weights():
    assert float(relu(5000).weights.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert float(relu(5000, scale=1.0).weights.detach().std()) == pytest.approx(1, rel=0.05)


def test_precisions_are_the_same_network():
    torch.testing.assert_close(relu(dtype=torch.float32).weights, relu().weights.float())


def test_every_output_of_a_relu_network_has_the_closed_form_kernel():
    network, X = relu(outputs=3), six_rows()
    torch.testing.assert_close(empirical_ntk(network, X), relu_ntk_of_weights(X, network.weights))


@pytest.mark.parametrize("softmax", [True, False])
def test_heads_are_attention_side_by_side(softmax):
    block, X = (
        QKVBlock(4, torch_generator(0, "block"), heads=2, head_width=3, normalise=None, softmax=softmax),
        six_rows(),
    )
    expected = []
    for Q, K, V in zip(block.queries, block.keys, block.values, strict=True):
        logits = (X @ Q) @ (X @ K).T
        expected.append((torch.softmax(logits / 3**0.5, 1) if softmax else logits) @ X @ V)
    torch.testing.assert_close(block(X, X), torch.cat(expected, dim=1))


def test_tied_identity_is_linearised_attention():
    block, X = QKVBlock(4, torch_generator(0, "block"), tied=True), six_rows()
    assert block.keys is None
    with torch.no_grad():
        block.queries.copy_(torch.eye(4)[None])
        block.values.copy_(torch.eye(4)[None])
    torch.testing.assert_close(block(X, X), LinearisedAttention(X)(X))


def test_normalisation_after_attention():
    X = six_rows()
    unit = QKVBlock(4, torch_generator(0, "block"))(X, X)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(6, dtype=torch.float64))
    layer = QKVBlock(4, torch_generator(0, "block"), normalise="layer_norm")(X, X)
    torch.testing.assert_close(layer.mean(1), torch.zeros(6, dtype=torch.float64), atol=1e-12, rtol=0)
    with pytest.raises(UnknownNameError, match="did you mean 'layer_norm'"):
        QKVBlock(4, torch_generator(0, "block"), normalise="layernorm")


def test_stacked_blocks_attend_to_what_the_block_before_made():
    X = six_rows()
    network = QKVNetwork(X, 10, torch_generator(0, "network"), layers=2, heads=2)
    first, second = network.blocks
    middle = first(X, X)
    torch.testing.assert_close(network(X), network.head(second(middle, middle)))
    torch.testing.assert_close(network(X[:2]), network(X)[:2])


def test_same_generator_same_network():
    X = six_rows()
    one, two, other = (QKVNetwork(X, 10, torch_generator(seed, "network"), heads=2)(X) for seed in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_dead_neurons_and_dead_networks():
    network, X = relu(), six_rows().abs()
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
    network, X = relu(outputs=2), six_rows()
    frozen, general = FrozenPattern(network), Linearised(network)
    step = torch.randn(50, 4, generator=torch_generator(1, "step"), dtype=torch.float64)
    with torch.no_grad():
        frozen.weights.add_(step)
        general.weights[0].add_(step)
    torch.testing.assert_close(frozen(X), general(X), rtol=1e-12, atol=1e-12)
    assert float((frozen(X) - network(X)).detach().norm()) > 0.1
