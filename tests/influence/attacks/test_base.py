import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence.attacks import ATTACKS, FGSM, build_attack
from tests.influence.attacks.attack_case import rows


def test_attacks_are_built_by_name():
    for name, kind in ATTACKS.items():
        attack = build_attack(name, 0.2, norm="l2", bounds=(0, 1))
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
