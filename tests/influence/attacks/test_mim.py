import foolbox
import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence.attacks import MIM, PGD
from tests.influence.attacks.attack_case import AttackCase, objective, rows


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
