import pytest
import torch

from ridgeformer.influence.attacks import RandomNoise
from tests.influence.attacks.attack_case import rows


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
