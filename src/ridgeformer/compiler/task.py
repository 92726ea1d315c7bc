"""The gate of a compiled transformer: supports, targets and queries that fit it, and logits it can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgeformer.checks import as_tensor
from ridgeformer.compiler.specification import Specification
from ridgeformer.errors import InputError, LogitRangeError, ShapeError

__all__ = ["Task", "check_task"]

LOGIT_SPAN = {torch.float32: 80.0, torch.float64: 690.0}
"""How far the largest logit may be from the sink's before one of their exponentials is lost."""


@dataclass(frozen=True, eq=False)
class Task:
    """Checked input: supports (..., k, features), targets (..., k, outputs), queries (..., q, features)."""

    X: Tensor
    y: Tensor
    Xq: Tensor
    flat: bool

    @property
    def given(self) -> tuple[Tensor, Tensor, Tensor]:
        """Supports, targets, queries."""
        return self.X, self.y, self.Xq


def check_task(spec: Specification, X: Any, y: Any, Xq: Any, embedding: Tensor) -> Task:
    """Return the input as tensors of the model's dtype.

    Raises:
        ShapeError: rows, features or outputs that do not fit.
        InputError: NaN, infinity or text; a Neumann series that cannot converge on these supports.
        LogitRangeError: logits the precision cannot hold beside the sink's.
    """
    X, Xq = (_rows(value, name, spec) for value, name in ((X, "X"), (Xq, "Xq")))
    targets = as_tensor(y, "y").to(X)
    flat = targets.ndim == X.ndim - 1
    if flat:
        targets = targets[..., None]
    if X.shape[:-2] != Xq.shape[:-2]:
        raise ShapeError(f"X has shape {tuple(X.shape)} and Xq {tuple(Xq.shape)}: give both the same number of tasks.")
    if targets.shape != (*X.shape[:-1], spec.outputs):
        raise ShapeError(
            f"y has shape {tuple(as_tensor(y, 'y').shape)}; {(*X.shape[:-1], spec.outputs)} was expected: one row per "
            f"support and {spec.outputs} output(s), as compiled."
        )
    if spec.route in ("softmax", "vanilla"):
        _check_logits(spec, X.detach() @ embedding, Xq.detach() @ embedding)
    if spec.solver == "neumann":
        _check_neumann(spec, X.detach() @ embedding)
    return Task(X, targets, Xq, flat)


def _rows(value: Any, name: str, spec: Specification) -> Tensor:
    rows = as_tensor(value, name).to(spec.torch_dtype)
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


def _check_logits(spec: Specification, X: Tensor, Xq: Tensor) -> None:
    largest = max(float(rows.square().sum(-1).max()) for rows in (X, Xq)) / spec.temperature
    span = LOGIT_SPAN[spec.torch_dtype]
    if not largest - spec.sink < span or spec.sink - largest > span:
        raise LogitRangeError(
            f"the largest logit is {largest:.4g} and the sink's is {spec.sink:.4g}; {spec.dtype} holds a difference of "
            f"{span:g}: compile with sink={largest:.4g}, raise the temperature, or shorten the rows."
        )


def _check_neumann(spec: Specification, X: Tensor) -> None:
    logits = X @ X.mT
    K = logits if spec.route == "linear" else (logits / spec.temperature).exp()
    norm = float(torch.linalg.matrix_norm(K, ord=2).max())
    if norm >= spec.ridge:
        raise InputError(
            f"the Neumann series needs ||K|| < ridge, and ||K|| is {norm:.4g} with ridge {spec.ridge:.4g}: use "
            f"solver='cg', or compile with a ridge above {norm:.4g}."
        )
