"""The smallest move of a training row that changes the sign of its influence: found from above, proved from below.

The influence of one training point on one query is a product of two functions of the row that moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from math import e, inf, pi, sqrt
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.core.checks import ArrayLike, positive
from ridgeformer.core.errors import InputError
from ridgeformer.influence.attacks import Attack
from ridgeformer.influence.baseline import differentiable_influence
from ridgeformer.influence.exact import influence, rows_behind
from ridgeformer.influence.features import AttentionFeatures, Features, RawFeatures
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, GramPower, Kernel, ReluNTK
from ridgeformer.solving import Fit

__all__ = ["FlippingEps", "smallest_flipping_eps"]


DUAL = {"linf": 1.0, "l2": 2.0}
"""The p of the dual norm: what |v| <= eps can do to v'w is eps |w|_p at most."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """g(x) = constant + sum_j a_j k(x, z_j), at one row x.

    `x` is (1, d), `Z` holds the rows z_j, (m, d), and `a` is (m,).
    """

    x: Float[Tensor, "1 d"]
    Z: Float[Tensor, "m d"]
    a: Float[Tensor, " m"]
    constant: float = 0.0

    def value(self, kernel: Kernel, x: Tensor) -> Tensor:
        """Return g(x)."""
        return self.constant + (kernel.dense(x, self.Z) @ self.a)[0]

    def slope(self, kernel: Kernel, norm: str) -> float:
        """Return the dual norm of the gradient of g at its own x."""
        x = self.x.clone().requires_grad_()
        with torch.enable_grad():
            gradient = torch.autograd.grad(self.value(kernel, x), x)[0]
        return float(gradient.norm(p=DUAL[norm]))


Factors: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Given all rows, the residual y_i - f_{-i}(x_i) and the covariance (R k(x))_i / R_ii; their product has the sign of
the influence, and each can change it (claim I3)."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A training point, a query and an output, with the fit to what the kernel sees of the rows."""

    fit: Fit
    X: Tensor
    Xq: Tensor
    index: int
    output: int
    features: Features

    @property
    def raw(self) -> bool:
        """Whether the kernel sees the rows themselves, so that moving one row moves nothing else."""
        return isinstance(self.features, RawFeatures)

    @property
    def y(self) -> Tensor:
        """The targets of the output, (n, 1)."""
        return self.fit.y.reshape(len(self.X), -1)[:, self.output : self.output + 1].to(self.X)


