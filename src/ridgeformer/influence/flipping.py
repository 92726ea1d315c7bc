"""The smallest move of a training row that changes the sign of its influence: found from above, proved from below."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ridgeformer.core.checks import positive
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.bisection import bracket
from ridgeformer.influence.certificate import certified_eps
from ridgeformer.influence.features import Features
from ridgeformer.influence.pair import choose_pair, factors
from ridgeformer.kernels import Kernel

__all__ = ["FlippingEps", "smallest_flipping_eps"]


@dataclass(frozen=True)
class FlippingEps:
    """Between which sizes the smallest flipping move lies: certified <= it <= found.

    Attributes:
        certified: no move up to this size flips the sign, proved; None where no proof is known.
        kept: the largest size tried below `found` at which the attack did not flip it; not a proof.
        found: the smallest size tried at which the attack did, or passed a flip on its way; infinite if never.
        norm: what the sizes measure.

    All three are 0 for an influence that is zero: it has no sign to keep.
    """

    certified: float | None
    kept: float
    found: float
    norm: str


def smallest_flipping_eps(
    kernel: Kernel,
    X: Any,
    y: Any,
    Xq: Any,
    ridge: Any,
    attack: Attack,
    *,
    index: Any,
    query: Any = 0,
    output: Any = 0,
    features: Features | None = None,
    largest: Any = None,
    tolerance: Any = 1e-3,
    seed: int = 0,
) -> FlippingEps:
    """Find by bisection the eps from which the attack, moving row `index` alone, flips its influence on one query.

    The attack is aimed at each of the two factors of the influence, whichever gives way first: only one of them
    changes sign at a flip (claim I3).

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        attack: its eps is where the search starts; norm, bounds and steps are used as they are.
        index: the training row.
        query: the row of Xq.
        output: the column of y.
        features: what the kernel sees of the rows; with `AttentionFeatures` all features follow the row.
        largest: the largest eps to try; None is the size of the largest row in the attack's norm.
        tolerance: relative width of the last bracket.
        seed: of random starts.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.kernels import DotProduct
        >>> found = smallest_flipping_eps(DotProduct(), [[1.0], [2.0]], [1.0, 0.5], [[1.0]], 1.0, FGSM(0.1), index=1)
        >>> round(found.certified, 3), round(found.found, 2)
        (1.0, 1.0)
    """
    pair = choose_pair(kernel, X, y, Xq, ridge, index, query, output, features)
    evaluate = factors(pair)

    def signs(rows: Tensor) -> list[float]:
        with torch.no_grad():
            return [float(part.sign()) for part in evaluate(rows)]

    before = signs(pair.X)
    if 0.0 in before:
        return FlippingEps(0.0, 0.0, 0.0, attack.norm)
    objectives = (lambda rows: -before[0] * evaluate(rows)[0], lambda rows: -before[1] * evaluate(rows)[1])

    def flips(eps: float) -> bool:
        # If a factor has changed sign here, it or the other did so first on the straight way, and that flips.
        moves = (replace(attack, eps=eps)(aim, pair.X, rows=[pair.index], seed=seed) for aim in objectives)
        return any(signs(moved) != before for moved in moves)

    limit = float(attack.ball.length(pair.X).max()) if largest is None else positive(largest, "largest", "an eps")
    tolerance = positive(tolerance, "tolerance", "the relative width of a bracket")
    kept, found = bracket(flips, attack.eps or 1e-3 * limit, limit, tolerance)
    return FlippingEps(certified_eps(pair, attack.norm), kept, found, attack.norm)
