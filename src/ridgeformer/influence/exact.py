"""Every influence of every training point, exactly, from the factor of one fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, as_targets
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.solving import Fit, Status
from ridgeformer.solving.fit import leave_one_out_residual

__all__ = [
    "Influence",
    "cross_entropy",
    "feature_change",
    "influence",
    "label_change",
    "leave_group_out",
    "leave_one_out",
    "squared_loss",
]


Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""loss(prediction, target) with the outputs on the last axis, which it sums away."""


@dataclass(frozen=True, eq=False)
class Influence:
    """How each of n training points made each of q predictions of a ridge regression, R = (K + ridge I)^-1.

    Everything is made of three arrays. Where they come from an estimator, each has an error: |estimate -
    exact| is at most that, always or with the confidence the estimator was asked for; where they are exact,
    the errors are None. Answers are (n, q), or (n, q, outputs) if the targets were a matrix.

    Attributes:
        alpha: R y, (n, outputs).
        weights: R k(x), one column a query, (n, q). It is also the derivative of f(x) in y_i.
        diagonal: R_ii, (n,).
        predictions: f(x), (q, outputs).
        ridge: the ridge of these arrays; see `Fit.log_scale` for kernels whose scale was changed.
        rows: which training points these are; None means all.
        vector: whether the targets were a vector.
        alpha_error, weights_error, diagonal_error: shaped like what they belong to, or None.
        diagonal_least: what R_ii is proved not to be below, or None.
    """

    alpha: Tensor
    weights: Tensor
    diagonal: Tensor
    predictions: Tensor = field(repr=False)
    ridge: float
    rows: Tensor | None = field(default=None, repr=False)
    vector: bool = False
    alpha_error: Tensor | None = field(default=None, repr=False)
    weights_error: Tensor | None = field(default=None, repr=False)
    diagonal_error: Tensor | None = field(default=None, repr=False)
    diagonal_least: Tensor | None = field(default=None, repr=False)

    def _shape(self, pairs: Tensor) -> Tensor:
        return pairs[..., 0] if self.vector else pairs

    @property
    def residual(self) -> Tensor:
        """y_i - f_{-i}(x_i), the leave-one-out residual, shaped like the targets."""
        return self._shape(leave_one_out_residual(self.alpha, self.diagonal))

    @property
    def leverage(self) -> Tensor:
        """h_ii = 1 - ridge R_ii, (n,): how much of y_i the fit at x_i copies."""
        return 1 - self.ridge * self.diagonal

    @property
    def self_influence(self) -> Tensor:
        """f(x_i) - f_{-i}(x_i) = h_ii (y_i - f_{-i}(x_i)), shaped like the targets."""
        return self._shape(self.leverage[:, None] * leave_one_out_residual(self.alpha, self.diagonal))

    @property
    def leave_one_out(self) -> Tensor:
        """f(x) - f_{-i}(x) = (R k(x))_i alpha_i / R_ii (claim I1)."""
        return self._shape(self.weights[:, :, None] * leave_one_out_residual(self.alpha, self.diagonal)[:, None, :])

    @property
    def leave_one_out_error(self) -> Tensor:
        """What |leave_one_out - exact| is at most if the three arrays are as close as their errors say; 0 if exact."""
        if self.alpha_error is None or self.weights_error is None or self.diagonal_error is None:
            return torch.zeros_like(self.leave_one_out)
        least = self.diagonal - self.diagonal_error
        least = (least.clamp_min(0) if self.diagonal_least is None else least.maximum(self.diagonal_least))[
            :, None, None
        ]
        own, most = self.diagonal[:, None, None], (self.diagonal + self.diagonal_error)[:, None, None]
        w, a = self.weights[:, :, None], self.alpha[:, None, :]
        dw, da = self.weights_error[:, :, None], self.alpha_error[:, None, :]
        drift = (w.abs() * da + a.abs() * dw + dw * da) / least
        return self._shape(drift + (w * a).abs() * (1 / least - 1 / own).maximum(1 / own - 1 / most))

    @property
    def infinitesimal(self) -> Tensor:
        """Ridge (R k(x))_i alpha_i: minus the derivative of f(x) in the weight of point i, at weight 1 (claim I2).

        The sign is that of `leave_one_out`, which is this divided by 1 - h_ii = ridge R_ii.
        """
        return self._shape(self.ridge * self.weights[:, :, None] * self.alpha[:, None, :])

    def loss_influence(self, loss: Loss, yq: Tensor) -> Tensor:
        """Return the loss without point i minus the loss with it, (n, q): positive where point i helps.

        `squared_loss` is a loss, and `yq` are the targets of the queries, (q, outputs), or (q,) if they were a vector.
        """
        targets = yq.reshape(self.predictions.shape).to(self.predictions)
        without = self.predictions[None] - self.leave_one_out.reshape(len(self.alpha), *targets.shape)
        return loss(without, targets.expand_as(without)) - loss(self.predictions, targets)[None]


