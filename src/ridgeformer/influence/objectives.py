"""What an attacker of the training rows wants: a large training loss, or other influences."""

from __future__ import annotations

from torch import Tensor

from ridgeformer.influence.attacks import Objective
from ridgeformer.influence.differentiable import differentiable_influence
from ridgeformer.influence.exact import RidgeFit
from ridgeformer.influence.features import Features
from ridgeformer.influence.influence import Loss
from ridgeformer.influence.scores import score

__all__ = ["influence_reversal", "training_loss"]


def training_loss(fitted: RidgeFit, Xq: Tensor, features: Features, rows: Tensor, loss: Loss) -> Objective:
    """Return the loss of the attacked rows under the model as it was fitted: an attack on a trained model.

    The model, f(x) = k(phi(x), Phi)'alpha, is held; what the kernel sees of the rows moves with them.
    """
    system = fitted.system

    def objective(X: Tensor) -> Tensor:
        seen, _ = features(X, Xq)
        predicted = system.kernel.product(seen[rows], system.X, fitted.alpha)
        return loss(predicted, fitted.y[rows])

    return objective


def influence_reversal(
    fitted: RidgeFit, Xq: Tensor, yq: Tensor, features: Features, rows: Tensor, measure: str, before: Tensor
) -> Objective:
    """Return minus the influences of the attacked rows, each over what it was: the adaptive attack's objective.

    The fit follows the rows. Influences are means over the queries, as in `before`, (n,).
    """
    kernel, ridge = fitted.system.kernel, fitted.system.ridge
    scale = before[rows]
    scale = scale.where(scale != 0, 1.0)

    def objective(X: Tensor) -> Tensor:
        seen, queries = features(X, Xq)
        found = differentiable_influence(kernel, seen, fitted.y, queries, ridge)
        return -score(found, yq, measure).mean(1)[rows] / scale

    return objective
