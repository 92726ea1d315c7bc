"""The input of a compiled transformer: supports, targets and queries that fit it, and logits it can hold."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from ridgeformer.algorithms.written import WrittenAlgorithm
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


def check_task(spec: Specification, X: object, y: object, Xq: object, embedding: Tensor | None) -> TokenInput:
    """Return the input as tensors of the model's dtype; programs, which have scores of their own, need no embedding.

    Raises:
        ShapeError: rows, features or outputs that do not fit.
        InputError: NaN, infinity or text; numbers the precision cannot hold, or cannot hold the squares of where the
            algorithm needs them; a Neumann series that cannot converge on these supports.
        LogitRangeError: logits the precision cannot hold beside the sink's.
    """
    supports, queries, given = _rows(X, "X", spec), _rows(Xq, "Xq", spec), as_tensor(y, "y")
    shape, flat = tuple(given.shape), given.ndim == supports.ndim - 1
    if flat:
        given = given[..., None]
    targets = cast(given, supports, "y")
    if supports.shape[:-2] != queries.shape[:-2]:
        raise ShapeError(
            f"X has shape {tuple(supports.shape)} and Xq {tuple(queries.shape)}: give both the same number of tasks."
        )
    if targets.shape != (*supports.shape[:-1], spec.outputs):
        raise ShapeError(
            f"y has shape {shape}; {(*supports.shape[:-1], spec.outputs)} was expected: one row per support and "
            f"{spec.outputs} output(s), as compiled."
        )
    largest, least = given.detach().abs().amax(-2), torch.finfo(targets.dtype).tiny / torch.finfo(targets.dtype).eps
    if float(largest.min()) < least:
        lost = (largest > 0) & (largest < least)
        _refuse(largest[lost], targets.dtype, f"all digits of numbers from {least:.1g} on")
    if spec.algorithm.inner_products:
        check_squares(targets.detach())
    if not isinstance(spec.algorithm, WrittenAlgorithm):
        assert embedding is not None
        rows = supports.detach() @ embedding
        spec.attention.check_rows(rows, queries.detach() @ embedding)
        _check_convergence(spec, rows)
    return TokenInput(supports, targets, queries, flat)


def _rows(value: object, name: str, spec: Specification) -> Tensor:
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
    _refuse(largest[bad], y.dtype, f"the squares of numbers from {least**0.5:.1g} to {limits.max**0.5:.1g}")


def _refuse(largest: Tensor, dtype: torch.dtype, held: str) -> None:
    """Refuse targets if there are outputs, given by their largest one, that the precision does not hold."""
    if largest.numel():
        raise InputError(
            f"the targets of an output reach {float(largest[0]):.3g}, and {str(dtype).removeprefix('torch.')} holds "
            f"{held}: divide y by a constant near that, and multiply the predictions by it."
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
    norm = 0.0
    for task in rows.reshape(-1, *rows.shape[-2:]):
        K = spec.kernel.dense(task, task)  # no decomposition takes one with entries that overflow
        norm = max(norm, float(torch.linalg.matrix_norm(K, ord=2)) if bool(torch.isfinite(K).all()) else inf)
    if not norm < limit:
        raise InputError(
            f"the {spec.algorithm.family} needs ||K|| < ridge, and ||K|| is {norm:.4g} with ridge {spec.ridge:.4g}: "
            f"use ConjugateGradients, or compile with a ridge above {norm:.4g}."
        )
