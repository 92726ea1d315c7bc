"""One number for what a training point did to a query: which of the influences, and of which output."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.influence.influence import Influence
from ridgeformer.influence.losses import squared_loss

__all__ = ["MEASURES", "check_measure", "score"]

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
