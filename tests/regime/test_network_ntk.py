import numpy as np
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.regime import NetworkNTK, ReluNetwork, Training, empirical_ntk, network_kernel, relu_ntk_of_weights
from tests.kernels.kernel_case import KernelCase


def draw(n, d, purpose):
    return torch.randn(n, d, generator=torch_generator(4, purpose), dtype=torch.float64)


class TestNetworkNTK(KernelCase):
    def kernel(self):
        return NetworkNTK(draw(50, self.d, "weights"))

    def formula(self, x, z):
        W = draw(50, self.d, "weights").numpy()
        return float(np.mean((W @ x > 0) & (W @ z > 0)) * (x @ z))


def test_it_is_the_kernel_of_the_activation_pattern():
    X, W = draw(9, 4, "rows"), draw(33, 4, "weights")
    torch.testing.assert_close(NetworkNTK(W)(X), relu_ntk_of_weights(X, W))


def test_it_is_the_jacobian_of_the_network_it_was_drawn_as():
    X, y = draw(6, 4, "rows"), draw(6, 1, "targets")
    network = ReluNetwork(4, 20, torch_generator(5, "network"))
    torch.testing.assert_close(network_kernel(X, y, 20, 5)(X), empirical_ntk(network, X).reshape(6, 6))


def test_training_and_the_seed_change_it():
    X, y = draw(20, 4, "rows"), draw(20, 1, "targets").sign()
    start = network_kernel(X, y, 20, 5)
    trained = network_kernel(X, y, 20, 5, Training(method="descent", rate=0.5, epochs=50))
    again = network_kernel(X, y, 20, 5, Training(method="descent", rate=0.5, epochs=50))
    assert torch.equal(trained.weights, again.weights)
    assert not torch.equal(trained.weights, start.weights)
    assert not torch.equal(network_kernel(X, y, 20, 6).weights, start.weights)


def test_patterns_that_are_kept_follow_the_rows():
    X, W = draw(6, 4, "rows"), draw(20, 4, "weights")
    kernel = NetworkNTK(W)
    kernel(X)
    X.neg_()
    torch.testing.assert_close(kernel(X), relu_ntk_of_weights(X, W))
    for shift in range(3):
        moved = X + shift
        torch.testing.assert_close(kernel(moved, X), NetworkNTK(W)(moved, X))


def test_the_precision_of_the_weights_decides_which_neurons_are_active():
    barely = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    X = torch.tensor([[1.0, 1.0 - 1e-12]], dtype=torch.float64)
    assert float(NetworkNTK(barely)(X)) > 0
    assert float(NetworkNTK(barely.float())(X)) == 0