def squared_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Return |f - y|^2 / 2.

    Example:
        >>> import torch
        >>> squared_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
        tensor(2.)
    """
    return (prediction - target).square().sum(-1) / 2


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of softmax(f) with the class whose target is largest; two outputs at least.

    Example:
        >>> import torch
        >>> cross_entropy(torch.tensor([0.0, 0.0]), torch.tensor([-1.0, 1.0]))
        tensor(0.6931)
    """
    return -prediction.log_softmax(-1).gather(-1, target.argmax(-1, keepdim=True))[..., 0]


MEASURES = ("true_class", "output", "loss")
"""true_class: what the point adds to the output of the query's class; output: to the only output; loss: what it
takes from the squared loss."""


def score(found: Influence, yq: Float[Tensor, "q outputs"], measure: str) -> Float[Tensor, "n q"]:
    """Return the influence of every training point on every query as one number.

    Classes are columns, the largest target of a row being its class, or one column of -1 and +1; of these the
    output of class -1 is -f. Differentiable where the influence is.

    Example:
        >>> found = Influence(torch.tensor([[2.0]]), torch.tensor([[3.0]]), torch.ones(1), torch.zeros(1, 1), 1.0)
        >>> score(found, torch.tensor([[-1.0]]), "true_class")
        tensor([[-6.]])
    """
    if measure == "loss":
        return found.loss_influence(squared_loss, yq)
    pairs = found.leave_one_out.reshape(*found.weights.shape, -1)
    if measure == "output":
        return pairs[:, :, 0]
    if pairs.shape[2] == 1:
        return pairs[:, :, 0] * yq[:, 0].sign()
    return pairs[:, torch.arange(len(yq), device=yq.device), yq.argmax(1)]


def check_measure(measure: str, y: Float[Tensor, "n outputs"], yq: Float[Tensor, "q outputs"]) -> None:
    """Refuse a measure that the targets have no meaning for."""
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)
    if measure == "output" and y.shape[1] != 1:
        raise InputError(f"measure 'output' is for one output and y has {y.shape[1]}: use 'true_class' or 'loss'.")
    if measure != "true_class":
        return
    both = torch.cat([y, yq])
    if y.shape[1] == 1 and not bool((both.abs() == 1).all()):
        raise InputError(
            "measure 'true_class' is for classes, one column each or one column of -1 and +1, and y holds other "
            "numbers: use measure='output' for regression."
        )
    classes = y[:, 0] if y.shape[1] == 1 else y.argmax(1)
    if len(classes.unique()) < 2:
        raise InputError("y has one class only; at least two are needed.")


