"""Least mean squares in causal order: stochastic gradient descent, one support after the other [Widrow1960]."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.written import Values, WrittenAlgorithm, algorithm
from ridgeformer.language.writing import ProgramWriter

__all__ = ["least_mean_squares"]


@algorithm
def least_mean_squares(net: ProgramWriter, step_size: float = 0.1) -> None:
    """Least mean squares over a strictly causal stream.

    The filter w <- w + step_size e_t x_t, e_t = y_t - x_t'w, takes one pass over the supports in their order. Its
    errors solve e_t = y_t - step_size sum over s < t of (x_t'x_s) e_s, and every step of the program makes one more of
    them exact: after n steps all n are, because a strictly lower triangular matrix is nilpotent. Queries answer with
    x'w after the last support.
    """
    net.features("x"), net.targets("y")
    net.state("e", "outputs", "error before the support is used")
    net.state("s", "outputs", "prediction from earlier supports, over step_size")
    with net.step():
        net.let(e="y - step_size * s")
        net.attend({"s": "e"}, scores={("x", "x"): 1.0}, kind="linear", relation="before", name="earlier supports")
        net.record("e")
        net.predict("step_size * s")


@least_mean_squares.fixed_point
def residual(value: WrittenAlgorithm, X: Tensor, y: Tensor, values: Values) -> Tensor:
    """Return e + step_size L e - y, L being X X' below its diagonal, which is zero at the errors of the filter."""
    e = values["e"][-1]
    return e + getattr(value, "step_size") * (X @ X.T).tril(-1) @ e - y  # noqa: B009


@least_mean_squares.theorem("after t steps the first t errors are those of the filter")
def prefix(value: WrittenAlgorithm, X: Tensor, y: Tensor, Xq: Tensor, values: Values) -> tuple[Tensor, Tensor]:
    """Return how far the first t errors are from those of one pass of the filter, and a bound for rounding."""
    w, errors = X.new_zeros(X.shape[1], y.shape[1]), []
    for x, target in zip(X, y, strict=True):
        errors.append(target - x @ w)
        w = w + getattr(value, "step_size") * torch.outer(x, errors[-1])  # noqa: B009
    exact, found = torch.stack(errors), values["e"]
    measured = torch.stack([(found[t - 1, :t] - exact[:t]).abs().max() for t in range(1, len(found) + 1)])
    return measured, torch.full_like(measured, 1e-12 * float(exact.abs().max()))
