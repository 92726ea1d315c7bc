"""How wide a ReLU network must be for its kernel to be near its limit, criterion by criterion (L4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import log, log10
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, positive, whole
from ridgeformer.core.errors import InputError
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime.distances import KernelDistances
from ridgeformer.regime.spectra import gram_spectrum

__all__ = [
    "REACHABLE",
    "Criterion",
    "judge_criteria",
    "published_width",
    "required_widths",
    "width_from_measurement",
]

REACHABLE = 1e9
"""A width that can be run at initialisation on a laptop."""


@dataclass(frozen=True)
class Criterion:
    """One meaning of "close to the limit": the width it asks for and, once measured, the distances there are.

    Attributes:
        name: "additive", "frobenius", "multiplicative", "whitened" or "published".
        log10_sufficient: log10 of the width that the theory, or the published formula, asks for.
        tolerance: The distance asked for, in the criterion's own sense; None for the published formula.
        assumption: What that width rests on.
        here: The distance of the network's own kernel, if measured.
        widest: The distance at the widest kernel that was drawn, if one was.
        log10_expected: log10 of the width at which that distance falls to the tolerance, as 1/sqrt(m).
    """

    name: str
    log10_sufficient: float
    tolerance: float | None
    assumption: str
    here: float | None = None
    widest: float | None = None
    log10_expected: float | None = None

    @property
    def reachable(self) -> bool:
        """Whether a width that is expected to be enough can be run; by the formula where nothing was measured."""
        least = self.log10_sufficient if self.log10_expected is None else self.log10_expected
        return least <= log10(REACHABLE)

    def as_dict(self) -> dict[str, Any]:
        """Return the record by name."""
        return asdict(self) | {"reachable": self.reachable}


def required_widths(
    X: Any, *, ridge: Any, tolerance: Any = 0.1, failure: Any = 0.01, kappa: Any = None
) -> tuple[Criterion, ...]:
    """Return the width that suffices on these rows by each criterion, and by the published formula.

    K_m is an average of m independent matrices A_r = G o d_r d_r', 0 <= A_r <= norm(G) I, with mean L. The matrix
    Bernstein inequality bounds its spectral distance from L, whitened or not, with probability 1 - failure; the mean
    square of the Frobenius distance is known exactly. All but the last are for weights at initialisation.

    Args:
        X: The rows the ReLU layer sees, after attention if there is any.
        ridge: Ridge of the whitened criterion.
        tolerance: Distance asked for; the additive criterion has its own, 1/4.
        failure: Chance of failure allowed.
        kappa: The published formula's condition number, of G before attention; None takes that of X at its rank.

    Example:
        >>> for need in required_widths([[1.0, 0.0], [0.6, 0.8]], ridge=0.5):
        ...     print(need.name, round(10**need.log10_sufficient), need.reachable)
        additive 2710 True
        frobenius 113 True
        multiplicative 6866 True
        whitened 1509 True
        published 5678 True
    """
    X = as_matrix(X).detach().to("cpu", torch.float64)
    if X.shape[0] < 2:
        raise InputError("X has one row; a width for the kernel of at least two rows was expected: give more rows.")
    ridge, tolerance = positive(ridge, "ridge", "K + ridge I"), positive(tolerance, "tolerance", "a distance")
    L, G = ReluNTK()(X), X @ X.T
    values = torch.linalg.eigvalsh(L)
    smallest, largest = float(values[0]), float(values[-1])
    spectrum = gram_spectrum(X)
    top = float(spectrum.eigenvalues[0])
    if smallest <= len(values) * torch.finfo(torch.float64).eps * largest:
        raise InputError(
            f"the limit kernel is singular (smallest eigenvalue {smallest:.1e}), so no width is enough by the additive "
            "criterion: drop rows that repeat up to a factor."
        )
    logs = log(2 * X.shape[0] / positive(failure, "failure", "a probability"))
    share = torch.where(G == 0, 0.25, L / torch.where(G == 0, 1.0, G))
    variance = float((G.square() * share * (1 - share)).sum() / L.square().sum())

    def bernstein(variance: float, largest_term: float, t: float) -> float:
        return log10(2 * logs * (variance + largest_term * t / 3) / t**2)

    law = "sufficient by matrix Bernstein"
    white = top / (smallest + ridge)
    return (
        Criterion(
            "additive", bernstein(top * largest, top, smallest / 4), 0.25, f"norm(dK) <= l_min/4, {law}: kappa squared"
        ),
        Criterion(
            "frobenius", log10(variance / tolerance**2), tolerance, "exact for the root mean square over draws"
        ),
        Criterion(
            "multiplicative", bernstein(top / smallest, top / smallest, tolerance), tolerance, f"{law}: linear in kappa"
        ),
        Criterion(
            "whitened", bernstein(white * largest / (largest + ridge), white, tolerance), tolerance,
            f"{law}: norm(G)/ridge, free of kappa",
        ),
        published_width(spectrum.condition() if kappa is None else kappa, X.shape[0]),
    )  # fmt: skip


def published_width(kappa: Any, rows: Any) -> Criterion:
    """Return kappa^6 n ln n, published as necessary for X X'X; as such it is false, and it is not needed (L4).

    Args:
        kappa: Condition number of G before attention; state its truncation.
        rows: n >= 2.

    Example:
        >>> round(published_width(1.2e3, 60_000).log10_sufficient)
        24
    """
    kappa, rows = positive(kappa, "kappa", "a condition number"), whole(rows, "rows", 2)
    return Criterion(
        "published",
        6 * log10(kappa) + log10(rows * log(rows)),
        None,
        "kappa^6 n ln n as published; concentration shows sufficiency of less, and no one showed necessity",
    )


def width_from_measurement(distance: Any, width: Any, tolerance: Any) -> float:
    """Return log10 of the width at which a distance measured at `width` falls to `tolerance`, as 1/sqrt(m).

    Holds where the distance is small against 1, in any of the four senses.

    Example:
        >>> round(width_from_measurement(0.1, 1000, 0.01), 12)
        5.0
    """
    distance = positive(distance, "distance", "a measured distance")
    return log10(whole(width, "width", 1)) + 2 * log10(distance / positive(tolerance, "tolerance", "a distance"))


def judge_criteria(
    seen: Tensor,
    here: KernelDistances | None,
    at_widths: tuple[tuple[int, KernelDistances], ...],
    ridge: float,
    kappa: float,
) -> tuple[Criterion, ...]:
    """Return every criterion; none if there is no limit, or if it is singular.

    Args:
        seen: Rows of the ReLU layer.
        here: Distances of the network's kernel at initialisation.
        at_widths: Distances of wider kernels at initialisation, widest last.
        ridge: Of the whitened criterion.
        kappa: Condition number of the rows before attention, for the published formula.
    """
    if here is None or not here.definite:
        return ()
    width, distances = at_widths[-1]

    def judge(need: Criterion) -> Criterion:
        if need.tolerance is None:
            return need
        widest = float(getattr(distances, need.name))
        expected = width_from_measurement(widest, width, need.tolerance)
        return replace(need, here=float(getattr(here, need.name)), widest=widest, log10_expected=expected)

    return tuple(judge(need) for need in required_widths(seen, ridge=ridge, kappa=kappa))
