import torch

from ridgeformer.influence import cross_entropy, squared_loss
from tests.influence.influence_case import draw


def test_squared_loss_sums_over_outputs():
    f, y = draw(4, 3, purpose="f"), draw(4, 3, purpose="y")
    torch.testing.assert_close(squared_loss(f, y), ((f - y) ** 2).sum(1) / 2)


def test_cross_entropy_is_torchs_for_the_coded_class():
    f, labels = draw(6, 4, purpose="f"), torch.tensor([0, 3, 1, 1, 2, 0])
    coded = 2 * torch.nn.functional.one_hot(labels, 4).double() - 1
    expected = torch.nn.functional.cross_entropy(f, labels, reduction="none")
    torch.testing.assert_close(cross_entropy(f, coded), expected)
