"""Regression fitted to all rows of a file that need not fit into memory: killed, it goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ridgeformer.algorithms import Centres
from ridgeformer.auditing.fitted import COVERED, REFUSED, FittedModel, NewPredictions, read_model
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.core.reading import explained
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets.columns import Column, code_like, quoted
from ridgeformer.datasets.on_disk import RowsOnDisk, rows_on_disk
from ridgeformer.datasets.tables import read_table
from ridgeformer.intervals import rows_needed, split_conformal
from ridgeformer.kernels import Gaussian, mean_square_length
from ridgeformer.solving import Status, solve
from ridgeformer.solving.centre_model import CentreModel
from ridgeformer.solving.checkpoint import digest_of
from ridgeformer.solving.normal_equations import Told
from ridgeformer.solving.selection import TEMPERATURES, choose_kernel

__all__ = ["FittedFile", "load_fitted"]

KIND = "coefficients on centres of a file"

TUNED_ROWS = 1000
"""Random rows on which temperature and ridge are chosen."""


@dataclass(frozen=True, eq=False)
class FittedFile:
    """Kernel ridge regression on centres, fitted to all rows of a table of numbers.

    Attributes:
        name, target: the file, and the column that is predicted.
        features: the other columns.
        mean, spread: what was subtracted from a column, and what it was divided by.
        least, most: the range of each column.
        model: kernel, centres and coefficients, for targets whose mean, `intercept`, was subtracted.
        left_out: leave-one-out residuals at sampled training rows.
    """

    name: str
    target: str
    features: tuple[str, ...]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    model: CentreModel
    intercept: float
    left_out: NDArray[np.float64]

    classes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        path: str | Path,
        target: str | int | None,
        folder: str | Path,
        *,
        drop: tuple[str, ...] = (),
        centres: Centres | None = None,
        budget: float = 600.0,
        memory: int | None = None,
        seed: int = 0,
        progress: Told | None = None,
    ) -> FittedFile:
        """Convert a .csv or .parquet file into rows on disk, choose temperature and ridge on 1,000 of them, fit all.

        The kernel is the Gaussian: no row, however far out, overflows it. The ridge is the variance of noise over that
        of the function and does not depend on the number of rows. Everything is kept in `folder`, and the same call
        goes on with it.

        Raises:
            InputError, DataFileError: as `rows_on_disk` and `solve` with a checkpoint.
        """
        path, folder = Path(path), Path(folder)
        passes = ("", "reading", "writing rows")

        def converted(stage: int, done: int, rows: int) -> None:
            if progress is not None:
                progress(f"{passes[stage]}, row {done:,}", done / rows if rows else 0.0, None)

        rows = rows_on_disk(path, target, folder=folder, drop=drop, progress=converted)
        intercept = float(np.mean(rows.y))
        kernel, ridge = _choose(rows, folder, seed)
        fit = solve(
            kernel, rows.X, rows.y - intercept, ridge,
            algorithm=centres or Centres(count="auto"),
            budget=budget, memory=memory, seed=seed, checkpoint=folder / "solve", progress=progress,
        )  # fmt: skip
        assert fit.left_out_sample is not None
        chosen = json.loads((folder / "notes.json").read_text())["target"]
        return cls(
            path.name, chosen, rows.features, rows.mean, rows.spread, rows.least, rows.most, CentreModel.of(fit),
            intercept, fit.left_out_sample[:, 0].numpy(),
        )  # fmt: skip

    @property
    def summary(self) -> str:
        """What was fitted, and how good it is, in two sentences."""
        model, rms = self.model, float(np.sqrt(np.mean(self.left_out**2)))
        return (
            f"Fitted {model.rows:,} rows with coefficients on {len(model.b):,} centres; the leave-one-out error at "
            f"{len(self.left_out):,} rows is {rms:.4g} in root mean square. {model.advice}"
        )

    def save(self, path: str | Path) -> Path:
        """Write the model: arrays as safetensors, everything else as JSON in their header."""
        from safetensors.torch import save_file

        path, model = Path(path), self.model
        assert isinstance(model.kernel, Gaussian)
        facts = {
            "name": self.name, "target": self.target, "features": list(self.features), "intercept": self.intercept,
            "temperature": model.kernel.temperature, "ridge": model.ridge, "rows": model.rows,
            "status": model.status.value, "advice": model.advice, "steps": model.steps,
        }  # fmt: skip
        arrays = {"Z": model.Z.contiguous(), "b": model.b.contiguous()}
        for name in ("mean", "spread", "least", "most", "left_out"):
            arrays[name] = torch.from_numpy(np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        head = {"kind": KIND, "facts": facts, "digest": digest_of(arrays, {"kind": KIND}, facts)}
        save_file(arrays, path, metadata={"ridgeformer": json.dumps(head)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> FittedFile:
        """Return a saved model.

        Raises:
            DataFileError: not such a file, damaged, or edited.
        """
        path = Path(path)
        head, arrays = read_model(path)
        with explained(path, *REFUSED):
            facts: dict[str, Any] = head["facts"]
            if head["digest"] != digest_of(arrays, {"kind": KIND}, facts):
                raise DataFileError(f"{path} is damaged or was edited, its digest is another: fit it again.")
            found: dict[str, Any] = {
                name: arrays[name].numpy() for name in ("mean", "spread", "least", "most", "left_out")
            }
            model = CentreModel(
                Gaussian(float(facts["temperature"])), arrays["Z"], arrays["b"], float(facts["ridge"]),
                int(facts["rows"]), Status(facts["status"]), str(facts["advice"]), int(facts["steps"]),
                arrays["left_out"].square().mean(0, keepdim=True).sqrt(),
            )  # fmt: skip
            return cls(
                str(facts["name"]), str(facts["target"]), tuple(map(str, facts["features"])), model=model,
                intercept=float(facts["intercept"]), **found,
            )  # fmt: skip

    def predict_table(self, path: str | Path) -> NewPredictions:
        """Predict every row of a .csv or .parquet table that has the columns of the training table.

        Raises:
            DataFileError: a file that cannot be read.
            InputError: a column is missing or holds something else; the message names it.
        """
        path = Path(path)
        with explained(path, "cannot be read"):
            table = read_table(path)
        if table.num_rows == 0:
            raise DataFileError(f"{path} names its columns and has no rows: at least one row is needed.")
        return self.predict(code_like(path.name, table, tuple(Column(name) for name in self.features)))

    def predict(self, X: NDArray[np.float64]) -> NewPredictions:
        """Predict rows of raw values; a missing value is the mean of its column.

        Intervals are predictions -+ the 95 % quantile of leave-one-out residuals at sampled training rows. That covers
        as often as it says where one row of many moves no prediction; it is not guaranteed.
        """
        scaled = np.nan_to_num((X - self.mean) / self.spread)
        values = self.model.predict(scaled) + self.intercept
        low = high = np.full(len(X), np.nan)
        if len(self.left_out) >= rows_needed(COVERED):
            interval = split_conformal(values, torch.from_numpy(self.left_out), COVERED)
            low, high = interval.low.numpy(), interval.high.numpy()
        with np.errstate(invalid="ignore"):
            beyond = (self.least > X) | (self.most < X)
        outside = tuple(
            f"{quoted([self.features[column] for column in np.flatnonzero(row)])} outside the training range"
            if row.any()
            else ""
            for row in beyond
        )
        none = np.empty((len(X), 0))
        return NewPredictions(tuple(values.tolist()), none, low, high, outside)


def load_fitted(path: str | Path) -> FittedModel | FittedFile:
    """Return the model in a file that `ridgeformer fit` wrote, of either kind.

    Raises:
        DataFileError: not such a file, damaged, or edited.
    """
    head, _ = read_model(path := Path(path))
    with explained(path, *REFUSED):
        kind = head.get("kind")
    return FittedFile.load(path) if kind == KIND else FittedModel.load(path)


def _choose(rows: RowsOnDisk, folder: Path, seed: int) -> tuple[Gaussian, float]:
    """Return kernel and ridge of least leave-one-out error on some rows; what was chosen once stays."""
    kept, source = folder / "choice.json", json.loads((folder / "notes.json").read_text())["source"]
    if kept.exists():
        with explained(kept, "is damaged", "delete it"):
            found = json.loads(kept.read_text())
            if found["source"] == source and found["seed"] == seed:
                return Gaussian(float(found["temperature"])), float(found["ridge"])
    n = len(rows.y)
    some = np.sort(numpy_generator(seed, "tuned rows").choice(n, min(n, TUNED_ROWS), replace=False))
    X, y = torch.from_numpy(rows.X[some].astype(np.float64)), torch.from_numpy(rows.y[some])
    if float(y.std(correction=0)) == 0:
        raise InputError("the target has one value only in a sample of rows: there is nothing to predict.")
    length = mean_square_length(X)
    chosen = choose_kernel(Gaussian, X, y - y.mean(), [length * one for one in TEMPERATURES])
    assert isinstance(chosen.kernel, Gaussian)
    facts = {"source": source, "seed": seed, "temperature": chosen.kernel.temperature, "ridge": chosen.ridge}
    kept.write_text(json.dumps(facts))
    return chosen.kernel, chosen.ridge
