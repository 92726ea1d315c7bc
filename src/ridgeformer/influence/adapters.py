"""Scores of other attribution packages, brought into one shape and order: training rows by queries.

Nothing is imported from them: an object that has their methods is enough. Both packages count a row as positive if it
lowers the query's loss, as long as their target is the loss; that is the sign which `judge_scores` expects of classes.
"""

from __future__ import annotations

from collections.abc import Sized
from inspect import signature
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from ridgeformer.core.errors import InputError
from ridgeformer.influence.oracle import as_scores

__all__ = ["CaptumInfluence", "DattriAttributor", "captum_scores", "dattri_scores"]


@runtime_checkable
class DattriAttributor(Protocol):
    """An attributor of dattri, such as `IFAttributorCG(task)`."""

    def cache(self, *given: object) -> None:
        """Prepare for the training rows."""

    def attribute(self, *given: object, **named: object) -> Tensor:
        """Return scores, (training rows, queries)."""


@runtime_checkable
class CaptumInfluence(Protocol):
    """An influence method of captum that knows its training rows, such as `TracInCPFast(...)`."""

    def influence(self, inputs: object) -> Tensor:
        """Return scores, (queries, training rows)."""


def dattri_scores(
    attributor: DattriAttributor, train: DataLoader[object], queries: DataLoader[object]
) -> Float[Tensor, "n q"]:
    """Return the scores of a dattri attributor for every training row and query, in the order of the datasets.

    Args:
        attributor: any of `dattri.algorithm`; its cache is filled from `train` if it takes training rows.
        train: all training rows, not shuffled.
        queries: not shuffled.

    Raises:
        InputError: a loader shuffles, so that scores could not be told apart.
        ShapeError: the attributor returned another number of scores (a loader that drops its last batch, say).
    """
    sizes = [_rows(train, "train"), _rows(queries, "queries")]
    cached = bool(signature(attributor.cache).parameters)
    if cached:
        attributor.cache(train)
    named = {"test_dataloader": queries}
    if not (cached and signature(attributor.attribute).parameters["train_dataloader"].default is None):
        named["train_dataloader"] = train  # TRAK keeps what it has cached
    return as_scores(attributor.attribute(**named).detach(), *sizes)


def captum_scores(influence: CaptumInfluence, queries: tuple[Tensor, ...]) -> Float[Tensor, "n q"]:
    """Return the scores of a captum influence method for every training row and query, in the order of the datasets.

    Args:
        influence: such as `captum.influence.TracInCPFast`; it has its training rows already.
        queries: inputs and labels, as captum takes them.

    Raises:
        InputError: captum was given a loader that shuffles, so that scores could not be told apart.
        ShapeError: captum returned another number of scores.
    """
    loader = getattr(influence, "train_dataloader", None)
    n = _rows(loader, "captum's train_dataset") if isinstance(loader, DataLoader) else None
    found = influence.influence(queries).detach().T
    return as_scores(found, len(found) if n is None else n, len(queries[0]))


def _rows(loader: DataLoader[object], name: str) -> int:
    if isinstance(loader.sampler, RandomSampler):
        raise InputError(f"{name} is shuffled, so nobody could say whose the scores are: set shuffle=False.")
    assert isinstance(loader.dataset, Sized)
    return len(loader.dataset)
