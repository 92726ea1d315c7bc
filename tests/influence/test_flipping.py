import math

import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import AttentionFeatures, RawFeatures, influence, leave_one_out, smallest_flipping_eps
from ridgeformer.influence.attacks import BALLS, FGSM, PGD
from ridgeformer.influence.flipping import Expansion, bracket, certified_eps, choose_pair, drift, factors
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, GramPower, Kernel, ReluNTK
from tests.influence.influence_case import KERNELS, assert_equal, draw, fit, problem


@pytest.mark.parametrize("edge", [1e-7, 0.3, 1.0, 77.0])
def test_brackets_the_edge(edge):
    low, high = bracket(lambda x: x >= edge, 1.0, 100.0, 1e-4)
    assert low < edge <= high <= low * 1.001


def test_says_when_it_never_holds():
    assert bracket(lambda x: False, 1.0, 6.0, 1e-4) == (6.0, math.inf)


Z = draw(6, 3, purpose="Z")
G = Expansion(draw(1, 3, purpose="x"), Z, draw(6, purpose="a"), 0.4)
BOUNDED = {
    "dot": DotProduct(),
    "gram": GramPower(3, draw(9, 3, purpose="context") / 3),
    "exponential": Exponential(2.0),
    "projected": Exponential(2.0, projection=draw(2, 3, purpose="U"), log_scale=0.5),
    "gaussian": Gaussian(2.0),
    "projected gaussian": Gaussian(0.7, projection=draw(2, 3, purpose="U")),
    "relu": ReluNTK(),
    "both": ReluNTK(both_layers=True),
}


def moves(norm, eps, count=3000):
    ball, like = BALLS[norm], torch.zeros(count, 3, dtype=torch.float64)
    return eps * ball.surface(like, torch_generator(0, "moves"))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("norm", BALLS)
@pytest.mark.parametrize("eps", [1e-3, 0.3, 3.0])
def test_no_move_exceeds_it(name, norm, eps):
    kernel, bound = BOUNDED[name], drift(BOUNDED[name], G, norm)
    values = torch.stack([G.value(kernel, G.x + v) for v in moves(norm, eps, 500)])
    assert bound is not None
    assert float((values - G.value(kernel, G.x)).abs().max()) <= bound(eps) * (1 + 1e-12)


@pytest.mark.parametrize("name", ["dot", "gram", "exponential", "projected"])
@pytest.mark.parametrize("norm", BALLS)
def test_it_is_attained(name, norm):
    """By every move for the linear kernels, by a small one for the exponential."""
    kernel, eps = BOUNDED[name], 1e-5
    x = G.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(G.value(kernel, x), x)
    change = G.value(kernel, G.x + eps * BALLS[norm].direction(gradient)) - G.value(kernel, G.x)
    assert float(change) == pytest.approx(drift(kernel, G, norm)(eps), rel=1e-3)


def test_the_relu_bound_is_nearly_attained_at_the_kink():
    """At x = z the slope is |z| / 2 along z, and the turning adds |z| / (2 pi) across: both within the bound."""
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    g = Expansion(x, x, torch.ones(1, dtype=torch.float64))
    kernel, eps = ReluNTK(), 1e-4
    steps = [torch.tensor([[c, s]]).double() * eps for c, s in [(1.0, 0.0), (0.0, 1.0), (-0.95, 0.31)]]
    change = max(abs(float(g.value(kernel, x + step) - g.value(kernel, x))) for step in steps)
    assert 0.75 * drift(kernel, g, "l2")(eps) <= change <= drift(kernel, g, "l2")(eps)


def test_unknown_kernels_have_no_bound():
    class Mine(Kernel):
        name = "mine"

        def dense(self, X, Z):
            return X @ Z.T

    assert drift(Mine(), G, "linf") is None


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
        pair = choose_pair(fit(KERNELS[name](X), X, y, 0.3), Xq, i, 0, 0)
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
        pair = choose_pair(fit(KERNELS[name](X), X, y, 0.3), Xq, i, 0, 0)
        eps = certified_eps(pair, norm)
        assert len(set(signs(pair, [1.001 * eps * move for move in worst_moves(pair, norm)]))) == 2


@pytest.mark.parametrize("norm", BALLS)
def test_attention_without_normalisation(norm):
    X, y, Xq = problem()
    X = X / 4
    for i in POINTS:
        features = AttentionFeatures(normalise=False)
        pair = choose_pair(fit(DotProduct(), features(X, Xq)[0], y, 0.3), Xq, i, 0, 0, X, features)
        eps = certified_eps(pair, norm)
        assert eps is not None
        assert eps > 1e-6
        assert len(set(signs(pair, [0.999 * eps * move for move in worst_moves(pair, norm)]))) == 1


