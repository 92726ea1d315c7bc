"""A network beside its limit kernel at several lengths of one training, fast enough for wide networks and long ones.

Gradient descent on the first layer moves a neuron only in the span of the training rows: w_r = w_r0 + X'b_r. With the
m x n matrix B of the b_r a step is one product with the Gram matrix, whatever the number of features, and what is
learned is never added to a weight that is a million times larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import require_memory
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime.architecture import Architecture
from ridgeformer.regime.distances import kernel_distances
from ridgeformer.regime.finite_ntk import gram_factor
from ridgeformer.regime.networks import ReluNetwork
from ridgeformer.regime.tangent_kernel import linearised_predictions, stable_rate

__all__ = ["Along", "Stage", "descend", "follow_training"]

BLOCK = 2048
"""Neurons moved at once."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A network after some steps: its outputs on the training and test rows, and which neurons each row makes active.

    `fitted` (n, c), `outputs` (q, c) and `active` (m, n), which holds 0 or 1.
    """

    steps: int
    fitted: Tensor
    outputs: Tensor
    active: Tensor


def descend(
    network: ReluNetwork,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, "n c"],
    Xt: Float[Tensor, "q d"],
    lengths: Sequence[int],
    rate: float,
) -> Iterator[Stage]:
    """Yield the network before training and after each of the lengths of full-batch descent on the mean squared error.

    The same as `train` with method "descent" and no penalty, to round-off. The module itself is not changed.

    `X` and `Xt` are training and test rows in the network's precision; `lengths` are rising numbers of steps.
    """
    lengths = [whole(length, "length", 1) for length in lengths]
    if sorted(set(lengths)) != lengths or not lengths:
        raise InputError(f"lengths are {lengths}; rising numbers were expected: sort them and drop repetitions.")
    W, signs = network.weights.detach(), network.signs / sqrt(len(network.signs))
    pace = 2 * positive(rate, "rate", "the size of a step") / y.numel()
    G, start = X @ X.T, W @ X.T
    B, active = torch.zeros_like(start), torch.zeros_like(start)

    def step(residual: Tensor) -> Tensor:
        """Move B against the gradient and return the outputs there, block by block while its numbers are in cache."""
        outputs = torch.zeros_like(y)
        for first in range(0, len(W), BLOCK):
            neurons = slice(first, first + BLOCK)
            B[neurons].addcmul_(active[neurons], signs[neurons] @ residual.T, value=-pace)
            sums = torch.addmm(start[neurons], B[neurons], G)
            torch.gt(sums, 0, out=active[neurons])
            outputs += sums.mul_(active[neurons]).T @ signs[neurons]
        return outputs

    fitted, wanted = step(torch.zeros_like(y)), {0, *lengths}
    for done in range(lengths[-1] + 1):
        if done:
            fitted = step(fitted - y)
        if done in wanted:
            yield Stage(done, fitted, (W @ Xt.T).addmm_(B, X @ Xt.T).relu_().T @ signs, active.clone())


@dataclass(frozen=True)
class Along:
    """A network after some steps beside its limit kernel trained as long from the network's own start.

    Attributes:
        steps: Steps of full-batch gradient descent on the mean squared error.
        relative: Norm of the difference of the test outputs over that of the kernel's outputs.
        rms: Root mean square of the same difference, in units of the targets.
        train_loss, limit_train_loss: Mean squared error on the training rows, of the network and of the kernel.
        train_error, test_error: Fraction of rows in the wrong class, or mean squared error.
        limit_test_error: The same of the kernel's predictor.
        kernel_drift: norm_F(K_t - K_0)/norm_F(K_0) on the training rows.
        kernel_start, kernel_end: Multiplicative distance of the kernel from its limit, before training and now.
    """

    steps: int
    relative: float
    rms: float
    train_loss: float
    limit_train_loss: float
    train_error: float
    test_error: float
    limit_test_error: float
    kernel_drift: float
    kernel_start: float
    kernel_end: float


def follow_training(
    split: Split,
    architecture: Architecture,
    *,
    width: int,
    seed: int,
    lengths: Sequence[int],
    dtype: torch.dtype = torch.float32,
) -> list[Along]:
    """Train one network and compare it with its limit kernel at each of the lengths.

    The rate is half of what is stable for the limit kernel, so it is the same at every width. Rows are rotated into
    their own span first, which changes no distribution: Gaussian weights have no preferred direction.

    `architecture` is "relu" or "mlp-attn", `lengths` are rising numbers of steps, and `dtype` is the precision of the
    network; the kernel's predictor is float64.

    Example:
        >>> from ridgeformer.datasets import load
        >>> split = Split.for_networks(load("digits"), rows=40, test_rows=20, classes=("3", "8"))
        >>> short, long = follow_training(
        ...     split, Architecture("relu", scale=1.0), width=4096, seed=0, lengths=[10, 100])
        >>> long.train_loss < short.train_loss, long.relative < 0.1
        (True, True)
    """
    if architecture.name == "qkv":
        raise InputError("qkv has no limit in closed form to be compared with: use relu or mlp-attn, or `measure`.")
    width, n = whole(width, "width", 1), len(split.X)
    size, both = torch.finfo(dtype).bits // 8, n + len(split.Xt)
    require_memory(
        width * (8 * both + size * (both + 5 * n)), f"a network of width {width:,}", "use a smaller width or fewer rows"
    )
    features = architecture.build(split.X, 1, 1, torch_generator(0, "shape")).features
    factor = gram_factor(torch.cat([features(split.X), features(split.Xt)]))
    X, Xt = factor[:n], factor[n:]
    K, cross, y = ReluNTK()(X), ReluNTK()(Xt, X), split.y
    rate = stable_rate(float(torch.linalg.eigvalsh(K)[-1]), y, "mse")
    generator = torch_generator(whole(seed, "seed", 0), "regime.along", width)
    network = ReluNetwork(factor.shape[1], width, generator, outputs=y.shape[1], scale=architecture.scale, dtype=dtype)
    first, *stages = descend(network, X.to(dtype), y.to(dtype), Xt.to(dtype), lengths, rate)
    start, start_query = first.fitted.double(), first.outputs.double()

    def kernel(stage: Stage) -> Tensor:
        return X @ X.T * (stage.active.T @ stage.active).double() / width

    def compare(stage: Stage) -> Along:
        """Return a stage beside the limit kernel at the same time, from the same start."""
        how: dict[str, Any] = {"time": stage.steps, "rate": rate, "scale": 2 / y.numel(), "start": start}
        predicted = linearised_predictions(K, cross, y, start_query=start_query, **how)
        predicted_fit = linearised_predictions(K, K, y, start_query=start, **how)
        outputs, fitted = stage.outputs.double(), stage.fitted.double()
        before, after = kernel(first), kernel(stage)
        gap = outputs - predicted
        return Along(
            steps=stage.steps,
            relative=float(gap.norm() / predicted.norm()),
            rms=float(gap.square().mean().sqrt()),
            train_loss=float((fitted - y).square().mean()),
            limit_train_loss=float((predicted_fit - y).square().mean()),
            train_error=split.error(fitted, train=True),
            test_error=split.error(outputs),
            limit_test_error=split.error(predicted),
            kernel_drift=float((after - before).norm() / before.norm()),
            kernel_start=kernel_distances(before, K, ridge=1.0).multiplicative,
            kernel_end=kernel_distances(after, K, ridge=1.0).multiplicative,
        )

    return [compare(stage) for stage in stages]
