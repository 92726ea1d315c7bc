"""Kernels of attention: one a file, each with a dense form, a diagonal and a matrix-free product.

A new kernel is one file with a `Kernel` subclass, one line in `KERNELS` and a test file of the same name.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ridgeformer.core.errors import unknown_name
from ridgeformer.kernels.base import FeatureKernel, Kernel, LogitKernel
from ridgeformer.kernels.dot_product import CentredDotProduct, DotProduct
from ridgeformer.kernels.exponential import Exponential
from ridgeformer.kernels.gaussian import Gaussian
from ridgeformer.kernels.gram_power import GramPower
from ridgeformer.kernels.relu_ntk import ReluNTK

__all__ = [
    "KERNELS",
    "CentredDotProduct",
    "DotProduct",
    "Exponential",
    "FeatureKernel",
    "Gaussian",
    "GramPower",
    "Kernel",
    "LogitKernel",
    "ReluNTK",
    "build_kernel",
    "mean_square_length",
]

KERNELS: dict[str, Callable[[Tensor, float, int], Kernel]] = {
    "dot_product": lambda X, temperature, order: DotProduct(),
    "exponential": lambda X, temperature, order: Exponential(temperature),
    "gaussian": lambda X, temperature, order: Gaussian(temperature),
    "gram_power": lambda X, temperature, order: GramPower(order, X),
    "relu_ntk": lambda X, temperature, order: ReluNTK(),
    "relu_ntk_both": lambda X, temperature, order: ReluNTK(both_layers=True),
}
"""Kernels by name, built from the training rows, a temperature and an order; each takes what it needs."""


def build_kernel(name: str, X: Tensor, *, temperature: str | int | float = "auto", order: int = 3) -> Kernel:
    """Return the named kernel for training rows X.

    `temperature="auto"` is the mean squared row length, so that logits are of order one.

    Example:
        >>> import torch
        >>> build_kernel("exponential", torch.tensor([[1.0, 1.0], [0.0, 2.0]])).temperature
        3.0
    """
    if name not in KERNELS:
        raise unknown_name("kernel", name, KERNELS)
    tau = mean_square_length(X) if temperature == "auto" else temperature
    return KERNELS[name](X, tau, order)  # type: ignore[arg-type]  # the kernel refuses other strings


def mean_square_length(X: Tensor) -> float:
    """Return the mean of |x_i|^2, or 1 if every row is zero: a temperature that makes logits of order one."""
    return float(X.detach().square().sum(1).mean()) or 1.0
