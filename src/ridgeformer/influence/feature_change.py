"""What moving training rows does to a prediction: its gradient, through the kernel and the features."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query
from ridgeformer.influence.exact import fit
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.kernels import Kernel

__all__ = ["feature_change", "prediction_gradient"]


def feature_change(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, *, features: Features | None = None
) -> Float[Tensor, "q outputs n d"]:
    """Return the derivative of f(x) in every entry of every training row, (q, outputs, n, d).

    Moving row i by a small v changes the prediction by the sum of entry [query, output, i] times v; the
    refit after the move is included. Within |v|_inf <= eps the most it can do is eps times the entry's 1-norm,
    to first order. Holds where the kernel is differentiable.

    Args:
        kernel: any kernel; gradients flow through it by autograd.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs); a vector counts as one output.
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        features: what the kernel sees of the rows; with `AttentionFeatures` moving one row moves all.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> feature_change(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0).flatten()
        tensor([ 0.1111, -0.1111], dtype=torch.float64)
    """
    features = features or RawFeatures()
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    kernel = fitted.system.kernel  # scaled like the coefficients
    weights = fitted.influence(queries).weights
    gradients = []
    for q in range(len(Xq)):
        for output in range(fitted.y.shape[1]):
            alpha = fitted.alpha[:, output : output + 1]
            gradients.append(prediction_gradient(kernel, X, Xq[q : q + 1], alpha, weights[:, q : q + 1], features))
    return torch.stack(gradients).reshape(len(Xq), -1, *X.shape)


def prediction_gradient(
    kernel: Kernel,
    X: Float[Tensor, "n d"],
    Xq: Float[Tensor, "1 d"],
    alpha: Float[Tensor, "n 1"],
    weights: Float[Tensor, "n 1"],
    features: Features,
) -> Float[Tensor, "n d"]:
    """Return the gradient in X of f(x) = k(x)'R y for one query, given alpha = R y and weights = R k(x).

    From dR = -R dK R it is that of k(x)'alpha - weights'K alpha with alpha and weights held fixed, so the
    factorisation is never differentiated and K is never held whole.
    """
    moving = X.clone().requires_grad_()
    with torch.enable_grad():
        rows, query = features(moving, Xq)
        value = kernel.product(query, rows, alpha).sum() - (weights * kernel.product(rows, rows, alpha)).sum()
        return torch.autograd.grad(value, moving)[0]
