import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks.balls import BALLS
from ridgeformer.influence.drift import Expansion, drift
from ridgeformer.kernels import DotProduct, Exponential, GramPower, Kernel, ReluNTK
from tests.influence.influence_case import draw

Z = draw(6, 3, purpose="Z")
G = Expansion(draw(1, 3, purpose="x"), Z, draw(6, purpose="a"), 0.4)
KERNELS = {
    "dot": DotProduct(),
    "gram": GramPower(3, draw(9, 3, purpose="context") / 3),
    "exponential": Exponential(2.0),
    "projected": Exponential(2.0, projection=draw(2, 3, purpose="U"), log_scale=0.5),
    "relu": ReluNTK(),
    "both": ReluNTK(both_layers=True),
}


def moves(norm, eps, count=3000):
    ball, like = BALLS[norm], torch.zeros(count, 3, dtype=torch.float64)
    return eps * ball.surface(like, torch_generator(0, "moves"))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("norm", BALLS)
@pytest.mark.parametrize("eps", [1e-3, 0.3, 3.0])
def test_no_move_exceeds_it(name, norm, eps):
    kernel, bound = KERNELS[name], drift(KERNELS[name], G, norm)
    values = torch.stack([G.value(kernel, G.x + v) for v in moves(norm, eps, 500)])
    assert bound is not None
    assert float((values - G.value(kernel, G.x)).abs().max()) <= bound(eps) * (1 + 1e-12)


@pytest.mark.parametrize("name", ["dot", "gram", "exponential", "projected"])
@pytest.mark.parametrize("norm", BALLS)
def test_it_is_attained(name, norm):
    """By every move for the linear kernels, by a small one for the exponential."""
    kernel, eps = KERNELS[name], 1e-5
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