def influence(fit: Fit, Xq: ArrayLike) -> Influence:
    """Return every influence of every training point of a fit on every query, from its one factorisation.

    Holds for positive semidefinite kernels and ridge > 0; equal to refits up to round-off. For a fit on centres these
    are refits on the same centres without the target of a row, at three passes over the rows.

    Raises:
        InputError: the fit has not converged, or its system is singular in the precision of its rows.

    Example:
        >>> from ridgeformer import kernels, solve
        >>> fit = solve(kernels.DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0, algorithm="direct")
        >>> found = influence(fit, [[1.0]])
        >>> found.leave_one_out[:, 0], found.leverage
        (tensor([ 0.1667, -0.3333], dtype=torch.float64), tensor([0.1667, 0.6667], dtype=torch.float64))
    """
    vector = fit.alpha.ndim == 1
    if fit.status is Status.SUBSET:
        Xq, own = as_query(Xq, fit.X), fit.on_centres
        return Influence(own.alpha, own.weights(Xq), own.inverse_diagonal, own.predict(Xq), fit.ridge, vector=vector)
    alpha, k = fit.exact_alpha, cross(fit, Xq)
    return Influence(alpha, fit.inverse @ k, fit.inverse_diagonal, k.T @ alpha, fit.ridge, vector=vector)


def leave_one_out(fit: Fit, Xq: ArrayLike) -> Tensor:
    """Return f(x) - f_{-i}(x), (n, q) or (n, q, outputs): what each training point adds to each prediction.

    f_{-i} is the fit without point i; no refit is made (claim I1).

    Example:
        >>> from ridgeformer import kernels, solve
        >>> fit = solve(kernels.DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0, algorithm="direct")
        >>> leave_one_out(fit, [[1.0]])
        tensor([[ 0.1667], [-0.3333]], dtype=torch.float64)
    """
    return influence(fit, Xq).leave_one_out


def leave_group_out(fit: Fit, Xq: ArrayLike, group: ArrayLike) -> Tensor:
    """Return f(x) - f_{-B}(x) for a group B of distinct training rows, not all of them: (q,) or (q, outputs).

    Equal to a refit without B, up to round-off: it is (R k(x))_B' (R_BB)^-1 alpha_B, at O(n^2 |B|) operations.

    Example:
        >>> from ridgeformer import kernels, solve
        >>> fit = solve(kernels.DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 1.0, 0.0], ridge=1.0, algorithm="direct")
        >>> leave_group_out(fit, [[1.0]], group=[0, 2])
        tensor([-0.2000], dtype=torch.float64)
    """
    n = len(fit.X)
    rows = as_rows(group, n, fit.X.device)
    if len(rows) == n:
        raise InputError(f"the group holds all {n} rows; leave at least one to fit.")
    if fit.status is Status.SUBSET:
        change = fit.on_centres.leave_group_out(as_query(Xq, fit.X), rows)
        return change[:, 0] if fit.alpha.ndim == 1 else change
    alpha = fit.exact_alpha
    columns = fit.inverse.columns(rows)
    change = (columns.T @ cross(fit, Xq)).T @ torch.linalg.solve(columns[rows], alpha[rows])
    return change[:, 0] if fit.alpha.ndim == 1 else change


def label_change(fit: Fit, Xq: ArrayLike, new_y: ArrayLike) -> Tensor:
    """Return, for each point i, how f(x) changes when y_i alone becomes new_y_i: (n, q) or (n, q, outputs).

    It is (R k(x))_i (new_y_i - y_i). Several labels changed at once add up exactly, so the effect of changing
    a set of them is the sum over the set. `new_y` is shaped like the targets.

    Example:
        >>> from ridgeformer import kernels, solve
        >>> fit = solve(kernels.DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0, algorithm="direct")
        >>> label_change(fit, [[1.0]], new_y=[1.0, 3.0])
        tensor([[0.], [1.]], dtype=torch.float64)
    """
    new_y = as_targets(new_y, fit.X, "new_y")
    if fit.y.shape != new_y.shape:
        raise ShapeError(f"new_y has shape {tuple(new_y.shape)} and y has {tuple(fit.y.shape)}: give the same shape.")
    found = influence(fit, Xq)
    change = (new_y - fit.y).reshape(found.alpha.shape).to(found.weights)
    return found._shape(found.weights[:, :, None] * change[:, None, :])


