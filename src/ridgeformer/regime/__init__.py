"""When is a network with attention a kernel machine? Spectra, networks, their kernels, and how far apart they are.

A value flows from rows to `LinearisedAttention` features, to a network (`Architecture`), to its tangent kernel
(`finite_relu_ntk`, `empirical_ntk`) and its training (`Training`); `measure` puts one network on record,
`follow_training` at several lengths of its training, and `answer_regime` says in words what it amounts to.
"""

from ridgeformer.regime.along import Along, descend, follow_training
from ridgeformer.regime.answer import RegimeAnswer, answer_regime
from ridgeformer.regime.architecture import Architecture, Built, CustomArchitecture
from ridgeformer.regime.distances import (
    Criterion,
    KernelDistances,
    NumericalChecks,
    check_numerically,
    kernel_distances,
    published_width,
    required_widths,
    width_from_measurement,
)
from ridgeformer.regime.finite_ntk import (
    NetworkNTK,
    finite_relu_ntk,
    finite_relu_ntks,
    network_kernel,
    relu_ntk_of_weights,
)
from ridgeformer.regime.measurement import Measurement, OutputDistance, measure
from ridgeformer.regime.networks import (
    FrozenPattern,
    LinearisedAttention,
    QKVBlock,
    QKVNetwork,
    ReluNetwork,
    dead_share,
    expected_qkv_kernel,
    is_dead,
    normalise_rows,
    qkv_features,
    softmax_gap,
)
from ridgeformer.regime.spectra import GramSpectrum, attention_order, gram_spectrum
from ridgeformer.regime.tangent_kernel import (
    Linearised,
    empirical_ntk,
    kernel_descent,
    linearised_predictions,
    stable_rate,
    tangent_norm,
)
from ridgeformer.regime.training import Trained, Training, train

__all__ = [
    "Along",
    "Architecture",
    "Built",
    "Criterion",
    "CustomArchitecture",
    "FrozenPattern",
    "GramSpectrum",
    "KernelDistances",
    "Linearised",
    "LinearisedAttention",
    "Measurement",
    "NetworkNTK",
    "NumericalChecks",
    "OutputDistance",
    "QKVBlock",
    "QKVNetwork",
    "RegimeAnswer",
    "ReluNetwork",
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
