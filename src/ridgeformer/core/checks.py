"""Checks of inputs: real, finite and of the right shape, or an error that says what to do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.errors import DtypeError, InputError, ShapeError

__all__ = ["ArrayLike", "as_matrix", "as_query", "as_targets", "as_tensor", "cast", "positive", "whole"]


@runtime_checkable
class SupportsArray(Protocol):
    """Anything NumPy can convert, such as a data frame."""

    def __array__(self, *args: Any, **options: Any) -> NDArray[Any]: ...


ArrayLike: TypeAlias = Tensor | NDArray[Any] | SupportsArray | Sequence[Any] | float | int
"""Numbers as callers have them: tensors, arrays, data frames, nested lists, one number."""


def as_tensor(value: object, name: str) -> Tensor:
    """Return `value` as a floating tensor; integers and booleans become the default of their kind.

    Tensors keep their device, precision and gradient. Integers become float64 (exact up to 2^53).

    Raises:
        DtypeError: text, objects or complex numbers.
        InputError: NaN or infinity, with the position of the first one.
    """
    if not isinstance(value, Tensor):
        value = _from_array(value, name)
    if value.layout != torch.strided:
        raise DtypeError(f"{name} is a sparse tensor; a dense one was expected: call {name}.to_dense().")
    if value.is_complex():
        raise DtypeError(f"{name} is complex; kernel ridge regression here is real: pass real and imaginary parts.")
    if value.dtype in (torch.float16, torch.bfloat16):
        value = value.to(torch.float32)
    elif not value.is_floating_point():
        value = value.to(torch.float64)
    if not math.isfinite(float(value.detach().sum())):  # one pass; a finite sum has finite terms only
        bad = ~torch.isfinite(value.detach())
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"{name} has {int(bad.sum())} entries that are NaN or infinite, the first ({value[where].item()}) at "
                f"index {where}: drop those rows or fill them in before fitting."
            )
    return value


def _from_array(value: object, name: str) -> Tensor:
    if isinstance(value, np.memmap) and value.dtype in (np.float32, np.float64) and value.flags.c_contiguous:
        with warnings.catch_warnings():  # the tensor stays on disk: the library never writes to its inputs
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(value)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} is a masked array with masked entries: drop those rows or fill them in.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(f"{name} is not a rectangular array ({error}): give every row the same length.") from None
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise DtypeError(
                f"{name} has dtype object and holds something that is not a number: convert it to numbers first."
            ) from None
    if array.dtype.kind not in "fiub":
        raise DtypeError(
            f"{name} has dtype {array.dtype}; real numbers were expected: encode text and dates as numbers."
        )
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    return torch.from_numpy(np.array(array, order="C", dtype=array.dtype.newbyteorder("=")))


def as_matrix(value: object, name: str = "X") -> Tensor:
    """Return `value` as a floating matrix with at least one row and one column.

    Example:
        >>> as_matrix([[1, 2], [3, 4]]).dtype
        torch.float64
    """
    matrix = as_tensor(value, name)
    if matrix.ndim != 2:
        raise ShapeError(
            f"{name} has shape {tuple(matrix.shape)}; a matrix (rows, features) was expected: "
            f"reshape one feature with {name}.reshape(-1, 1), flatten images to rows."
        )
    if 0 in matrix.shape:
        raise ShapeError(f"{name} has shape {tuple(matrix.shape)}; at least one row and one feature are needed.")
    return matrix


def as_targets(value: object, like: Tensor, name: str = "y") -> Tensor:
    """Return targets as a vector (n,) or a matrix (n, outputs) in float64, with the rows and device of `like`."""
    targets = as_tensor(value, name)
    if targets.ndim not in (1, 2):
        raise ShapeError(f"{name} has shape {tuple(targets.shape)}; (rows,) or (rows, outputs) was expected.")
    if targets.shape[0] != like.shape[0]:
        raise ShapeError(
            f"{name} has {targets.shape[0]} rows and X has {like.shape[0]}: give one target row per data row."
        )
    if targets.ndim == 2 and targets.shape[1] == 0:
        raise ShapeError(f"{name} has no columns; at least one output is needed.")
    return targets.to(dtype=torch.float64, device=like.device)


def as_query(value: object, like: Tensor, name: str = "Xq") -> Tensor:
    """Return query rows with as many features as `like`, in its dtype and on its device."""
    query = as_matrix(value, name)
    if query.shape[1] != like.shape[1]:
        raise ShapeError(
            f"{name} has {query.shape[1]} features and the training rows have {like.shape[1]}: "
            "apply the same preprocessing to both."
        )
    return cast(query, like, name)


def cast(value: Tensor, like: Tensor, name: str) -> Tensor:
    """Return `value` in the dtype and on the device of `like`; an overflow is an error."""
    converted = value.to(dtype=like.dtype, device=like.device)
    if converted.dtype != value.dtype and not bool(torch.isfinite(converted.detach()).all()):
        largest = float(value.detach().abs().max())
        raise InputError(f"{name} reaches {largest:.3g}, which {like.dtype} cannot hold: rescale it, or use float64.")
    return converted


def positive(value: object, name: str, why: str) -> float:
    """Return `value` as a float > 0, or say why it must be.

    Example:
        >>> positive(0.5, "ridge", "the system must be definite")
        0.5
    """
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise DtypeError(f"{name} is {value!r}; a positive number was expected ({why}).") from None
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is {number:g}; it must be a finite number > 0 ({why}).")
    return number


def whole(value: object, name: str, least: int) -> int:
    """Return `value` as an integer of at least `least`.

    Example:
        >>> whole(3, "steps", 1)
        3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} is {value!r}; a whole number >= {least} was expected.")
    return int(value)