def feature_change(
    fit: Fit, Xq: ArrayLike, *, X: ArrayLike | None = None, features: Features | None = None
) -> Float[Tensor, "q outputs n d"]:
    """Return the derivative of f(x) in every entry of every training row, (q, outputs, n, d).

    Moving row i by a small v changes the prediction by the sum of entry [query, output, i] times v; the
    refit after the move is included. Within |v|_inf <= eps the most it can do is eps times the entry's 1-norm,
    to first order. Holds where the kernel is differentiable. A vector of targets counts as one output. A fit to
    `features` of rows `X` is differentiated in X.

    Example:
        >>> from ridgeformer import kernels, solve
        >>> fit = solve(kernels.DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0, algorithm="direct")
        >>> feature_change(fit, [[1.0]]).flatten()
        tensor([ 0.1111, -0.1111], dtype=torch.float64)
    """
    X, Xq, features = rows_behind(fit, Xq, X, features)
    _ = fit.exact_alpha  # refuses a fit on centres: its kernel is another function of the rows
    weights = influence(fit, features(X, Xq)[1]).weights
    moving, gradients = X.clone().requires_grad_(), []
    for q, output in np.ndindex(len(Xq), fit.exact_alpha.shape[1]):
        # From dR = -R dK R the gradient of k(x)'R y is that of k(x)'alpha - w'K alpha with alpha = R y and w = R k(x)
        # held fixed, so the factorisation is never differentiated and K is never held whole.
        alpha, w = fit.exact_alpha[:, output : output + 1], weights[:, q : q + 1]
        with torch.enable_grad():
            rows, query = features(moving, Xq[q : q + 1])
            value = fit.kernel.product(query, rows, alpha).sum() - (w * fit.kernel.product(rows, rows, alpha)).sum()
        gradients.append(torch.autograd.grad(value, moving)[0])
    return torch.stack(gradients).reshape(len(Xq), -1, *X.shape)


def as_problem(X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, targets (n, outputs) and queries, checked and detached, in the precision of the rows."""
    X = as_matrix(X, "X").detach()
    return X, as_targets(y, X).detach().reshape(len(X), -1).to(X.dtype), as_query(Xq, X).detach()


def as_rows(group: ArrayLike, n: int, device: torch.device) -> Tensor:
    """Return distinct row numbers of n rows.

    Example:
        >>> as_rows([2, 0], 3, torch.device("cpu"))
        tensor([2, 0])
    """
    numbers = np.asarray(group.cpu() if isinstance(group, Tensor) else group)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise InputError(f"the rows are {group!r}; a list of at least one row number was expected.")
    if numbers.min() < 0 or numbers.max() >= n:
        wrong = numbers.max() if numbers.max() >= n else numbers.min()
        raise InputError(f"row {wrong} is out of range: the rows are numbered 0 to {n - 1}.")
    if len(np.unique(numbers)) != numbers.size:
        raise InputError("a row is named twice; name each row once.")
    return torch.from_numpy(numbers.astype(np.int64)).to(device)


def cross(fit: Fit, Xq: ArrayLike) -> Float[Tensor, "n q"]:
    """Return k(x_i, x) for every training row and query x."""
    return fit.kernel(as_query(Xq, fit.X), fit.X).T


def rows_behind(
    fit: Fit, Xq: ArrayLike, X: ArrayLike | None, features: Features | None
) -> tuple[Tensor, Tensor, Features]:
    """Return the rows whose features a fit is of, the queries, and the features; by default the fit's own rows."""
    features = features or RawFeatures()
    rows = fit.X if X is None else as_matrix(X, "X").detach().to(fit.X)
    queries = as_query(Xq, rows).detach()
    seen = features(rows, queries)[0]
    if seen.shape != fit.X.shape or not torch.allclose(seen, fit.X):
        raise InputError(
            "the fit is not one of these features of X: solve with features(X, Xq)[0] as rows, and give X as well."
        )
    return rows, queries, features
