"""A small model that both we and foolbox can attack, and what every attack must satisfy."""

import foolbox
import pytest
import torch

from ridgeformer import errors
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks import Attack


def rows(n=12, d=6):
    return torch.rand(n, d, generator=torch_generator(5, "attack rows"), dtype=torch.float32)


def model():
    """A small smooth network from weights that a generator drew."""
    W = torch.randn(6, 8, generator=torch_generator(5, "first"), dtype=torch.float32)
    V = torch.randn(8, 3, generator=torch_generator(5, "second"), dtype=torch.float32)

    class Net(torch.nn.Module):
        def forward(self, X):
            return torch.tanh(X @ W) @ V

    return Net().eval()


LABELS = torch.tensor([0, 1, 2] * 4)


def objective(X):
    return torch.nn.functional.cross_entropy(model()(X), LABELS, reduction="none")


def by_foolbox(attack, bounds, eps):
    ends = bounds or (-1e6, 1e6)
    wrapped = foolbox.PyTorchModel(model(), bounds=ends, device="cpu")
    return attack.run(wrapped, rows(), foolbox.criteria.Misclassification(LABELS), epsilon=eps)


class AttackCase:
    """Inherit and give `make(eps, norm, bounds)`; the tests come along."""

    def make(self, eps, norm="linf", bounds=None) -> Attack:
        raise NotImplementedError

    def foolboxs(self, norm):
        """Return foolbox's attack with the same settings."""
        raise NotImplementedError

    @pytest.mark.parametrize("norm", ["linf", "l2"])
    @pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
    @pytest.mark.parametrize("eps", [0.05, 0.3])
    def test_equals_foolbox(self, norm, bounds, eps):
        expected = by_foolbox(self.foolboxs(norm), bounds, eps)
        torch.testing.assert_close(self.make(eps, norm, bounds)(objective, rows()), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("norm", ["linf", "l2"])
    def test_raises_the_objective_within_the_ball_and_the_bounds(self, norm):
        X = rows().double()
        attack = self.make(0.2, norm, (0.0, 1.0))

        def smooth(X):
            return torch.sin(3 * X).sum(1)

        moved = attack(smooth, X)
        assert float(smooth(moved).sum()) > float(smooth(X).sum()) + 0.5
        assert float(attack.ball.length(moved - X).max()) <= 0.2 * (1 + 1e-12)
        assert float(moved.min()) >= 0
        assert float(moved.max()) <= 1
        assert float(attack.ball.length(self.make(0.2, norm)(smooth, 9 * X) - 9 * X).max()) <= 0.2 * (1 + 1e-12)

    def test_only_the_named_rows_move_and_nothing_moves_at_eps_zero(self):
        X = rows().double()
        moved = self.make(0.1)(lambda X: X.square().sum(), X, rows=[2, 5])
        assert ((moved != X).any(1)).nonzero().flatten().tolist() == [2, 5]
        assert torch.equal(self.make(0.0)(lambda X: X.sum(), X), X)

    def test_rows_that_move_see_each_other_move(self):
        """The objective couples the rows: each must go where the other is."""
        X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        moved = self.make(0.4)(lambda X: -(X[0] - X[1]).square(), X)
        assert float((moved[1] - moved[0]).abs()) < 0.45

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"eps": -0.1}, "eps is -0.1"),
            ({"eps": float("nan")}, "eps is nan"),
            ({"eps": "big"}, "number >= 0 was expected"),
            ({"eps": 0.1, "norm": "l3"}, "unknown norm 'l3'"),
            ({"eps": 0.1, "bounds": (1.0, 0.0)}, "low < high"),
            ({"eps": 0.1, "bounds": 3.0}, "low < high"),
        ],
    )
    def test_bad_settings(self, settings, words):
        with pytest.raises(errors.InputError, match=words):
            self.make(**settings)

    def test_bounds_that_exclude_the_data_are_refused(self):
        with pytest.raises(errors.InputError, match=r"bounds must hold the data"):
            self.make(0.1, "linf", (0.5, 1.0))(objective, rows())
