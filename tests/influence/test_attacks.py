import foolbox
import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks import ATTACKS, BALLS, FGSM, MIM, PGD, RandomNoise, build_attack
from tests.influence.attack_case import AttackCase, objective, rows
from tests.influence.influence_case import draw

DUAL = {"linf": 1, "l2": 2}


@pytest.mark.parametrize("norm", BALLS)
def test_the_direction_reaches_the_dual_norm_and_has_length_one(norm):
    ball, g = BALLS[norm], draw(9, 5, purpose="g")
    torch.testing.assert_close((ball.direction(g) * g).sum(1), g.norm(p=DUAL[norm], dim=1))
    torch.testing.assert_close(ball.length(ball.direction(g)), torch.ones(9, dtype=torch.float64))
    assert float(ball.direction(torch.zeros(1, 5)).abs().max()) == 0


@pytest.mark.parametrize("norm", BALLS)
def test_projection_is_the_nearest_point_of_the_ball(norm):
    ball, moves = BALLS[norm], 2 * draw(9, 5, purpose="moves")
    nearest = ball.project(moves, 0.7)
    assert float(ball.length(nearest).max()) <= 0.7 + 1e-12
    torch.testing.assert_close(ball.project(0.01 * moves, 0.7), 0.01 * moves)
    others = 0.7 * ball.inside(moves.repeat(50, 1), torch_generator(0, "others"))
    assert bool(((moves.repeat(50, 1) - others).norm(dim=1) >= (moves - nearest).norm(dim=1).repeat(50) - 1e-9).all())


@pytest.mark.parametrize("norm", BALLS)
def test_draws_fill_the_ball_evenly(norm):
    """The norm of a uniform draw from a ball in d dimensions has P(norm <= r) = r^d."""
    ball, like = BALLS[norm], torch.zeros(4000, 3, dtype=torch.float64)
    lengths = ball.length(ball.inside(like, torch_generator(0, "ball")))
    assert float(lengths.max()) <= 1 + 1e-12
    assert abs(float((lengths <= 0.5).double().mean()) - 0.125) < 0.02
    torch.testing.assert_close(ball.length(ball.surface(like, torch_generator(0, "s"))), torch.ones(4000).double())


def test_attacks_are_built_by_name():
    for name, kind in ATTACKS.items():
        attack = build_attack(name, 0.2, norm="l2", bounds=(0.0, 1.0))
        assert isinstance(attack, kind)
        assert (attack.eps, attack.norm, attack.bounds) == (0.2, "l2", (0.0, 1.0))
    with pytest.raises(errors.UnknownNameError, match="did you mean 'fgsm'"):
        build_attack("fgms", 0.1)


def test_an_objective_without_a_finite_gradient_is_refused():
    with pytest.raises(errors.InputError, match="not finite"):
        FGSM(0.1)(lambda X: (X - X).sqrt().sum(), rows())


def test_rows_out_of_range_are_refused():
    with pytest.raises(errors.InputError, match="row 40 is out of range"):
        FGSM(0.1)(lambda X: X.sum(), rows(), rows=[40])


def test_device_and_dtype_follow_the_rows():
    assert FGSM(0.1)(lambda X: X.sum(), rows().float()).dtype == torch.float32


class TestFGSM(AttackCase):
    def make(self, eps, norm="linf", bounds=None):
        return FGSM(eps, norm, bounds)

    def foolboxs(self, norm):
        return {"linf": foolbox.attacks.LinfFastGradientAttack, "l2": foolbox.attacks.L2FastGradientAttack}[norm]()


class TestPGD(AttackCase):
    def make(self, eps, norm="linf", bounds=None):
        return PGD(eps, norm, bounds, steps=15, relative_step=0.1, random_start=False)

    def foolboxs(self, norm):
        attack = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[norm]
        return attack(steps=15, rel_stepsize=0.1, random_start=False)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_random_start_is_the_seeds(norm):
    attack = PGD(0.1, norm, steps=1)
    first, again, other = (attack(objective, rows(), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"steps": 1.5}, {"relative_step": 0.0}])
@pytest.mark.usefixtures("unchecked")
def test_bad_steps(wrong):
    with pytest.raises(errors.InputError, match=next(iter(wrong))):
        PGD(0.1, **wrong)


class TestMIM(AttackCase):
    """Foolbox accumulates directions; the published method, ours by default, gradients over their 1-norm."""

    def make(self, eps, norm="linf", bounds=None):
        return MIM(eps, norm, bounds, steps=12, relative_step=0.2, momentum=0.9, accumulate="direction")

    def foolboxs(self, norm):
        attack = {
            "linf": foolbox.attacks.mi_fgsm.LinfMomentumIterativeFastGradientMethod,
            "l2": foolbox.attacks.mi_fgsm.L2MomentumIterativeFastGradientMethod,
        }[norm]
        return attack(steps=12, rel_stepsize=0.2, momentum=0.9)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_published_method_step_by_step(norm):
    X = rows().double()
    g, x = torch.zeros_like(X), X.clone()
    for _ in range(7):
        leaf = x.clone().requires_grad_()
        gradient = torch.autograd.grad(objective(leaf.float()).double().sum(), leaf)[0]
        g = 0.8 * g + gradient / gradient.abs().sum(1, keepdim=True)
        step = g.sign() if norm == "linf" else g / g.norm(dim=1, keepdim=True)
        x = x + 0.3 / 7 * step
    found = MIM(0.3, norm, steps=7, momentum=0.8)(lambda X: objective(X.float()).double(), X)
    torch.testing.assert_close(found, x, rtol=1e-6, atol=1e-6)


def test_the_two_ways_to_accumulate_differ():
    found = [MIM(0.3, steps=12, relative_step=0.2, accumulate=way)(objective, rows()) for way in ("l1", "direction")]
    assert not torch.allclose(*found)


def test_without_momentum_it_is_pgd():
    pgd = PGD(0.3, steps=10, relative_step=0.2, random_start=False)(objective, rows())
    torch.testing.assert_close(MIM(0.3, steps=10, relative_step=0.2, momentum=0.0)(objective, rows()), pgd)


@pytest.mark.parametrize("wrong", [{"momentum": -1.0}, {"accumulate": "l7"}, {"steps": 0}, {"relative_step": -1.0}])
def test_bad_settings_of_the_momentum(wrong):
    with pytest.raises(errors.InputError, match=next(iter(wrong))):
        MIM(0.1, **wrong)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_row_moves_by_exactly_eps_whatever_the_objective(norm):
    X = rows(200).double()
    attack = RandomNoise(0.3, norm)
    moves = attack(lambda X: X.sum(), X) - X
    torch.testing.assert_close(attack.ball.length(moves), torch.full((200,), 0.3, dtype=torch.float64))
    assert torch.equal(moves + X, attack(lambda X: -X.sum(), X))
    assert float(moves.mean().abs()) < 0.03
    assert not torch.equal(moves + X, attack(lambda X: X.sum(), X, seed=1))


def test_bounds_hold():
    moved = RandomNoise(0.3, bounds=(0.0, 1.0))(lambda X: X.sum(), rows(200))
    assert 0 <= float(moved.min()) <= float(moved.max()) <= 1
