"""How far a training row can move without changing the sign of its influence: a proof, where there is one."""

from __future__ import annotations

from math import sqrt

import torch

from ridgeformer import bounds
from ridgeformer.influence.bisection import bracket
from ridgeformer.influence.drift import Drift, drift
from ridgeformer.influence.features import AttentionFeatures
from ridgeformer.influence.pair import Pair, fixed_expansions
from ridgeformer.kernels import DotProduct

__all__ = ["certified_eps"]

LARGEST = 1e12
TOLERANCE = 1e-9


def certified_eps(pair: Pair, norm: str) -> float | None:
    """Return an eps such that no move |v| <= eps of the row changes the sign of its influence, or None.

    The influence is the product of a residual and a covariance up to a positive factor, so it keeps its sign
    while each of them does. A certificate exists

    - for dot-product, Gram-power (context fixed), exponential and ReLU tangent kernels of the rows themselves,
      where both are sums of kernels in the row that moves (`drift`; claim L7, corrected). For the first two it is
      the exact answer: some move just beyond it flips the sign;
    - for dot products of attention features without normalisation, where every row moves (claim L8, corrected).

    Holds for targets, query and other rows held fixed; round-off is not included.
    """
    if pair.raw:
        rest, *expansions = fixed_expansions(pair)
        kernel = rest.system.kernel
        drifts = [drift(kernel, g, norm) for g in expansions]
        values = [abs(float(g.value(kernel, g.x))) for g in expansions]
    elif (
        isinstance(pair.features, AttentionFeatures)
        and not pair.features.normalise
        and type(pair.kernel) is DotProduct
        and pair.kernel.projection is None
    ):
        drifts, values = _gram_cube(pair, norm)
    else:
        return None
    if any(one is None for one in drifts):
        return None
    return min(_safe(one, value) for one, value in zip(drifts, values, strict=True) if one is not None)


def _safe(bound: Drift, value: float) -> float:
    """Return the largest eps found at which the bound is still below |value|."""
    return bracket(lambda eps: not bound(eps) < value, 1e-6, LARGEST, TOLERANCE)[0]


def _gram_cube(pair: Pair, norm: str) -> tuple[list[Drift | None], list[float]]:
    """Return bounds on the moves of alpha_i and (R k(x))_i for K = G^3, and their values.

    With t >= |v|, g = |G| and e = 2 |X| t + t^2 >= |G' - G|: |G'^3 - G^3| <= s = e (g^2 + g g' + g'^2) with
    g' = g + e, so |R' - R| <= s/(l (l + s)); and |k' - k| <= e (g + g') |X x| + g'^2 t |x|.
    """
    fitted = pair.fitted()
    found = fitted.influence(pair.features(pair.X, pair.Xq)[1])
    largest = float(torch.linalg.matrix_norm(pair.X, ord=2))
    g, l, target = largest**2, fitted.system.ridge, float(pair.y.norm())  # noqa: E741
    cross = float((pair.X @ (pair.X.T @ (pair.X @ (pair.X.T @ (pair.X @ pair.Xq.T))))).norm())
    image, query = float((pair.X @ pair.Xq.T).norm()), float(pair.Xq.norm())
    stretch = sqrt(pair.X.shape[1]) if norm == "linf" else 1.0

    def resolvent(eps: float) -> tuple[float, float, float]:
        t = stretch * eps
        e = 2 * largest * t + t * t
        return t, e, bounds.resolvent_error_bound(e * (g * g + g * (g + e) + (g + e) ** 2), l)

    def alpha(eps: float) -> float:
        return resolvent(eps)[2] * target

    def weight(eps: float) -> float:
        t, e, moved = resolvent(eps)
        return (e * (2 * g + e) * image + (g + e) ** 2 * t * query) / l + moved * cross

    i = pair.index
    return [alpha, weight], [abs(float(found.alpha[i, 0])), abs(float(found.weights[i, 0]))]
