"""A transformer small enough to watch: softmax attention on a handful of the audit's rows, one output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.auditing.compiled import compile_softmax
from ridgeformer.auditing.fits import Certified
from ridgeformer.auditing.settings import Settings
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split

__all__ = ["Watched", "choose_watched"]

SUPPORTS, QUERIES = 16, 5
MOST_STEPS = 8
"""Rows and steps one can follow by eye."""


@dataclass(frozen=True, eq=False)
class Watched:
    """A compiled model and a task for it.

    Attributes:
        model: Softmax attention at the audit's temperature and ridge.
        X, y: Training rows, and the targets of one output.
        Xq: Held-out rows.
        output: Which output it is, in words.
        labels: What each training row is, in words.
    """

    model: CompiledTransformer
    X: Tensor
    y: Tensor
    Xq: Tensor
    output: str
    labels: tuple[str, ...]


def choose_watched(data: Split, certified: Certified, settings: Settings) -> Watched:
    """Return the model and its task; the output is the one whose targets vary most over the rows drawn.

    Raises:
        InputError: targets or rows the compiler cannot take.
    """
    order = torch.randperm(len(data.X), generator=torch_generator(settings.seed, "watched supports"))[:SUPPORTS]
    X, Xq = data.X[order], data.Xt[:QUERIES]
    output = int(data.y[order].std(dim=0, correction=0).argmax())
    y = data.y[order, output]
    model = compile_softmax(certified, X, y[:, None], Xq, most_steps=MOST_STEPS)
    classes = data.dataset.classes
    said = f"class {classes[output]} against the rest" if classes else "the target"
    if not classes and data.y.shape[1] > 1:
        said = f"target {output + 1}"
    return Watched(model, X, y, Xq, said, tuple(_label(data, int(place)) for place in order))


def _label(data: Split, place: int) -> str:
    row = f"row {data.rows[place]}"
    return row if data.labels is None else f"{row}, class {data.dataset.classes[int(data.labels[place])]}"
