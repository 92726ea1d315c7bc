"""Algorithms: one a file, each a frozen value. A new one is one file, one line in `ALGORITHMS` and one test class."""

from __future__ import annotations

from ridgeformer.algorithms.base import Algorithm, Compilable, Iterate, Iterative, LinearSystem, Preconditioned
from ridgeformer.algorithms.chebyshev import Chebyshev
from ridgeformer.algorithms.conjugate_gradients import ConjugateGradients
from ridgeformer.algorithms.fixed_coefficients import Accelerated, Coefficients, FixedCoefficients
from ridgeformer.algorithms.heavy_ball import HeavyBall
from ridgeformer.algorithms.nadaraya_watson import NadarayaWatson
from ridgeformer.algorithms.nesterov import Nesterov
from ridgeformer.algorithms.neumann import Neumann
from ridgeformer.algorithms.numerical import Auto, Centres, Direct, MixedConjugateGradients, MixedDirect
from ridgeformer.algorithms.richardson import Richardson
from ridgeformer.algorithms.written import WRITTEN
from ridgeformer.core.errors import InputError, unknown_name

__all__ = [
    "ALGORITHMS",
    "SHORTHANDS",
    "Accelerated",
    "Algorithm",
    "Auto",
    "Centres",
    "Chebyshev",
    "Coefficients",
    "Compilable",
    "ConjugateGradients",
    "Direct",
    "FixedCoefficients",
    "HeavyBall",
    "Iterate",
    "Iterative",
    "LinearSystem",
    "MixedConjugateGradients",
    "MixedDirect",
    "NadarayaWatson",
    "Nesterov",
    "Neumann",
    "Preconditioned",
    "Richardson",
    "resolve",
]

ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.name: kind
    for kind in (
        Auto,
        Direct,
        MixedDirect,
        MixedConjugateGradients,
        Centres,
        Richardson,
        Neumann,
        Chebyshev,
        HeavyBall,
        Nesterov,
        ConjugateGradients,
        NadarayaWatson,
    )
}
"""Algorithms by name."""

SHORTHANDS: dict[str, tuple[type[Algorithm], dict[str, object]]] = {
    **{name: (kind, {}) for name, kind in ALGORITHMS.items()},
    "pcg": (ConjugateGradients, {"preconditioner": "nystrom"}),
}
"""Strings that stand for an algorithm: its type, and options that differ from the type's own."""


def resolve(given: object, **options: object) -> Algorithm:
    """Return the algorithm of a value or a shorthand; the only place where a name becomes a value.

    Options are those of the algorithm, where a name is given; None leaves one out. Programs of this session have names
    too, those that ship once `ridgeformer.programs` is imported.

    Example:
        >>> resolve("cg", steps=12)
        ConjugateGradients(steps=12, preconditioner=None)
    """
    if isinstance(given, Algorithm):
        return given
    known = {**SHORTHANDS, **{name: (kind, {}) for name, kind in WRITTEN.items()}}
    if not isinstance(given, str) or given not in known:
        raise unknown_name("algorithm", given, known)
    kind, preset = known[given]
    chosen = {name: value for name, value in options.items() if value is not None}
    odd = next((name for name in chosen if name not in kind.__dataclass_fields__), None)
    if odd is not None:
        raise InputError(f"algorithm {given!r} has no option {odd!r}: leave it out.")
    return kind(**{**preset, **chosen})  # type: ignore[arg-type]
