"""What every single-point influence is made of, the influences themselves, and one number for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.solving.fit import leave_one_out_residual

__all__ = ["MEASURES", "Influence", "Loss", "check_measure", "cross_entropy", "score", "squared_loss"]

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
        return self._shape(self._leave_one_out)

    @property
    def _leave_one_out(self) -> Tensor:
        return self.weights[:, :, None] * leave_one_out_residual(self.alpha, self.diagonal)[:, None, :]

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

        Args:
            loss: of a prediction and a target, outputs on the last axis; `squared_loss` is one.
            yq: the targets of the queries, (q, outputs), or (q,) if the targets were a vector.
        """
        targets = yq.reshape(self.predictions.shape).to(self.predictions)
        without = self.predictions[None] - self._leave_one_out
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
    """Refuse a measure that the targets have no meaning for.

    Raises:
        InputError: an unknown measure, several outputs where one was meant, no classes, or one class only.
    """
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