def choose_pair(
    fit: Fit,
    Xq: ArrayLike,
    index: int,
    query: int = 0,
    output: int = 0,
    X: ArrayLike | None = None,
    features: Features | None = None,
) -> Pair:
    """Return one training point, query and output, or say which is out of range."""
    X, Xq, features = rows_behind(fit, Xq, X, features)
    for name, value, count, what in (
        ("index", index, len(X), "training row"),
        ("query", query, len(Xq), "query"),
        ("output", output, fit.exact_alpha.shape[1], "output"),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
            raise InputError(f"{name} is {value!r}; the number of a {what} from 0 to {count - 1} was expected.")
    if len(X) < 2:
        raise InputError("X has one row; at least two are needed to leave one out.")
    return Pair(fit, X, Xq[query : query + 1], index, output, features)


def factors(pair: Pair) -> Factors:
    """Return the two factors as differentiable functions of the rows, of which only row `index` moves.

    Where nothing but that row moves, each call costs O(n d).
    """
    kernel, ridge, y = pair.fit.kernel, pair.fit.ridge, pair.y
    if pair.raw:
        residual, covariance = fixed_expansions(pair)

        def fixed(X: Tensor) -> tuple[Tensor, Tensor]:
            x = X[pair.index : pair.index + 1]
            return residual.value(kernel, x), covariance.value(kernel, x)

        return fixed

    def moving(X: Tensor) -> tuple[Tensor, Tensor]:
        rows, query = pair.features(X, pair.Xq)
        found = differentiable_influence(kernel, rows, y, query, ridge)
        own = found.diagonal[pair.index]
        return found.alpha[pair.index, 0] / own, found.weights[pair.index, 0] / own

    return moving


def fixed_expansions(pair: Pair) -> tuple[Expansion, Expansion]:
    """Return both factors as sums of kernels in x_i.

    With S = R of the fit without i they are y_i - k(x_i)'S y and k(x_i, x) - k(x_i)'S k(x). No refit is made: for any
    right-hand side b, S b = (R b - R e_i (R b)_i / R_ii) without entry i.
    """
    fit, i = pair.fit, pair.index
    keep = torch.arange(len(pair.X), device=pair.X.device) != i
    one = torch.ones(1, dtype=pair.X.dtype, device=pair.X.device)
    own = fit.inverse.columns(torch.tensor([i], device=pair.X.device))[:, 0]
    alpha, weights = fit.exact_alpha[:, pair.output], influence(fit, pair.Xq).weights[:, 0]
    without, toward = ((solved - own * solved[i] / own[i])[keep] for solved in (alpha, weights))
    x, rest = pair.X[i : i + 1], pair.X[keep]
    residual = Expansion(x, rest, -without, float(pair.y[i]))
    return residual, Expansion(x, torch.cat([pair.Xq, rest]), torch.cat([one, -toward]))


def bracket(holds: Callable[[float], bool], start: float, largest: float, tolerance: float) -> tuple[float, float]:
    """Return (low, high) with `holds` false at low, true at high and high - low <= tolerance high.

    From `start` the number doubles until the condition holds; (largest tried, inf) if it does not up to
    `largest`. For a condition that never becomes false again, its first point lies between the two.

    Example:
        >>> low, high = bracket(lambda x: x >= 3.0, start=1.0, largest=100.0, tolerance=1e-6)
        >>> low < 3.0 <= high < 3.00001
        True
    """
    low, high = 0.0, min(start, largest)
    while not holds(high):
        if high >= largest:
            return high, inf
        low, high = high, min(2 * high, largest)
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


Drift: TypeAlias = Callable[[float], float]
"""drift(eps) bounds |g(x + v) - g(x)| for all |v| <= eps; it never falls."""


@singledispatch
def drift(kernel: Kernel, g: Expansion, norm: str) -> Drift | None:
    """Return a bound on how far g(x) can move, or None if there is none for this kernel.

    Holds with the rows z_j and, for a Gram power, the context held fixed. Computed in float64 without
    outward rounding.

    Example:
        >>> g = Expansion(torch.zeros(1, 2).double(), torch.tensor([[3.0, -4.0]]).double(), torch.ones(1).double())
        >>> drift(DotProduct(), g, "linf")(0.5), drift(DotProduct(), g, "l2")(0.5)
        (3.5, 2.5)
    """
    return None


@drift.register(DotProduct)
@drift.register(GramPower)
def _linear(kernel: Kernel, g: Expansion, norm: str) -> Drift | None:
    """G is linear in x, so eps times the dual norm of its gradient, and attained (claim L7, corrected)."""
    slope = g.slope(kernel, norm)
    return lambda eps: eps * slope


@drift.register
def _exponential(kernel: Exponential, g: Expansion, norm: str) -> Drift | None:
    """A logit moves by eps b_j at most: the gradient's part, and |a_j| k_j (e^(eps b_j) - 1 - eps b_j) for the rest."""
    slope, projected = g.slope(kernel, norm), kernel.project(g.Z)
    keys = projected if kernel.projection is None else projected @ kernel.projection.to(projected)
    b = (keys / kernel.temperature).norm(p=DUAL[norm], dim=1)
    size = g.a.abs() * kernel.dense(g.x, g.Z)[0]
    return lambda eps: eps * slope + float((size * (torch.expm1(eps * b) - eps * b)).sum())


@drift.register
def _gaussian(kernel: Gaussian, g: Expansion, norm: str) -> Drift | None:
    """The gradient's part and |a_j| k(x, x) t^2/(2 tau), as no second derivative exceeds k(x, x)/tau; t is |U v|_2.

    A slope of at most k(x, x)/sqrt(e tau) everywhere is the better bound for large moves.
    """
    slope, tau = g.slope(kernel, norm), kernel.temperature
    stretch = sqrt(g.x.shape[1]) if norm == "linf" else 1.0
    if kernel.projection is not None:
        stretch *= float(torch.linalg.matrix_norm(kernel.projection.double(), ord=2))
    size = float(g.a.abs().sum() * kernel.diagonal(g.x)[0])

    def bound(eps: float) -> float:
        t = stretch * eps
        return min(eps * slope + size * t * t / (2 * tau), size * t / sqrt(e * tau))

    return bound


@drift.register
def _relu_ntk(kernel: ReluNTK, g: Expansion, norm: str) -> Drift | None:
    """k(x, z) has slope at most |z| (1/2 + 1/(2 pi)) in x, and |z|/2 more with both layers trained.

    The angle turns by at most |v|/|x|, and |cos| <= 1; the kink at angle 0 has bounded slope. The second
    derivative is not bounded there, so nothing finer holds for all rows.
    """
    lipschitz = (1.0 if kernel.both_layers else 0.5) + 1 / (2 * pi)
    slope = lipschitz * float(g.a.abs() @ g.Z.norm(dim=1)) * (sqrt(g.x.shape[1]) if norm == "linf" else 1.0)
    return lambda eps: eps * slope


LARGEST = 1e12
TOLERANCE = 1e-9


def certified_eps(pair: Pair, norm: str) -> float | None:
    """Return an eps such that no move |v| <= eps of the row changes the sign of its influence, or None.

    The influence is the product of a residual and a covariance up to a positive factor, so it keeps its sign
    while each of them does. A certificate exists

    - for dot-product, Gram-power (context fixed), exponential, Gaussian and ReLU tangent kernels of the rows
      themselves, where both are sums of kernels in the row that moves (`drift`; claim L7, corrected). For the first two
      it is the exact answer: some move just beyond it flips the sign;
    - for dot products of attention features without normalisation, where every row moves (claim L8, corrected).

    Holds for targets, query and other rows held fixed; round-off is not included.
    """
    kernel = pair.fit.kernel
    plain = type(kernel) is DotProduct and kernel.projection is None
    if pair.raw:
        expansions = fixed_expansions(pair)
        drifts = [drift(kernel, g, norm) for g in expansions]
        values = [abs(float(g.value(kernel, g.x))) for g in expansions]
    elif isinstance(pair.features, AttentionFeatures) and not pair.features.normalise and plain:
        drifts, values = _gram_cube(pair, norm)
    else:
        return None
    if any(one is None for one in drifts):
        return None

    def safe(bound: Drift, value: float) -> float:
        """Return the largest eps found at which the bound is still below |value|."""
        return bracket(lambda eps: not bound(eps) < value, 1e-6, LARGEST, TOLERANCE)[0]

    return min(safe(one, value) for one, value in zip(drifts, values, strict=True) if one is not None)


def _gram_cube(pair: Pair, norm: str) -> tuple[list[Drift | None], list[float]]:
    """Return bounds on the moves of alpha_i and (R k(x))_i for K = G^3, and their values.

    With t >= |v|, g = |G| and e = 2 |X| t + t^2 >= |G' - G|: |G'^3 - G^3| <= s = e (g^2 + g g' + g'^2) with
    g' = g + e, so |R' - R| <= s/(l (l + s)); and |k' - k| <= e (g + g') |X x| + g'^2 t |x|.
    """
    found = influence(pair.fit, pair.features(pair.X, pair.Xq)[1])
    largest = float(torch.linalg.matrix_norm(pair.X, ord=2))
    g, l, target = largest**2, pair.fit.ridge, float(pair.y.norm())  # noqa: E741
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
    return [alpha, weight], [abs(float(found.alpha[i, pair.output])), abs(float(found.weights[i, 0]))]


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
    fit: Fit,
    Xq: ArrayLike,
    attack: Attack,
    *,
    index: int,
    query: int = 0,
    output: int = 0,
    X: ArrayLike | None = None,
    features: Features | None = None,
    largest: float | None = None,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> FlippingEps:
    """Find by bisection the eps from which the attack, moving row `index` alone, flips its influence on one query.

    The attack is aimed at each of the two factors of the influence, whichever gives way first: only one of them
    changes sign at a flip (claim I3).

    The attack's eps is where the search starts; its norm, bounds and steps are used as they are. `query` is a row of
    Xq and `output` a column of y. A fit to `features` of rows `X` is attacked in X; with `AttentionFeatures` all
    features follow the row. `largest` is the largest eps to try, by default the size of the largest row; `tolerance`
    is the relative width of the last bracket.

    Example:
        >>> from ridgeformer.influence.attacks import FGSM
        >>> from ridgeformer.solving import solve
        >>> fit = solve(DotProduct(), [[1.0], [2.0]], [1.0, 0.5], ridge=1.0, algorithm="direct")
        >>> found = smallest_flipping_eps(fit, [[1.0]], FGSM(0.1), index=1)
        >>> round(found.certified, 3), round(found.found, 2)
        (1.0, 1.0)
    """
    pair = choose_pair(fit, Xq, index, query, output, X, features)
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
