"""When is a network with attention a kernel machine? Spectra, networks, their kernels, and how far apart they are.

A value flows from rows to `Attention` features, to a network (`Architecture`), to its tangent kernel
(`finite_relu_ntk`, `empirical_ntk`) and its training (`Training`); `measure` puts one network on record,
`follow_training` at several lengths of its training, and `answer_regime` says in words what it amounts to.
"""

from ridgeformer.regime.along import Along, descend, follow_training
from ridgeformer.regime.answer import RegimeAnswer, answer_regime
from ridgeformer.regime.architecture import Architecture, Built, CustomArchitecture
from ridgeformer.regime.attention import Attention, softmax_gap
from ridgeformer.regime.criteria import Criterion
from ridgeformer.regime.curvature import stable_rate, tangent_norm
from ridgeformer.regime.empirical_ntk import empirical_ntk
from ridgeformer.regime.finite_ntk import finite_relu_ntk, finite_relu_ntks, relu_ntk_of_weights
from ridgeformer.regime.kernel_distances import KernelDistances, kernel_distances
from ridgeformer.regime.linearised import Linearised, kernel_descent, linearised_predictions
from ridgeformer.regime.measure import Measurement, OutputDistance, measure
from ridgeformer.regime.network_kernel import NetworkNTK, network_kernel
from ridgeformer.regime.networks import FrozenPattern, QKVBlock, QKVNetwork, ReluNetwork, dead_share, is_dead
from ridgeformer.regime.numerical_checks import NumericalChecks, check_numerically
from ridgeformer.regime.qkv import expected_qkv_kernel, qkv_features
from ridgeformer.regime.rows import normalise_rows
from ridgeformer.regime.spectra import GramSpectrum, attention_order, gram_spectrum
from ridgeformer.regime.training import Trained, Training, train
from ridgeformer.regime.widths import RequiredWidth, published_width, required_widths, width_from_measurement

__all__ = [
    "Along",
    "Architecture",
    "Attention",
    "Built",
    "Criterion",
    "CustomArchitecture",
    "FrozenPattern",
    "GramSpectrum",
    "KernelDistances",
    "Linearised",
    "Measurement",
    "NetworkNTK",
    "NumericalChecks",
    "OutputDistance",
    "QKVBlock",
    "QKVNetwork",
    "RegimeAnswer",
    "ReluNetwork",
    "RequiredWidth",
    "Trained",
    "Training",
    "answer_regime",
    "attention_order",
    "check_numerically",
    "dead_share",
    "descend",
    "empirical_ntk",
    "expected_qkv_kernel",
    "finite_relu_ntk",
    "finite_relu_ntks",
    "follow_training",
    "gram_spectrum",
    "is_dead",
    "kernel_descent",
    "kernel_distances",
    "linearised_predictions",
    "measure",
    "network_kernel",
    "normalise_rows",
    "published_width",
    "qkv_features",
    "relu_ntk_of_weights",
    "required_widths",
    "softmax_gap",
    "stable_rate",
    "tangent_norm",
    "train",
    "width_from_measurement",
]
