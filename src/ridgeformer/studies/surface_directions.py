"""Two orthonormal directions through the weights of a network: random, or of largest curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from ridgeformer.core.errors import unknown_name
from ridgeformer.core.seeds import numpy_generator

__all__ = ["choose_directions", "curvature"]

Height: TypeAlias = Callable[[Tensor], Tensor]
"""The loss at some weights; twice differentiable almost everywhere."""

NAMES = ("random", "hessian")


def choose_directions(at: Height, weights: Tensor, name: str, seed: int) -> tuple[Tensor, Tensor]:
    """Return two orthonormal directions shaped like the weights.

    "random" is two Gaussian draws, orthonormalised, with no scaling neuron by neuron; "hessian" is the eigenvectors of
    the two largest eigenvalues of the second derivative at these weights, by Lanczos from a seeded start.

    Raises:
        UnknownNameError: another name.

    Example:
        >>> at = lambda w: (torch.tensor([1.0, 9.0, 4.0]).double() * w.square()).sum()
        >>> u, v = choose_directions(at, torch.ones(3).double(), "hessian", seed=0)
        >>> u.abs().argmax().item(), v.abs().argmax().item()
        (1, 2)
    """
    if name not in NAMES:
        raise unknown_name("directions", name, NAMES)
    start = numpy_generator(seed, "directions").standard_normal((weights.numel(), 2))
    pair = np.linalg.qr(start)[0] if name == "random" else _steepest(at, weights, start[:, 0])
    u, v = (torch.from_numpy(np.ascontiguousarray(column)).to(weights).reshape(weights.shape) for column in pair.T)
    return u, v


def curvature(at: Height, weights: Tensor, direction: Tensor) -> float:
    """Return the second derivative of the loss along a direction, d'Hd.

    Example:
        >>> curvature(lambda w: 3 * w.square().sum(), torch.ones(2).double(), torch.tensor([1.0, 0.0]).double())
        6.0
    """
    return float((direction * _hessian_product(at, weights, direction)).sum())


def _hessian_product(at: Height, weights: Tensor, direction: Tensor) -> Tensor:
    leaf = weights.detach().clone().requires_grad_()
    with torch.enable_grad():
        slope = torch.autograd.grad(at(leaf), leaf, create_graph=True)[0]
        return torch.autograd.grad((slope * direction).sum(), leaf)[0]


def _steepest(at: Height, weights: Tensor, start: NDArray[np.float64]) -> NDArray[np.float64]:
    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        direction = torch.from_numpy(vector.reshape(tuple(weights.shape))).to(weights)
        return _hessian_product(at, weights, direction).double().numpy().ravel()

    size = weights.numel()
    values, vectors = eigsh(LinearOperator((size, size), matvec=product, dtype=np.float64), k=2, which="LA", v0=start)
    return np.asarray(vectors[:, np.argsort(values)[::-1]])
