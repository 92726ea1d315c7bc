import foolbox
import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence.attacks import PGD
from tests.influence.attacks.attack_case import AttackCase, objective, rows


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
def test_bad_steps(wrong):
    with pytest.raises(errors.InputError, match=next(iter(wrong))):
        PGD(0.1, **wrong)
