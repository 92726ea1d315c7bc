"""Whether the data keep to the range that approximate units were compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.primitives.ranges import operand_ranges
from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["check_ranges"]


def check_ranges(model: CompiledTransformer, X: Any, y: Any, Xq: Any) -> Finding:
    """Return the finding that no factor or divisor of the program leaves the range of the model's units.

    Divisors below the range only make a converged network idle, so they do not count; above it Newton's sweeps
    diverge, and beyond `relu_bound` a piecewise-linear product is flat.
    """
    found, options = operand_ranges(model, X, y, Xq), model.spec.units.options
    largest_divisor = (options["reciprocal_range"] or (0.0, np.inf))[1]
    excess = max(found.largest_divisor / largest_divisor, found.largest_factor / (options["relu_bound"] or np.inf))
    return Finding(
        "operand range",
        "largest divisor and factor of the program, as a fraction of what its units were compiled for",
        f"divisors up to {largest_divisor:g} ({found.largest_divisor:.3g} met), factors up to "
        f"{options['relu_bound'] or np.inf:g} ({found.largest_factor:.3g} met); compile with a wider range otherwise",
        np.asarray(excess),
        np.asarray(1.0),
        kind="observed",
    )
