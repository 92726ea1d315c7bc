"""Gradient descent preconditioned by a matrix in the weights, as trained linear transformers have it [Ahn2023]."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["whitened_descent"]


@algorithm
def whitened_descent(net: ProgramWriter, step_size: float = 0.5) -> None:
    """Gradient descent, preconditioned by the projection it is compiled with.

    The embedding multiplies every row by the matrix A of `compile(..., projection=A)`, so that descent in these
    coordinates is w <- w - step_size A'A gradient in those of the data: any positive definite preconditioner P = A'A.
    The best one for a single layer, where rows have the covariance S, tends to a multiple of the inverse of S.
    """
    net.features("x"), net.targets("y")
    net.state("w", "features", "coefficients of A x")
    with net.step():
        net.let(w="w - step_size * mean((dot(x, w) - y) * x)")
        net.record("w")
        net.predict("dot(x, w)")


@whitened_descent.fixed_point
def gradient(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return the gradient mean (x'w - y) x, which is zero at least squares."""
    return X.T @ (X @ values["w"][-1, 0] - y[:, 0]) / len(X)


@whitened_descent.theorem("the distance from least squares shrinks by max |1 - step_size eigenvalue| in every step")
def contraction(value: WrittenAlgorithm, X: Tensor, y: Tensor, Xq: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """Return the distance in predictions after every step, and the factor times the one before."""
    eigenvalues = torch.linalg.eigvalsh(X.T @ X / len(X))
    kept = eigenvalues[eigenvalues > 1e-12 * eigenvalues[-1]]
    factor = (1 - getattr(value, "step_size") * kept).abs().max()  # noqa: B009
    solution = torch.linalg.lstsq(X, y[:, 0], driver="gelsd").solution
    w = torch.cat([torch.zeros_like(values["w"][:1, 0]), values["w"][:, 0]])
    distance = ((w - solution) @ X.T).norm(dim=1)
    return distance[1:], factor * distance[:-1] + 1e-12 * distance[0]