def test_where_no_proof_is_known_there_is_none():
    X, y, Xq = problem()
    features = AttentionFeatures()
    pair = choose_pair(fit(DotProduct(), features(X, Xq)[0], y, 0.3), Xq, 0, 0, 0, X, features)
    assert certified_eps(pair, "linf") is None


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_the_factors_give_the_influence_after_any_move_of_the_row(name, features):
    X, y, Xq = problem(classes=3)
    X = X / 2
    kernel = KERNELS[name](X)
    evaluate = factors(choose_pair(fit(kernel, features(X, Xq)[0], y, 0.3), Xq, 4, 2, 1, X, features))
    moved = X.clone()
    moved[4] += 0.3 * draw(4, purpose="move")
    rows, queries = features(moved, Xq)
    found = influence(fit(kernel, rows, y, 0.3), queries)
    residual, covariance = evaluate(moved)
    assert_equal(residual, found.residual[4, 1])
    assert_equal(residual * covariance * found.diagonal[4], found.leave_one_out[4, 2, 1])


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ((18, 0, 0), "index is 18; .*from 0 to 17"),
        ((0, 5, 0), "query is 5; .*from 0 to 4"),
        ((0, -1, 0), "query is -1"),
        ((0, 0, 3), "output is 3"),
        ((0.5, 0, 0), "index is 0.5"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_out_of_range(which, words):
    X, y, Xq = problem(classes=3)
    with pytest.raises(errors.InputError, match=words):
        choose_pair(fit(KERNELS["exponential"](X), X, y, 0.3), Xq, *which)


def test_one_row_has_nothing_to_leave_out():
    with pytest.raises(errors.InputError, match="at least two"):
        choose_pair(fit(KERNELS["dot_product"](None), torch.ones(1, 2), [1.0], 1.0), torch.ones(1, 2), 0, 0, 0)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_bracket_holds_the_answer(name, norm):
    X, y, Xq = problem()
    attack = PGD(0.1, norm, steps=10, relative_step=0.25, random_start=False)
    found = smallest_flipping_eps(fit(KERNELS[name](X), X, y, 0.3), Xq, attack, index=2, tolerance=0.01)
    assert 0 < found.certified <= found.found
    assert found.kept <= found.found <= found.kept * 1.02 or found.found == math.inf


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_for_the_dot_product_the_attack_reaches_the_certificate(norm):
    """Both factors are linear in the row, so one gradient step is the best attack there is."""
    X, y, Xq = problem()
    for i in range(6):
        found = smallest_flipping_eps(
            fit(DotProduct(), X, y, 0.3), Xq, FGSM(0.1, norm), index=i, largest=1e3, tolerance=1e-6
        )
        assert found.certified == pytest.approx(found.found, rel=1e-5)


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_what_was_found_is_a_flip_of_the_recomputed_influence(features):
    X, y, Xq = problem(classes=2)
    kernel, attack = Exponential(1.0), FGSM(0.05)
    fitted = fit(kernel, features(X, Xq)[0], y, 0.3)
    found = smallest_flipping_eps(fitted, Xq, attack, index=1, query=3, output=1, X=X, features=features)

    def influence(X):
        rows, queries = features(X, Xq)
        return leave_one_out(fit(kernel, rows, y, 0.3), queries)[1, 3, 1]

    before = float(influence(X))

    def flips(eps):
        corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 4)
        moved = [torch.cat([X[:1], X[1:2] + eps * corner, X[2:]]) for corner in corners]
        return any(float(influence(each)) * before < 0 for each in moved)

    assert math.isfinite(found.found)
    assert flips(found.found)  # the gradient's signs are one of the corners
    assert found.kept < found.found


def test_bounds_can_make_it_unflippable():
    X, y, Xq = problem()
    low, high = float(X.min()), float(X.max())
    tight = FGSM(0.1, bounds=(low, high))
    free = smallest_flipping_eps(fit(DotProduct(), X, y, 0.3), Xq, FGSM(0.1), index=2, largest=1e4)
    bound = smallest_flipping_eps(fit(DotProduct(), X, y, 0.3), Xq, tight, index=2, largest=1e4)
    assert bound.found >= free.found


def test_never_found_is_infinite():
    X, y, Xq = problem()
    found = smallest_flipping_eps(fit(DotProduct(), X, y, 0.3), Xq, FGSM(1e-9), index=2, largest=1e-8)
    assert (found.kept, found.found) == (1e-8, math.inf)


def test_a_query_out_of_range():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="query is 99"):
        smallest_flipping_eps(fit(DotProduct(), X, y, 0.3), Xq, FGSM(0.1), index=2, query=99)


def test_an_influence_of_zero_has_no_sign_to_keep():
    X, y, Xq = problem()
    found = smallest_flipping_eps(fit(DotProduct(), X, y, 0.3), 0 * Xq, FGSM(0.1), index=2)
    assert (found.certified, found.kept, found.found) == (0, 0, 0)
