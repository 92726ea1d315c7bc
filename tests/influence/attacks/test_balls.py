import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks.balls import BALLS
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
