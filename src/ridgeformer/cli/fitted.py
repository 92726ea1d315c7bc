"""`ridgeformer fit` and `ridgeformer predict`: a model to keep, and its answers for a new table."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing

if TYPE_CHECKING:
    from ridgeformer.auditing.fitted import FittedModel, NewPredictions

__all__ = ["fit", "predict"]


def fit(
    data: ui.Data,
    model: Annotated[Path, typer.Option("--out", help="The file to write, such as model.safetensors.")],
    target: ui.Target = None,
    task: ui.Task = None,
    drop: ui.Drop = None,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: Annotated[int, typer.Option(help="Largest number of rows to fit; more are sampled.", min=10)] = 2000,
    seed: ui.Seed = 0,
    json: ui.Json = False,
) -> None:
    """Fit regression with the kernel of attention to all rows and save it, without pickles.

    Example: ridgeformer fit wine --out wine.safetensors
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.auditing import Settings
        from ridgeformer.auditing.fitted import FittedModel
        from ridgeformer.views.page import require_place

    require_place(model)
    dataset = datasets.load(data, target=target, task=task, drop=ui.split_names(drop))
    fitted = FittedModel.of(dataset, Settings(max_rows=max_rows, preprocessing=preprocessing, seed=seed))
    path = fitted.save(model)
    if json:
        ui.print_json({"model": str(path), "rows": len(fitted.split.X), "notes": list(fitted.split.notes)})
        return
    for note in fitted.split.notes:
        ui.out().print(f"- {note}", markup=False, style="dim")
    ui.out().print(f"Fitted {len(fitted.split.X):,} rows. {fitted.fit.advice}", markup=False)
    ui.out().print(f"Written to {path}. Use it: ridgeformer predict {path} NEW.csv", markup=False, soft_wrap=True)


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `ridgeformer fit` wrote.")],
    new: Annotated[Path, typer.Argument(help="A .csv or .parquet table with the columns of the training table.")],
    table: Annotated[Path | None, typer.Option("--out", help="Write a .csv file instead of printing it.")] = None,
    json: ui.Json = False,
) -> None:
    """Predict the rows of a new table, and flag those outside the training range.

    Example: ridgeformer predict wine.safetensors new.csv
    """
    with importing():
        from ridgeformer.auditing.fitted import FittedModel

    fitted = FittedModel.load(model)
    found = fitted.predict_table(new)
    heads, rows = _rows(fitted, found)
    if json:
        ui.print_json([dict(zip(heads, row, strict=True)) for row in rows])
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    if table is None:
        print(text.getvalue(), end="")
    else:
        table.write_text(text.getvalue())
    far = sum(map(bool, found.outside))
    if far:
        print(f"{far} of {len(rows)} rows lie outside the training range; do not rely on them.", file=sys.stderr)


def _rows(fitted: FittedModel, found: NewPredictions) -> tuple[list[str], list[list[Any]]]:
    dataset = fitted.split.dataset
    heads = ["row", dataset.target]
    extra = found.probabilities
    if dataset.classes:
        heads += [f"p({name})" for name in dataset.classes]
    else:
        heads += ["low", "high"]
        extra = found.low[:, None].repeat(2, axis=1)
        extra[:, 1] = found.high
    rows = [
        [row, predicted, *map(float, more), why]
        for row, (predicted, more, why) in enumerate(zip(found.predicted, extra, found.outside, strict=True))
    ]
    return [*heads, "outside"], rows
