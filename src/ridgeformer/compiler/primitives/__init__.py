"""What gated sublayers are made of: exact units, stock SwiGLU units, or ReLU units. One choice a file."""

from __future__ import annotations

from typing import Any

from ridgeformer.compiler.primitives.relu import ReLU, product_error, quotient_error, reciprocal_error
from ridgeformer.compiler.primitives.swiglu import SwiGLU, newton_error, newton_sweeps, rectifier_error
from ridgeformer.compiler.primitives.units import CHECKS, Exact, Operand, Primitives, Unit
from ridgeformer.core.errors import InputError, unknown_name

__all__ = [
    "PRIMITIVES",
    "Exact",
    "Operand",
    "Primitives",
    "ReLU",
    "SwiGLU",
    "Unit",
    "choose",
    "newton_error",
    "newton_sweeps",
    "product_error",
    "quotient_error",
    "reciprocal_error",
    "rectifier_error",
]

PRIMITIVES: dict[str, dict[str, str]] = {
    "exact": {},
    "swiglu": {"reciprocal_range": "reciprocal_range"},
    "relu": {"reciprocal_range": "reciprocal_range", "relu_bound": "bound", "relu_knots": "knots"},
}
"""The choices by name, and for each the options of `compile` it takes with what it calls them itself."""


def choose(name: str, **options: Any) -> Primitives:
    """Return the primitives of this name; an option that is None gets its default.

    Raises:
        UnknownNameError: no such primitives.
        InputError: an option out of range, or one these primitives do not have.

    Example:
        >>> choose("swiglu", reciprocal_range=(1e-8, 1.0), relu_knots=None).sweeps
        32
    """
    if not isinstance(name, str) or name not in PRIMITIVES:
        raise unknown_name("primitives", name, PRIMITIVES)
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in PRIMITIVES[name]:
            takers = " or ".join(repr(other) for other, taken in PRIMITIVES.items() if option in taken)
            raise InputError(f"primitives {name!r} have no {option}: leave it out, or choose primitives {takers}.")
    made = {"exact": Exact, "swiglu": SwiGLU, "relu": ReLU}[name]
    return made(**{PRIMITIVES[name][option]: CHECKS[option](value) for option, value in given.items()})
