"""The gate of this room: numbers in, float64 out, or an error that says what to do."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ridgeformer.core.checks import positive
from ridgeformer.core.errors import DtypeError, InputError, ShapeError

Numbers: TypeAlias = Any
"""Whatever numpy.asarray turns into real numbers: a number, a list, an array, a tensor on the CPU."""

Array: TypeAlias = NDArray[np.float64]

_LARGEST_KAPPA = 1e300


def as_array(value: Any, name: str, least: int = 1) -> Array:
    """Return `value` as float64 with at least `least` entries, every entry finite."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DtypeError(
            f"{name} cannot be read as an array ({error}): pass numbers; for a tensor, call .detach().cpu() first."
        ) from None
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"{name} has dtype {array.dtype}; real numbers were expected: convert it to float64 first.")
    array = array.astype(np.float64)
    if array.size < least:
        raise ShapeError(f"{name} has shape {array.shape}; at least one number is needed.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(
            f"{name} holds {array[where]} at index {where}; finite numbers were expected: find out where it arose."
        )
    return array


def as_spectrum(value: Any, name: str = "spectrum") -> Array:
    """Return eigenvalues of a positive semidefinite matrix, (n,), in the order given."""
    spectrum = as_array(value, name)
    if spectrum.ndim != 1:
        raise ShapeError(
            f"{name} has shape {spectrum.shape}; a vector of eigenvalues was expected: "
            "pass numpy.linalg.eigvalsh(K), not K."
        )
    if (spectrum < 0).any():
        where = int(np.argmin(spectrum))
        raise InputError(
            f"{name} is negative, {spectrum[where]:g} at index {where}; eigenvalues >= 0 were expected: "
            "if that is round-off, pass numpy.clip(spectrum, 0, None); if not, the kernel is not one."
        )
    return spectrum


def spectrum_tail(spectrum: Any, width: Any) -> Array:
    """Return the eigenvalues that the top `width` leave out, descending; one zero if none is left."""
    descending = np.sort(as_spectrum(spectrum))[::-1]
    tail = descending[as_count(width, "width") :]
    return tail if tail.size else np.zeros(1)


def as_norms(value: Any, name: str) -> Array:
    """Return norms, or other numbers >= 0, of shape () or (count,)."""
    norms = as_array(value, name)
    if norms.ndim > 1:
        raise ShapeError(
            f"{name} has shape {norms.shape}; one number or a vector of numbers was expected: "
            "take the norm of each column or row first."
        )
    if (norms < 0).any():
        raise InputError(f"{name} holds {norms.min():g}; numbers >= 0 were expected: norms are never negative.")
    return norms


def as_count(value: Any, name: str) -> int:
    """Return `value` as an integer >= 0."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise DtypeError(f"{name} is {value!r}; an integer >= 0 was expected: round it on purpose first.") from None
    if count < 0:
        raise InputError(f"{name} is {count}; it must be an integer >= 0.")
    return count


def as_kappa(value: Any) -> float:
    """Return `value` as a condition number."""
    kappa = positive(value, "kappa", "largest over smallest eigenvalue of K + ridge I")
    if not 1.0 <= kappa <= _LARGEST_KAPPA:
        raise InputError(
            f"kappa is {kappa:g}; a condition number lies between 1 and {_LARGEST_KAPPA:g}: "
            "divide the largest eigenvalue of K + ridge I by the smallest."
        )
    return kappa


def as_ridge(value: Any) -> float:
    """Return `value` as a ridge."""
    return positive(value, "ridge", "K + ridge I must be invertible for every positive semidefinite K")


def as_eps(value: Any) -> float:
    """Return `value` as an accuracy asked for."""
    return positive(value, "eps", "an accuracy that a bound can reach")


def nonnegative(value: Any, name: str) -> float:
    """Return `value` as one finite number >= 0."""
    number = as_array(value, name)
    if number.ndim != 0:
        raise ShapeError(f"{name} has shape {number.shape}; one number was expected.")
    if number < 0:
        raise InputError(f"{name} is {float(number):g}; a number >= 0 was expected.")
    return float(number)


def outer(queries: Numbers, columns: Numbers, scale: float) -> Array:
    """Return products of every query with every column and `scale`; a single number adds no axis.

    A product beyond float64 becomes infinite, which is still an upper bound.
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.multiply.outer(queries * scale, columns))
