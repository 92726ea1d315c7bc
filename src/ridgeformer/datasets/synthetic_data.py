"""Synthetic data whose Gram matrix has a prescribed spectrum, and targets along chosen eigenvectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets.dataset import Dataset

__all__ = ["decaying_spectrum", "orthonormal", "synthetic"]

DECAYS = ("log", "linear", "power")
ALIGNMENTS = ("top", "bottom", "uniform")
DEFAULT_CONDITION_NUMBER = 100.0


def synthetic(
    n: int,
    d: int,
    *,
    spectrum: Sequence[float] | NDArray[Any] | None = None,
    condition_number: float | None = None,
    decay: str = "log",
    rotation: bool = True,
    alignment: str | Sequence[float] | NDArray[Any] = "uniform",
    noise: float = 0.0,
    outputs: int = 1,
    seed: int = 0,
) -> Dataset:
    """Return X = U diag(sqrt(spectrum)) V' and y = U c + noise, so that G = XX' has the given nonzero eigenvalues.

    U (n x r) is uniformly distributed among the matrices with orthonormal columns, and so is V (d x r), each
    from a stream of its own. In exact arithmetic the nonzero eigenvalues of G are `spectrum`; in float64
    they are within about 1e-15 sqrt(condition number) of it, relatively. Each column of y has mean square
    one before the noise, and its squared coefficients on the columns of U are in the proportions of
    `alignment` squared, with random signs.

    Args:
        n: Number of rows.
        d: Number of features.
        spectrum: Positive eigenvalues of G, at most min(n, d); they are sorted, largest first.
        condition_number: Instead of `spectrum`: min(n, d) eigenvalues from 1 down to 1 / condition_number
            (default 100).
        decay: How they go down: "log" (geometrically), "linear" or "power" (as a power of the rank).
        rotation: False puts V on the coordinate axes: feature i is then sqrt(spectrum[i]) times column i of U.
        alignment: "top" or "bottom" (the first or last tenth of the eigenvectors, at least one), "uniform", or one
            weight an eigenvector.
        noise: Standard deviation of the noise, in units of the signal's root mean square.
        outputs: Number of target columns; 1 gives y of shape (n,).
        seed: Seed; features, rotation, targets and noise each have their own stream under it.

    Raises:
        InputError: no such spectrum, alignment or size exists.

    Example:
        >>> data = synthetic(6, 3, spectrum=[4.0, 1.0, 0.25])
        >>> np.linalg.svd(data.X, compute_uv=False).round(12).tolist()
        [2.0, 1.0, 0.5]
    """
    _check_counts(n=n, d=d, outputs=outputs)
    if not (np.isfinite(noise) and noise >= 0):
        raise InputError(f"noise is {noise}; a finite standard deviation >= 0 was expected.")
    values = _spectrum(min(n, d), spectrum, condition_number, decay)
    weights = _weights(values.size, alignment)
    U = orthonormal(n, values.size, numpy_generator(seed, "synthetic.features"))
    V = orthonormal(d, values.size, numpy_generator(seed, "synthetic.rotation")) if rotation else np.eye(d, values.size)
    signs = numpy_generator(seed, "synthetic.targets").choice([-1.0, 1.0], size=(values.size, outputs))
    y = U @ (np.sqrt(n) * weights[:, None] / np.linalg.norm(weights) * signs)
    y += noise * numpy_generator(seed, "synthetic.noise").standard_normal(y.shape)
    return Dataset(
        name="synthetic",
        X=(U * np.sqrt(values)) @ V.T,
        y=y[:, 0] if outputs == 1 else y,
        source=f"drawn with seed {seed}",
        description=(
            f"Gram matrix of rank {values.size} with eigenvalues from {values[0]:.4g} to {values[-1]:.4g}, targets "
            f"{alignment if isinstance(alignment, str) else 'weighted'}, noise {noise:g}."
        ),
    )


def decaying_spectrum(rank: int, condition_number: float, decay: str = "log") -> Float64[np.ndarray, " rank"]:
    """Return `rank` eigenvalues from 1 down to 1 / condition_number.

    "log" is geometric, "linear" is arithmetic, "power" is i^-p with the p that ends at 1 / condition_number.

    Raises:
        InputError: a condition number below 1, or one other than 1 for a single eigenvalue.

    Example:
        >>> decaying_spectrum(3, 4.0).tolist()
        [1.0, 0.5, 0.25]
        >>> decaying_spectrum(4, 16.0, "power").round(12).tolist()
        [1.0, 0.25, 0.111111111111, 0.0625]
    """
    if decay not in DECAYS:
        raise unknown_name("decay", decay, DECAYS)
    if not (np.isfinite(condition_number) and condition_number >= 1):
        raise InputError(f"condition_number is {condition_number}; a finite number >= 1 was expected.")
    if rank == 1:
        if condition_number != 1:
            raise InputError(
                f"condition_number is {condition_number:g} and there is one eigenvalue only, whose condition number is "
                "1: give more rows and features, or spectrum=[value]."
            )
        return np.ones(1)
    smallest = 1 / condition_number
    steps = np.arange(rank) / (rank - 1)
    if decay == "log":
        values = smallest**steps
    elif decay == "linear":
        values = 1 - (1 - smallest) * steps
    else:
        values = np.arange(1, rank + 1) ** (np.log(smallest) / np.log(rank))
    values[-1] = smallest
    return np.asarray(values, dtype=np.float64)


def orthonormal(rows: int, columns: int, generator: np.random.Generator) -> Float64[np.ndarray, "rows columns"]:
    """Return a uniformly (Haar) distributed matrix with orthonormal columns, for columns <= rows.

    QR of a Gaussian matrix alone is not uniform: the signs of R's diagonal are the algorithm's choice. With
    them moved into Q it is.

    Example:
        >>> Q = orthonormal(5, 2, np.random.default_rng(0))
        >>> bool(np.allclose(Q.T @ Q, np.eye(2)))
        True
    """
    Q, R = np.linalg.qr(generator.standard_normal((rows, columns)))
    return np.asarray(Q * np.where(np.diag(R) < 0, -1.0, 1.0))


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise InputError(f"{name} is {value}; at least 1 was expected.")


def _spectrum(
    most: int, spectrum: Sequence[float] | NDArray[Any] | None, condition_number: float | None, decay: str
) -> Float64[np.ndarray, " rank"]:
    if spectrum is None:
        default = 1.0 if most == 1 else DEFAULT_CONDITION_NUMBER
        return decaying_spectrum(most, default if condition_number is None else condition_number, decay)
    if condition_number is not None:
        raise InputError("spectrum and condition_number were both given: give one of them.")
    values = np.asarray(spectrum, dtype=np.float64)
    if values.ndim != 1 or not 1 <= values.size <= most:
        raise ShapeError(
            f"spectrum has shape {values.shape}; a list of 1 to {most} eigenvalues was expected, as G has rank at most "
            "min(n, d)."
        )
    bad = values[~(np.isfinite(values) & (values > 0))]
    if bad.size:
        raise InputError(f"spectrum holds {bad[0]}; finite eigenvalues > 0 were expected: leave zeros out.")
    return np.sort(values)[::-1].copy()


def _weights(rank: int, alignment: str | Sequence[float] | NDArray[Any]) -> Float64[np.ndarray, " rank"]:
    if isinstance(alignment, str):
        if alignment not in ALIGNMENTS:
            raise unknown_name("alignment", alignment, ALIGNMENTS)
        weights = np.ones(rank)
        tenth = max(1, rank // 10)
        if alignment == "top":
            weights[tenth:] = 0
        elif alignment == "bottom":
            weights[: rank - tenth] = 0
        return weights
    weights = np.asarray(alignment, dtype=np.float64)
    if weights.shape != (rank,):
        raise ShapeError(
            f"alignment has shape {weights.shape}; one weight for each of {rank} eigenvectors was expected."
        )
    if not (np.isfinite(weights).all() and weights.any()):
        raise InputError("alignment must hold finite weights, not all of them zero.")
    return weights
