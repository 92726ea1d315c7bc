"""When is a network with attention a kernel machine? Spectra, networks, their kernels, and how far apart they are."""

from ridgeformer.regime.attention import Attention, softmax_gap
from ridgeformer.regime.empirical_ntk import empirical_ntk
from ridgeformer.regime.finite_ntk import finite_relu_ntk, finite_relu_ntks, relu_ntk_of_weights
from ridgeformer.regime.kernel_distances import KernelDistances, kernel_distances
from ridgeformer.regime.linearised import Linearised, kernel_descent, linearised_predictions
from ridgeformer.regime.numerical_checks import NumericalChecks, check_numerically
from ridgeformer.regime.qkv import expected_qkv_kernel, qkv_features
from ridgeformer.regime.rows import normalise_rows
from ridgeformer.regime.spectra import GramSpectrum, attention_order, gram_spectrum
from ridgeformer.regime.widths import RequiredWidth, published_width, required_widths, width_from_measurement

__all__ = [
    "Attention",
    "GramSpectrum",
    "KernelDistances",
    "Linearised",
    "NumericalChecks",
    "RequiredWidth",
    "attention_order",
    "check_numerically",
    "empirical_ntk",
    "expected_qkv_kernel",
    "finite_relu_ntk",
    "finite_relu_ntks",
    "gram_spectrum",
    "kernel_descent",
    "kernel_distances",
    "linearised_predictions",
    "normalise_rows",
    "published_width",
    "qkv_features",
    "relu_ntk_of_weights",
    "required_widths",
    "softmax_gap",
    "width_from_measurement",
]
