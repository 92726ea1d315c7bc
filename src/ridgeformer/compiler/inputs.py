"""The input of a compiled transformer: supports, targets and queries that fit it, and logits it can hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler.specification import Specification
from ridgeformer.core.checks import as_tensor, cast
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.language.expressions import SMALLEST_DIVISOR

__all__ = ["TokenInput", "check_squares", "check_task"]


@dataclass(frozen=True, eq=False)
class TokenInput:
    """Checked input: supports (..., k, features), targets (..., k, outputs), queries (..., q, features)."""

    X: Tensor
    y: Tensor
    Xq: Tensor
    flat: bool

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor]:
        """Supports, targets, queries."""
        return self.X, self.y, self.Xq


def check_task(spec: Specification, X: Any, y: Any, Xq: Any, embedding: Tensor) -> TokenInput:
    """Return the input as tensors of the model's dtype.

    Raises:
        ShapeError: rows, features or outputs that do not fit.
        InputError: NaN, infinity or text; numbers the precision cannot hold, or cannot hold the squares of where the
            algorithm needs them; a Neumann series that cannot converge on these supports.
        LogitRangeError: logits the precision cannot hold beside the sink's.
    """
    X, Xq = (_rows(value, name, spec) for value, name in ((X, "X"), (Xq, "Xq")))
    given = as_tensor(y, "y")
    targets = cast(given, X, "y")
    flat = targets.ndim == X.ndim - 1
    if flat:
        given, targets = given[..., None], targets[..., None]
    if X.shape[:-2] != Xq.shape[:-2]:
        raise ShapeError(f"X has shape {tuple(X.shape)} and Xq {tuple(Xq.shape)}: give both the same number of tasks.")
    if targets.shape != (*X.shape[:-1], spec.outputs):
        raise ShapeError(
            f"y has shape {tuple(as_tensor(y, 'y').shape)}; {(*X.shape[:-1], spec.outputs)} was expected: one row per "
            f"support and {spec.outputs} output(s), as compiled."
        )
    _check_sizes(given.detach(), targets.dtype)
    if spec.algorithm.inner_products:
        check_squares(targets.detach())
    rows, queries = X.detach() @ embedding, Xq.detach() @ embedding
    spec.attention.check_rows(rows, queries)
    _check_convergence(spec, rows)
    return TokenInput(X, targets, Xq, flat)


def _rows(value: Any, name: str, spec: Specification) -> Tensor:
    rows = as_tensor(value, name)
    rows = cast(rows, rows.new_empty(0, dtype=spec.torch_dtype), name)
    if rows.ndim not in (2, 3):
        raise ShapeError(
            f"{name} has shape {tuple(rows.shape)}; (rows, features) or (tasks, rows, features) was expected."
        )
    if 0 in rows.shape[:-1]:
        raise ShapeError(f"{name} has shape {tuple(rows.shape)}; at least one row is needed.")
    if rows.shape[-1] != spec.features:
        raise ShapeError(
            f"{name} has {rows.shape[-1]} features and the model was compiled for {spec.features}: compile it for the "
            "features of your data."
        )
    return rows


def _check_sizes(y: Tensor, dtype: torch.dtype) -> None:
    """Refuse targets (..., k, outputs) of an output that are so small that the model's precision loses them."""
    largest, least = y.abs().amax(-2), torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    lost = (largest > 0) & (largest < least)
    if bool(lost.any()):
        name = str(dtype).removeprefix("torch.")
        raise InputError(
            f"the targets of an output reach {float(largest[lost][0]):.3g}, and {name} holds all digits of numbers "
            f"from {least:.1g} on: divide y by a constant near that, and multiply the predictions by it."
        )


def check_squares(y: Tensor) -> None:
    """Refuse targets whose squares overflow, or are so small that a guarded reciprocal takes them for zero.

    Conjugate gradients divide by sums of squares. Below the limit they would stop with more than sqrt(eps) of the
    residual left; an output that is all zeros is at its solution and passes.

    Raises:
        InputError: an output of targets (..., k, outputs) that is too large or too small.
    """
    limits = torch.finfo(y.dtype)
    least = SMALLEST_DIVISOR[y.dtype] / limits.eps
    squares = y.square().sum(-2)
    if least <= float(squares.min()) and float(squares.max()) <= limits.max:  # so it is, nearly always
        return
    largest = y.abs().amax(-2)
    bad = ~torch.isfinite(squares) | ((squares < least) & (largest > 0))
    if bool(bad.any()):
        dtype = str(y.dtype).removeprefix("torch.")
        raise InputError(
            f"the targets of an output reach {float(largest[bad][0]):.3g}, and {dtype} holds the squares of numbers "
            f"from {least**0.5:.1g} to {limits.max**0.5:.1g}: divide y by a constant near that, and multiply the "
            "predictions by it."
        )


def _check_convergence(spec: Specification, rows: Tensor) -> None:
    """Refuse supports on which the algorithm diverges for almost all targets."""
    limit = spec.algorithm.largest_kernel_norm(spec.ridge)
    if limit == inf:
        return
    if not bool(torch.isfinite(rows).all()):
        raise InputError(
            f"X times the model's embedding is not finite in {spec.dtype}: shorten the rows, or, if a weight of the "
            "embedding is NaN or infinite, compile the model again."
        )
    norm = max(_kernel_norm(spec, task) for task in rows.reshape(-1, *rows.shape[-2:]))
    if not norm < limit:
        raise InputError(
            f"the {spec.algorithm.family} needs ||K|| < ridge, and ||K|| is {norm:.4g} with ridge {spec.ridge:.4g}: "
            f"use ConjugateGradients, or compile with a ridge above {norm:.4g}."
        )


def _kernel_norm(spec: Specification, rows: Tensor) -> float:
    """Return ||K||, infinite where an entry overflows: no decomposition takes such a matrix."""
    K = spec.kernel.dense(rows, rows)
    return float(torch.linalg.matrix_norm(K, ord=2)) if bool(torch.isfinite(K).all()) else inf
