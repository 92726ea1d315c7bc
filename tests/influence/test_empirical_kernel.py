import torch
from torch import nn

from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.empirical_kernel import EmpiricalNTK
from ridgeformer.regime import NetworkNTK, ReluNetwork
from tests.influence.influence_case import draw


def test_it_is_the_closed_form_of_a_relu_layer_between_any_rows():
    network = ReluNetwork(4, 32, torch_generator(0, "network"), outputs=3)
    X, Z = draw(6, 4, purpose="rows"), draw(3, 4, purpose="others")
    exact, found = NetworkNTK(network.weights), EmpiricalNTK(network)
    torch.testing.assert_close(found(X), exact(X))
    torch.testing.assert_close(found(X, Z), exact(X, Z))
    torch.testing.assert_close(found.diag(X), exact.diag(X))


def test_precision_follows_the_rows():
    assert EmpiricalNTK(nn.Linear(2, 1))(torch.ones(3, 2, dtype=torch.float64)).dtype == torch.float64
