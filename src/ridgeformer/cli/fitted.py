"""`ridgeformer fit` and `ridgeformer predict`: a model to keep, and its answers for a new table."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    from ridgeformer.auditing.fitted import FittedModel, NewPredictions
    from ridgeformer.auditing.fitted_file import FittedFile

__all__ = ["fit", "predict"]

LARGE = 2**30
"""Bytes above which a table is not read into memory."""


def fit(
    data: ui.Data,
    model: Annotated[Path, typer.Option("--out", help="The file to write, such as model.safetensors.")],
    target: ui.Target = None,
    task: ui.Task = None,
    drop: ui.Drop = None,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: Annotated[int, typer.Option(help="Largest number of rows to fit; more are sampled.", min=10)] = 2000,
    centres: Annotated[
        str | None,
        typer.Option(help="Fit all rows of a table on disk with this many centres, or auto: doubled while that pays."),
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds for doubling the centres of a table on disk.", min=1)] = 600,
    work: Annotated[Path | None, typer.Option(help="Where a table on disk keeps what is done; OUT.work.")] = None,
    seed: ui.Seed = 0,
    json: ui.Json = False,
) -> None:
    """Fit regression with the kernel of attention and save it, without pickles.

    A .csv or .parquet table above 1 GiB, or any with --centres, is fitted with all its rows, in bounded memory. Stopped
    or killed, the same command goes on where it was.

    Example: ridgeformer fit wine --out wine.safetensors
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.auditing import Settings
        from ridgeformer.auditing.fitted import FittedModel
        from ridgeformer.views.page import require_place

    require_place(model)
    table = Path(data).suffix.lower() in (".csv", ".parquet")
    if centres is not None and not table:
        raise InputError(f"--centres is for .csv and .parquet files, and {data!r} is none: leave it out.")
    if table and (centres is not None or Path(data).stat().st_size > LARGE):
        if task == "classification":
            raise InputError("a table on disk is fitted by regression: code the classes as numbers, or use fewer rows.")
        _fit_file(Path(data), model, target, ui.split_names(drop), centres, budget, work, seed, json)
        return
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


def _fit_file(
    path: Path,
    model: Path,
    target: str | None,
    drop: tuple[str, ...],
    centres: str | None,
    budget: float,
    work: Path | None,
    seed: int,
    json: bool,
) -> None:
    with importing():
        from ridgeformer.algorithms import Centres
        from ridgeformer.auditing.fitted_file import FittedFile

    folder = Path(f"{model}.work") if work is None else work
    count = ui.centre_count(centres or "auto")
    try:
        with ui.progress_bar(json) as progress:
            fitted = FittedFile.of(
                path, target, folder, drop=drop, centres=Centres(count=count), budget=budget, seed=seed,
                progress=ui.with_time_left(progress),
            )  # fmt: skip
    except KeyboardInterrupt:
        print(f"what was done is in {folder}; the same command goes on with it.", file=sys.stderr)
        raise
    fitted.save(model)
    if work is None:
        shutil.rmtree(folder)
    if json:
        found = fitted.model
        ui.print_json(
            {
                "model": str(model),
                "rows": found.rows,
                "centres": len(found.b),
                "status": found.status.value,
                "left_out_error": float(found.left_out[0]),
                "advice": found.advice,
            }
        )
        return
    ui.out().print(fitted.summary, markup=False)
    ui.out().print(f"Written to {model}. Use it: ridgeformer predict {model} NEW.csv", markup=False, soft_wrap=True)


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
        from ridgeformer.auditing.fitted_file import load_fitted

    fitted = load_fitted(model)
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


def _rows(fitted: FittedModel | FittedFile, found: NewPredictions) -> tuple[list[str], list[list[Any]]]:
    heads = ["row", fitted.target]
    extra = found.probabilities
    if fitted.classes:
        heads += [f"p({name})" for name in fitted.classes]
    else:
        heads += ["low", "high"]
        extra = found.low[:, None].repeat(2, axis=1)
        extra[:, 1] = found.high
    rows = [
        [row, predicted, *map(float, more), why]
        for row, (predicted, more, why) in enumerate(zip(found.predicted, extra, found.outside, strict=True))
    ]
    return [*heads, "outside"], rows
