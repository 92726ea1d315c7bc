import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import AttentionFeatures
from ridgeformer.influence.attacks.balls import BALLS
from ridgeformer.influence.certificate import certified_eps
from ridgeformer.influence.pair import choose_pair, factors
from ridgeformer.kernels import DotProduct
from tests.influence.influence_case import KERNELS, problem

POINTS = range(4)


def signs(pair, moves):
    """The signs of both factors after each move of the row, a tuple each; the first is of no move at all."""
    evaluate, found = factors(pair), []
    for move in [torch.zeros(4, dtype=torch.float64), *moves]:
        X = pair.X.clone()
        X[pair.index] += move
        found.append(tuple(float(part.sign()) for part in evaluate(X)))
    return found


def worst_moves(pair, norm):
    """The directions along which each factor falls fastest."""
    X = pair.X.clone().requires_grad_()
    for part in factors(pair)(X):
        (gradient,) = torch.autograd.grad(part, X, retain_graph=True)
        yield -float(part.detach().sign()) * BALLS[norm].direction(gradient)[pair.index]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("norm", BALLS)
def test_no_move_within_it_flips(name, norm):
    X, y, Xq = problem()
    generator = torch_generator(0, "moves")
    for i in POINTS:
        pair = choose_pair(KERNELS[name](X), X, y, Xq, 0.3, i, 0, 0, None)
        eps = certified_eps(pair, norm)
        assert eps is not None
        assert eps > 0
        random = BALLS[norm].surface(torch.zeros(20, 4, dtype=torch.float64), generator)
        assert len(set(signs(pair, [0.999 * eps * move for move in [*worst_moves(pair, norm), *random]]))) == 1


@pytest.mark.parametrize("name", ["dot_product", "gram_power"])
@pytest.mark.parametrize("norm", BALLS)
def test_for_linear_kernels_it_is_exact(name, norm):
    X, y, Xq = problem()
    for i in POINTS:
        pair = choose_pair(KERNELS[name](X), X, y, Xq, 0.3, i, 0, 0, None)
        eps = certified_eps(pair, norm)
        assert len(set(signs(pair, [1.001 * eps * move for move in worst_moves(pair, norm)]))) == 2


@pytest.mark.parametrize("norm", BALLS)
def test_attention_without_normalisation(norm):
    X, y, Xq = problem()
    X = X / 4
    for i in POINTS:
        pair = choose_pair(DotProduct(), X, y, Xq, 0.3, i, 0, 0, AttentionFeatures(normalise=False))
        eps = certified_eps(pair, norm)
        assert eps is not None
        assert eps > 1e-6
        assert len(set(signs(pair, [0.999 * eps * move for move in worst_moves(pair, norm)]))) == 1


def test_where_no_proof_is_known_there_is_none():
    X, y, Xq = problem()
    assert certified_eps(choose_pair(DotProduct(), X, y, Xq, 0.3, 0, 0, 0, AttentionFeatures()), "linf") is None
