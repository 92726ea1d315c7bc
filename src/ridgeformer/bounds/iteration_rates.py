"""How fast each iteration closes in on the ridge solution, as a factor on the error after t steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import SupportsFloat, SupportsIndex

from ridgeformer.bounds._inputs import (
    Array,
    Numbers,
    as_count,
    as_eps,
    as_kappa,
    as_norms,
    as_ridge,
    nonnegative,
    outer,
)
from ridgeformer.core.errors import InputError

__all__ = [
    "cg_error_factor",
    "cg_prediction_bound",
    "cg_steps",
    "chebyshev_error_factor",
    "chebyshev_steps",
    "condition_number_bound",
    "heavy_ball_error_factor",
    "heavy_ball_steps",
    "nesterov_error_factor",
    "nesterov_steps",
    "neumann_error_factor",
    "neumann_ratio",
    "neumann_terms",
    "richardson_error_factor",
    "richardson_steps",
]


def condition_number_bound(kernel_norm: SupportsFloat, ridge: SupportsFloat) -> float:
    """Return 1 + norm(K)/l, an upper bound on the condition number of A = K + l I.

    Attained when K is singular. Any upper bound on norm(K), such as the trace, keeps it valid.

    Example:
        >>> condition_number_bound(kernel_norm=99.0, ridge=1.0)
        100.0
    """
    return 1.0 + neumann_ratio(kernel_norm, ridge)


def cg_error_factor(kappa: SupportsFloat, steps: SupportsIndex) -> float:
    """Return 2 ((sqrt(kappa) - 1)/(sqrt(kappa) + 1))^t, the classical rate of conjugate gradients (B2).

    From a start at zero, norm(alpha_t - alpha*)_A is at most this times norm(alpha*)_A, in exact
    arithmetic and for every right-hand side; norm(v)_A = sqrt(v'Av).

    Example:
        >>> round(cg_error_factor(kappa=9.0, steps=3), 12)
        0.25
    """
    return 2.0 * _power(_log_cg_contraction(as_kappa(kappa)), as_count(steps, "steps"))


def cg_prediction_bound(
    kappa: SupportsFloat, steps: SupportsIndex, query_norms: Numbers, solution_norms: Numbers
) -> Array:
    """Bound abs(f_t(x) - f*(x)) after t steps of conjugate gradients (B2).

    It is sqrt(k(x)'A^-1 k(x)), the query norm, times norm(alpha*)_A = sqrt(y'A^-1 y), the solution norm, times
    `cg_error_factor`, by the Cauchy-Schwarz inequality in the A-norm. For the two norms, sqrt(k(x, x)) and
    norm(y)/sqrt(l) are upper bounds.

    Example:
        >>> cg_prediction_bound(9.0, 3, [1.0, 2.0], 4.0).round(12).tolist()
        [1.0, 2.0]
    """
    queries, solutions = as_norms(query_norms, "query_norms"), as_norms(solution_norms, "solution_norms")
    return outer(queries, solutions, cg_error_factor(kappa, steps))


def chebyshev_error_factor(kappa: SupportsFloat, steps: SupportsIndex) -> float:
    """Return 1/T_t((kappa + 1)/(kappa - 1)), the exact worst case of the Chebyshev iteration (A5).

    It holds in every norm that is diagonal with A (2-norm, A-norm) and is attained at both ends of the
    spectrum. Conjugate gradients never do worse in the A-norm, and do no better for some spectra and
    right-hand sides. At most 1, and at most `cg_error_factor`.

    Example:
        >>> chebyshev_error_factor(kappa=9.0, steps=1)
        0.8
    """
    power = _power(_log_cg_contraction(as_kappa(kappa)), as_count(steps, "steps"))
    return 2.0 * power / (1.0 + power * power)


def richardson_error_factor(kappa: SupportsFloat, steps: SupportsIndex) -> float:
    """Return ((kappa - 1)/(kappa + 1))^t, the exact worst case of gradient descent with its best step (A5).

    The step is 2/(smallest + largest eigenvalue of A). Holds in every norm that is diagonal with A, and
    is attained at both ends of the spectrum. Depth grows like kappa, against sqrt(kappa) for
    `chebyshev_error_factor`.

    Example:
        >>> richardson_error_factor(kappa=3.0, steps=2)
        0.25
    """
    kappa = as_kappa(kappa)
    if kappa >= 4.0:  # each form is accurate where the other is not
        rate = math.log1p(-2.0 / (kappa + 1.0))
    else:
        rate = math.log((kappa - 1.0) / (kappa + 1.0)) if kappa > 1.0 else -math.inf
    return _power(rate, as_count(steps, "steps"))


def heavy_ball_error_factor(kappa: SupportsFloat, steps: SupportsIndex) -> float:
    """Return (1 + t + q t) q^t, q = (sqrt(kappa) - 1)/(sqrt(kappa) + 1), the exact worst case of heavy-ball momentum.

    With step 4/(sqrt(low) + sqrt(high))^2 and momentum q^2 for a spectrum in [low, high], kappa = high/low, the error
    after t steps is p_t(A) times the first, p_t = q^t (U_t(x) - q U_{t-1}(x)), where x runs from 1 at low to -1 at high
    and U_t is Chebyshev's polynomial of the second kind, whose largest absolute value is t + 1. Holds in every norm
    that is diagonal with A and is attained at the largest eigenvalue. It exceeds 1 at first if kappa is large.

    Example:
        >>> heavy_ball_error_factor(kappa=9.0, steps=2)
        1.0
    """
    log_q, steps = _log_cg_contraction(as_kappa(kappa)), as_count(steps, "steps")
    return (1.0 + steps + math.exp(log_q) * steps) * _power(log_q, steps)


def nesterov_error_factor(kappa: SupportsFloat, steps: SupportsIndex) -> float:
    """Return (1 + t/sqrt(kappa)) (1 - 1/sqrt(kappa))^t, the exact worst case of Nesterov's accelerated gradient.

    With step 1/high and momentum (sqrt(kappa) - 1)/(sqrt(kappa) + 1) the error after t steps is p_t(A) times the first,
    p_t = (m x)^t (U_t(x) - m x U_{t-1}(x)), m = 1 - 1/sqrt(kappa), where x runs from 1 at low to 0 at high. As
    U_t = x U_{t-1} + T_t, the bracket is at most 1 + (1 - m) t. Holds in every norm that is diagonal with A and is
    attained at the smallest eigenvalue.

    Example:
        >>> nesterov_error_factor(kappa=4.0, steps=2)
        0.5
    """
    rate, steps = 1.0 / math.sqrt(as_kappa(kappa)), as_count(steps, "steps")
    return (1.0 + steps * rate) * _power(math.log1p(-rate) if rate < 1.0 else -math.inf, steps)


def cg_steps(kappa: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest steps t for which `cg_error_factor` is at most eps (B2).

    Example:
        >>> cg_steps(kappa=100.0, eps=1e-6)
        73
    """
    return _fewest_steps(partial(cg_error_factor, as_kappa(kappa)), as_eps(eps))


def chebyshev_steps(kappa: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest steps t for which `chebyshev_error_factor` is at most eps (A5).

    Example:
        >>> chebyshev_steps(kappa=100.0, eps=1e-6)
        73
    """
    return _fewest_steps(partial(chebyshev_error_factor, as_kappa(kappa)), as_eps(eps))


def richardson_steps(kappa: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest steps t for which `richardson_error_factor` is at most eps (A5).

    Example:
        >>> richardson_steps(kappa=100.0, eps=1e-6)
        691
    """
    return _fewest_steps(partial(richardson_error_factor, as_kappa(kappa)), as_eps(eps))


def heavy_ball_steps(kappa: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest steps t for which `heavy_ball_error_factor` is at most eps.

    Example:
        >>> heavy_ball_steps(kappa=100.0, eps=1e-6)
        95
    """
    return _fewest_steps(partial(heavy_ball_error_factor, as_kappa(kappa)), as_eps(eps))


def nesterov_steps(kappa: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest steps t for which `nesterov_error_factor` is at most eps.

    Example:
        >>> nesterov_steps(kappa=100.0, eps=1e-6)
        158
    """
    return _fewest_steps(partial(nesterov_error_factor, as_kappa(kappa)), as_eps(eps))


def neumann_ratio(kernel_norm: SupportsFloat, ridge: SupportsFloat) -> float:
    """Return norm(K)/l: the Neumann series of (K + l I)^-1 converges if and only if it is below 1 (A3, A5).

    The exponential kernel exp(x'z/tau) has ones or more on its diagonal, so its series diverges for every
    l < 1.

    Example:
        >>> neumann_ratio(kernel_norm=1.0, ridge=2.0)
        0.5
    """
    ratio = nonnegative(kernel_norm, "kernel_norm") / as_ridge(ridge)
    if not math.isfinite(ratio):
        raise InputError(f"kernel_norm/ridge leaves float64: a ridge of {float(ridge):g} is too small for this kernel.")
    return ratio


def neumann_error_factor(kernel_norm: SupportsFloat, ridge: SupportsFloat, terms: SupportsIndex) -> float:
    """Return (norm(K)/l)^t, the exact worst case of t terms of the Neumann series (A3).

    With alpha_t = sum_{j<t} (-K/l)^j y/l, the error is alpha_t - alpha* = -(-K/l)^t alpha*. Attained along
    the top eigenvector of K. Above 1 it says that the series diverges, by how much.

    Example:
        >>> neumann_error_factor(kernel_norm=1.0, ridge=2.0, terms=3)
        0.125
    """
    try:
        return float(neumann_ratio(kernel_norm, ridge) ** as_count(terms, "terms"))
    except OverflowError:
        return math.inf


def neumann_terms(kernel_norm: SupportsFloat, ridge: SupportsFloat, eps: SupportsFloat) -> int:
    """Return the fewest terms t for which `neumann_error_factor` is at most eps (A3).

    Raises:
        InputError: norm(K) >= l, where the series does not converge.

    Example:
        >>> neumann_terms(kernel_norm=1.0, ridge=2.0, eps=1e-3)
        10
    """
    ratio = neumann_ratio(kernel_norm, ridge)
    if ratio >= 1.0:
        raise InputError(
            f"norm(K)/ridge is {ratio:g}; the Neumann series converges only below 1: "
            "raise the ridge, or use conjugate gradients, which converge for every ridge > 0."
        )
    return _fewest_steps(lambda terms: float(ratio**terms), as_eps(eps))


def _log_cg_contraction(kappa: float) -> float:
    """Return log((sqrt(kappa) - 1)/(sqrt(kappa) + 1)), accurate near kappa = 1 and for large kappa."""
    root = math.sqrt(kappa)
    if kappa >= 4.0:
        return math.log1p(-2.0 / (root + 1.0))
    return math.log((kappa - 1.0) / (root + 1.0) ** 2) if kappa > 1.0 else -math.inf


def _power(log_contraction: float, steps: int) -> float:
    return math.exp(steps * log_contraction) if steps else 1.0


def _fewest_steps(factor: Callable[[int], float], eps: float) -> int:
    """Return the smallest t >= 0 with factor(t) <= eps, for a factor >= 1 at t = 0 that falls to 0 in the end."""
    if factor(0) <= eps:
        return 0
    enough = 1
    while factor(enough) > eps:
        enough *= 2
    too_few = 0
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if factor(middle) <= eps else (middle, enough)
    return enough
