"""The exact answers that attribution methods are judged by, without retraining.

A ridge regression on frozen features is refitted on any subset of its rows in closed form, so the counterfactuals
that attribution scores claim to predict are known exactly: what the model says after these rows are removed, what a
row adds on average over all orders of arrival, which rows together matter most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import minimize_scalar
from scipy.stats import t as student
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, as_tensor, whole
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.statistics import mean_interval
from ridgeformer.influence.baseline import rank_correlations
from ridgeformer.influence.exact import cross
from ridgeformer.kernels.base import FeatureKernel
from ridgeformer.solving import Fit
from ridgeformer.solving.direct import factorise_in_place, solve_with_factor

__all__ = [
    "Agreement",
    "LargestGroup",
    "ShapleyValues",
    "as_scores",
    "draw_subsets",
    "largest_group",
    "linear_datamodeling_score",
    "nearest_neighbour_shapley",
    "removal_effects",
    "shapley_values",
    "subset_predictions",
]

SWAPS = 200
"""Rounds of local search at most."""


def draw_subsets(n: int, subsets: int, *, fraction: float = 0.5, seed: int = 0) -> Bool[Tensor, "m n"]:
    """Return which rows each of some random subsets of one size keeps.

    Example:
        >>> draw_subsets(10, 3).sum(1)
        tensor([5, 5, 5])
    """
    if not 0 < fraction < 1 or not 1 <= round(fraction * n) < n:
        raise InputError(
            f"fraction is {fraction} of {n} rows; subsets with at least one row and without at least one were expected."
        )
    generator = torch_generator(seed, "subsets")
    order = torch.rand(whole(subsets, "subsets", 1), n, generator=generator).argsort(1)
    return order < round(fraction * n)


def subset_predictions(fit: Fit, Xq: ArrayLike, kept: Bool[Tensor, "m n"]) -> Float[Tensor, "m q r"]:
    """Return the predictions of the ridge regression on each subset of the rows: same kernel, same ridge, exact.

    Where a subset keeps most rows the others are taken out of the factorised fit, f(x) - W_S'R_SS^-1 alpha_S; where it
    keeps few, its own rows are factorised: the cheaper of |S|^3 and (n - |S|)^3. A kernel with fewer explicit features
    than that, such as that of a linear head, is solved for their weights. Every subset keeps at least one row.
    """
    n = len(fit.X)
    if kept.ndim != 2 or kept.shape[1] != n or kept.dtype != torch.bool:
        raise ShapeError(f"kept has shape {tuple(kept.shape)} of {kept.dtype}; booleans (subsets, {n}) were expected.")
    if not bool(kept.any(1).all()):
        raise InputError(f"subset {int((~kept.any(1)).nonzero()[0])} keeps no row; at least one was expected.")
    alpha, y, values = fit.exact_alpha, fit.y.reshape(n, -1).to(fit.X), []
    Xq = as_query(Xq, fit.X)
    F, Fq = (fit.kernel.feature_map(Z) if isinstance(fit.kernel, FeatureKernel) else None for Z in (fit.X, Xq))
    k, R, W = cross(fit, Xq), None, None
    full = k.T @ alpha
    for keep in kept:
        rows, gone = keep.nonzero()[:, 0], (~keep).nonzero()[:, 0]
        if F is not None and Fq is not None and F.shape[1] < min(len(rows), len(gone)):
            A = F[rows].T @ F[rows]
            _factorise(A, fit.ridge)
            values.append(Fq @ solve_with_factor(A, F[rows].T @ y[rows]))
        elif len(gone) < len(rows):
            if R is None or W is None:
                R, W = fit.inverse.columns(), fit.inverse @ k
            A = R[gone][:, gone]
            _factorise(A, 0.0)
            values.append(full - W[gone].T @ solve_with_factor(A, alpha[gone]))
        else:
            A = fit.K[rows][:, rows]
            _factorise(A, fit.ridge)
            values.append(k[rows].T @ solve_with_factor(A, y[rows]))
    return torch.stack(values)


def _factorise(A: Tensor, ridge: float) -> None:
    if not factorise_in_place(A, ridge):
        raise InputError("the system of a subset is singular in this precision: raise the ridge.")
    A.tril_()


def removal_effects(
    fit: Fit, Xq: ArrayLike, order: Int[Tensor, "n q"], counts: tuple[int, ...]
) -> Float[Tensor, "c q r"]:
    """Return f(x) - f_{-S}(x) where S holds the first rows of each query's own order, for every count.

    With the order of falling scores, a column a query, this is counterfactual removal; a method whose top rows change
    a prediction most has found them.
    """
    n, alpha = len(fit.X), fit.exact_alpha
    if max(counts) >= n or min(counts) < 1:
        raise InputError(f"counts are {counts}; between 1 and {n - 1} rows can be removed.")
    used, place = torch.unique(order[: max(counts)], return_inverse=True)
    R, W = fit.inverse.columns(used)[used], fit.inverse @ cross(fit, Xq)
    found = alpha.new_empty(len(counts), W.shape[1], alpha.shape[1])
    for j in range(W.shape[1]):
        for c, count in enumerate(counts):
            rows, here = order[:count, j], place[:count, j]
            found[c, j] = W[rows, j] @ torch.linalg.solve(R[here][:, here], alpha[rows])
    return found


def as_scores(scores: ArrayLike, n: int, q: int) -> Float[Tensor, "n q"]:
    """Return attribution scores as float64 (rows, queries), or refuse them; transposed ones are named as such."""
    found = as_tensor(scores, "scores").double()
    if found.shape != (n, q):
        hint = "transpose them" if found.shape == (q, n) else "one score for every training row and query"
        raise ShapeError(f"scores have shape {tuple(found.shape)}; ({n}, {q}) was expected: {hint}.")
    return found


@dataclass(frozen=True, eq=False)
class Agreement:
    """How well scores predict what exact refits say: the linear datamodeling score [Park2023].

    Attributes:
        mean: the Spearman correlation over subsets of the sum of the kept rows' scores with the exact prediction,
            averaged over queries.
        low, high: 95 % interval of it over queries; None for one query.
        by_query: the correlations; NaN where the scores of a query are all equal.
        constant: queries whose scores rank nothing, which count as 0 in the mean.
    """

    mean: float
    low: float | None
    high: float | None
    by_query: Float[Tensor, " q"] = field(repr=False)
    constant: int = 0

    def __str__(self) -> str:
        between = "" if self.low is None or self.high is None else f" (95 % interval {self.low:.3f} to {self.high:.3f})"
        return f"rank correlation with exact refits {self.mean:.3f}{between} over {len(self.by_query)} queries"


def linear_datamodeling_score(scores: ArrayLike, kept: Bool[Tensor, "m n"], outputs: Float[Tensor, "m q"]) -> Agreement:
    """Return the linear datamodeling score of attribution scores, (n, q), against exact outputs of subsets.

    The scores say how much each row adds to each query's output, by any method; only their order over subsets matters.
    `outputs` is one output of the fits to the rows `kept`, as `subset_predictions` returns them.

    Example:
        >>> kept = torch.tensor([[True, False], [False, True], [True, True]])
        >>> outputs = torch.tensor([[1.0], [2.0], [3.0]])
        >>> linear_datamodeling_score([[1.0], [2.0]], kept, outputs).mean
        1.0
    """
    m, n = kept.shape
    found = as_scores(scores, n, outputs.shape[1])
    if m < 3:
        raise InputError(f"{m} subsets were given; a rank correlation needs at least 3.")
    by_query = rank_correlations((kept.double() @ found).round(decimals=12), outputs)
    counted = np.nan_to_num(by_query)
    low, high = mean_interval(counted)
    return Agreement(float(counted.mean()), low, high, torch.from_numpy(by_query), int(np.isnan(by_query).sum()))


@dataclass(frozen=True, eq=False)
class ShapleyValues:
    """Shapley values of training rows, estimated from random orders.

    Attributes:
        values: (n, q, r), the mean marginal contribution over the orders; exactly additive: over all rows they sum to
            the prediction.
        error: (n, q, r), half the width of a 95 % interval by Student's t over the orders.
        orders: how many.
    """

    values: Float[Tensor, "n q r"]
    error: Float[Tensor, "n q r"]
    orders: int


def shapley_values(fit: Fit, Xq: ArrayLike, *, orders: int = 100, seed: int = 0) -> ShapleyValues:
    """Return what each row adds to each prediction when rows arrive in random order, with error bars.

    One Cholesky factorisation an order gives all n marginal contributions exactly: with A = L L' in the order of
    arrival, the fit of the first j rows predicts the sum of (L^-1 k(x))_i (L^-1 y)_i over i <= j, so row j adds the
    j-th term. The empty fit predicts 0. At least two `orders` are drawn.
    """
    n, orders = len(fit.X), whole(orders, "orders", 2)
    k, y = cross(fit, Xq).double(), fit.y.reshape(n, -1).double()
    q = k.shape[1]
    total = torch.zeros(n, q, y.shape[1], dtype=torch.float64)
    squares = torch.zeros_like(total)
    generator = torch_generator(seed, "orders")
    for _ in range(orders):
        order = torch.randperm(n, generator=generator)
        A = fit.K.double()[order][:, order]
        if not factorise_in_place(A, fit.ridge):
            raise InputError("K + ridge I is singular in this precision: raise the ridge.")
        half = torch.linalg.solve_triangular(A.tril_(), torch.cat([k[order], y[order]], 1), upper=False)
        terms = half[:, :q, None] * half[:, None, q:]
        total[order] += terms
        squares[order] += terms.square()
    mean = total / orders
    spread = (squares / orders - mean.square()).clamp_min(0) * orders / (orders - 1)
    half_width = float(student.ppf(0.975, orders - 1)) * (spread / orders).sqrt()
    return ShapleyValues(mean, half_width, orders)


def nearest_neighbour_shapley(
    X: ArrayLike, labels: ArrayLike, Xq: ArrayLike, query_labels: ArrayLike, *, neighbours: int = 5
) -> Float[Tensor, "n q"]:
    """Return the exact Shapley value of every row for the accuracy of nearest neighbours at each query [Jia2019].

    The game is the fraction of the k nearest rows that have the query's label. Ties in distance go to the earlier row.

    Example:
        >>> nearest_neighbour_shapley([[0.0], [1.0]], [1, 0], [[0.1]], [1], neighbours=1).flatten().tolist()
        [1.0, 0.0]
    """
    X = as_matrix(X, "X")
    Xq, k = as_query(Xq, X), min(whole(neighbours, "neighbours", 1), len(X))
    y, yq = torch.as_tensor(np.asarray(labels)), torch.as_tensor(np.asarray(query_labels))
    if y.shape != (len(X),) or yq.shape != (len(Xq),):
        raise ShapeError("labels and query_labels must have one entry a row.")
    order = torch.cdist(X.double(), Xq.double()).argsort(dim=0, stable=True)
    right, n = (y[order] == yq).double(), len(X)
    values = torch.empty_like(right)
    values[-1] = right[-1] / n  # the farthest row counts only where fewer than k others have come before it
    for i in range(n - 2, -1, -1):  # the i-th nearest, from 0
        values[i] = values[i + 1] + (right[i] - right[i + 1]) / k * min(k, i + 1) / (i + 1)
    return torch.empty_like(values).scatter_(0, order, values)


@dataclass(frozen=True, eq=False)
class LargestGroup:
    """A group of rows whose removal changes one prediction a great deal, and how much more any group could.

    Attributes:
        rows: the group found.
        change: f(x) - f_{-S}(x) for it, exact.
        greedy: what the greedy choice reached before local search.
        bound: no group of this size changes the prediction by more, in the direction asked for.
    """

    rows: Int[Tensor, " k"]
    change: float
    greedy: float
    bound: float

    def __str__(self) -> str:
        return (
            f"Removing {len(self.rows)} rows changes the prediction by {self.change:.4g}; no {len(self.rows)} rows "
            f"change it by more than {self.bound:.4g}."
        )


def largest_group(fit: Fit, x: ArrayLike, size: int, *, output: int = 0, direction: int = 1) -> LargestGroup:
    """Return rows that, removed together, lower one prediction most (direction 1) or raise it most (-1).

    Rows are chosen greedily by the exact block formula, then swapped one at a time while that gains. The bound: with
    D = diag(R)^-1/2 the eigenvalues of every principal block of C = D R D lie in one interval [a, b]: between the
    extreme ones of the whole (Cauchy's interlacing theorem), within 1 -+ the largest sum of k - 1 off-diagonal entries
    of a row (Gershgorin), and within 1 -+ the largest Frobenius norm of a block without its diagonal. So
    w'R_SS^-1 v <= sum_S ((w_i + t v_i)^2/a - (w_i - t v_i)^2/b) / 4t in the scaled vectors for any t > 0; the k largest
    terms bound every group, and t is chosen to make that least. The bound is attained for one row and grows loose with
    k. `x` is one query, (d,) or (1, d), and `size` is k.
    """
    row = as_tensor(x, "x").reshape(1, -1)
    n, k = len(fit.X), whole(size, "size", 1)
    if k >= n:
        raise InputError(f"size is {k}; fewer than all {n} rows were expected.")
    if direction not in (1, -1):
        raise InputError(f"direction is {direction}; 1 (lower the prediction) or -1 (raise it) was expected.")
    R, alpha = fit.inverse.columns(), fit.exact_alpha[:, output]
    w = direction * (R @ cross(fit, as_query(row, fit.X, "x")))[:, 0]

    def change(rows: Tensor) -> float:
        return float(w[rows] @ torch.linalg.solve(R[rows][:, rows], alpha[rows]))

    chosen = _greedy(R, w, alpha, k)
    greedy = best = change(chosen)
    for _ in range(SWAPS):
        swapped = _best_swap(R, w, alpha, chosen)
        if (value := change(swapped)) <= best * (1 + 1e-12) + 1e-300:
            break
        chosen, best = swapped, value
    return LargestGroup(chosen.sort().values, direction * best, direction * greedy, direction * _bound(R, w, alpha, k))


def _greedy(R: Tensor, w: Tensor, alpha: Tensor, k: int) -> Tensor:
    """Return k rows, each the one whose removal changes most after those before it: a pivoted Cholesky of R."""
    w, alpha, left = w.clone(), alpha.clone(), R.diagonal().clone()
    columns, chosen = R.new_zeros(len(R), k), []
    free = torch.ones(len(R), dtype=torch.bool)
    for j in range(k):
        gain = torch.where(free, w * alpha / left.clamp_min(torch.finfo(R.dtype).tiny), -torch.inf)
        row = int(gain.argmax())
        root = float(left[row]) ** 0.5
        column = (R[:, row] - columns[:, :j] @ columns[row, :j]) / root
        alpha, w = alpha - column * (alpha[row] / root), w - column * (w[row] / root)
        columns[:, j], left = column, left - column.square()
        free[row] = False
        chosen.append(row)
    return torch.tensor(chosen)


def _best_swap(R: Tensor, w: Tensor, alpha: Tensor, chosen: Tensor) -> Tensor:
    """Return the group after the single exchange that looks best, given the other rows stay out."""
    best, found = -torch.inf, chosen
    for place in range(len(chosen)):
        rest = torch.cat([chosen[:place], chosen[place + 1 :]])
        across = R[:, rest]
        inner = torch.linalg.solve(across[rest], torch.stack([w[rest], alpha[rest]], 1))
        reduced = torch.stack([w, alpha], 1) - across @ inner
        left = R.diagonal() - (across * torch.linalg.solve(across[rest], across.T).T).sum(1)
        gain = reduced[:, 0] * reduced[:, 1] / left.clamp_min(torch.finfo(R.dtype).tiny)
        gain[rest] = -torch.inf
        row = int(gain.argmax())
        total = float(gain[row] + w[rest] @ inner[:, 1])
        if total > best:
            best, found = total, torch.cat([rest, torch.tensor([row])])
    return found


def _bound(R: Tensor, w: Tensor, alpha: Tensor, k: int) -> float:
    scale = R.diagonal().rsqrt()
    C = scale[:, None] * R * scale
    values = torch.linalg.eigvalsh(C)
    spare = 4 * len(R) * torch.finfo(R.dtype).eps * float(values[-1])
    beside = C.abs().fill_diagonal_(0)
    rows = float(beside.topk(k - 1, dim=1).values.sum(1).max()) if k > 1 else 0.0
    pairs = beside.tril().flatten().topk(min(k * (k - 1) // 2, beside.numel())).values
    radius = min(rows, sqrt(2 * float(pairs.square().sum()))) + spare
    low = max(float(values[0]) - spare, 1 - radius, torch.finfo(R.dtype).tiny)
    high = min(float(values[-1]) + spare, 1 + radius)
    w, alpha = scale * w, scale * alpha

    def largest(log_t: float) -> float:
        t = 10.0**log_t
        terms = ((w + t * alpha).square() / low - (w - t * alpha).square() / high) / (4 * t)
        return float(terms.topk(k).values.clamp_min(0).sum())

    balance = float(w.norm() / alpha.norm().clamp_min(torch.finfo(R.dtype).tiny))
    centre = np.log10(max(balance, 1e-300))
    found = minimize_scalar(largest, bounds=(centre - 3, centre + 3), method="bounded")
    return min(float(found.fun), largest(centre)) * (1 + sqrt(torch.finfo(R.dtype).eps))
