"""What the commands about compiled models share: data that fit a model, and plain names for its options."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeformer import datasets
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.core.errors import ShapeError
from ridgeformer.datasets import Split

__all__ = ["Data", "Directory", "MaxRows", "Preprocessing", "Seed", "Target", "prepare_for"]

Directory = Annotated[str, typer.Argument(metavar="DIR", help="A model saved by `ridgeformer compile`.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help="A dataset's name, or a .csv, .parquet, .npz or .npy file.")]
Target = Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")]
Preprocessing = Annotated[str, typer.Option(help="auto, unit_rows or standardise.")]
MaxRows = Annotated[int, typer.Option(help="Rows used at most; more are sampled.", min=10)]
Seed = Annotated[int, typer.Option(help="Of the split and of every random step.", min=0)]


def prepare_for(
    model: CompiledTransformer, data: str, target: str | None, preprocessing: str, max_rows: int, seed: int
) -> Split:
    """Return the data, prepared; rows and targets of another size than the model's are refused."""
    split = Split.of(datasets.load(data, target=target), max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    for what, option, found, compiled in (
        ("features", "--features", split.X.shape[1], model.spec.features),
        ("outputs", "--outputs", split.y.shape[1], model.spec.outputs),
    ):
        if found != compiled:
            raise ShapeError(
                f"{split.dataset.name} has {found} {what} and the model was compiled for {compiled}: "
                f"compile one with {option} {found}."
            )
    return split
