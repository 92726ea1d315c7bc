"""When is a network with attention a kernel machine? Spectra, networks, their kernels, and how far apart they are."""

from ridgeformer.regime.empirical_ntk import empirical_ntk
from ridgeformer.regime.finite_ntk import finite_relu_ntk, finite_relu_ntks, relu_ntk_of_weights
from ridgeformer.regime.kernel_distances import KernelDistances, kernel_distances
from ridgeformer.regime.linearised import Linearised, kernel_descent, linearised_predictions

__all__ = [
    "KernelDistances",
    "Linearised",
    "empirical_ntk",
    "finite_relu_ntk",
    "finite_relu_ntks",
    "kernel_descent",
    "kernel_distances",
    "linearised_predictions",
    "relu_ntk_of_weights",
]
