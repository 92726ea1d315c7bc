"""Losses of a prediction: the outputs stand on the last axis and are summed away."""

from __future__ import annotations

from torch import Tensor

__all__ = ["cross_entropy", "squared_loss"]


def squared_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Return |f - y|^2 / 2.

    Example:
        >>> import torch
        >>> squared_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
        tensor(2.)
    """
    return (prediction - target).square().sum(-1) / 2


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of softmax(f) with the class whose target is largest; two outputs at least.

    Example:
        >>> import torch
        >>> cross_entropy(torch.tensor([0.0, 0.0]), torch.tensor([-1.0, 1.0]))
        tensor(0.6931)
    """
    return -prediction.log_softmax(-1).gather(-1, target.argmax(-1, keepdim=True))[..., 0]
