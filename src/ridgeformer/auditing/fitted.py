"""A fitted model to keep: saved as numbers and JSON, never as code, and used on new tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.field import OWN, run_field
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.core.reading import explained, open_regular
from ridgeformer.datasets import Dataset, Split
from ridgeformer.datasets.columns import Column, code_like, quoted
from ridgeformer.datasets.encoding import choose_preprocessing
from ridgeformer.datasets.tables import read_table
from ridgeformer.intervals import rows_needed
from ridgeformer.kernels import Exponential
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.tuning import class_odds, probabilities

__all__ = ["FittedModel", "NewPredictions"]

FORMAT = 1
SAME = 1e-6
"""Relative difference between saved and recomputed coefficients above which a file is refused."""

COVERED = 0.95

REFUSED = "is no model that `ridgeformer fit` wrote", "fit it again"


def read_model(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON and the arrays of a saved model.

    Raises:
        DataFileError: the file cannot be read, or is none of safetensors with such JSON.
    """
    from safetensors import safe_open

    with open_regular(path):
        pass
    with explained(path, *REFUSED), safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["ridgeformer"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- it is no mapping


@dataclass(frozen=True, eq=False)
class NewPredictions:
    """What a model says about new rows.

    Attributes:
        predicted: A class name or a number for each row.
        probabilities: One column a class; empty for regression.
        low, high: For regression, the 95 % jackknife+ interval, scaling, temperature and ridge held as they were
            chosen; from fewer than 19 rows there is none, and for classes neither. `FittedFile.predict` has its own.
        outside: For every row, why it lies outside the training range; empty where it does not.
    """

    predicted: tuple[str | float, ...]
    probabilities: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    outside: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Kernel ridge regression with the kernel of attention, fitted to all rows of a dataset.

    Attributes:
        split: All rows, encoded; none held out.
        fit: The direct solution.
        preprocessing: How the rows were scaled.
        balanced: Whether decisions count imbalanced classes alike.
    """

    split: Split
    fit: Fit
    preprocessing: str
    balanced: bool

    @classmethod
    def of(cls, dataset: Dataset, settings: Settings | None = None) -> FittedModel:
        """Choose temperature and ridge as an audit does, and fit all rows, up to `settings.max_rows`.

        Raises:
            InputError: several regression targets, or data that cannot be fitted.

        Example:
            >>> from ridgeformer.datasets import load
            >>> model = FittedModel.of(load("wine"))
            >>> model.fit.converged
            True
        """
        settings = settings or Settings()
        if dataset.task == "regression" and dataset.outputs > 1:
            raise InputError(f"{dataset.name} has {dataset.outputs} targets: a saved model predicts one.")
        way = choose_preprocessing(dataset, settings.preprocessing)
        split = Split.of(dataset, test_fraction=0.0, max_rows=settings.max_rows, preprocessing=way, seed=settings.seed)
        field, certified = run_field([split], Settings(**{**vars(settings), "methods": (OWN,)}))
        return cls(split, certified.fit, way, field.balanced)

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.split.dataset.target

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes; empty for regression."""
        return self.split.dataset.classes

    def save(self, path: str | Path) -> Path:
        """Write the model: arrays as safetensors, everything else as JSON in their header."""
        from safetensors.torch import save_file

        path, dataset, kernel = Path(path), self.split.dataset, self.fit.kernel
        assert isinstance(kernel, Exponential)
        rows = self.split.rows
        facts = {
            "format": FORMAT, "name": dataset.name, "task": dataset.task, "classes": dataset.classes,
            "target": dataset.target, "columns": [vars(column) for column in _columns(dataset)],
            "table": bool(dataset.columns), "preprocessing": self.preprocessing, "balanced": self.balanced,
            "temperature": kernel.temperature, "log_scale": kernel.log_scale, "ridge": self.fit.ridge,
        }  # fmt: skip
        arrays = {
            "X": torch.from_numpy(np.ascontiguousarray(dataset.X[rows])),
            "y": torch.from_numpy(np.ascontiguousarray(dataset.y[rows])),
            "alpha": self.fit.alpha.contiguous(),
        }
        save_file(arrays, path, metadata={"ridgeformer": json.dumps(facts)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> FittedModel:
        """Return a saved model; its coefficients are recomputed from its rows and must agree with those saved.

        Raises:
            DataFileError: not such a file, damaged, or changed.
        """
        path = Path(path)
        facts, arrays = read_model(path)
        with explained(path, *REFUSED):
            if facts["format"] != FORMAT:
                raise DataFileError(f"{path} has format {facts['format']}; {FORMAT} was expected: fit it again.")
            columns = tuple(
                Column(str(one["name"]), one["kind"], tuple(map(str, one["levels"]))) for one in facts["columns"]
            )
            dataset = Dataset(
                str(facts["name"]), arrays["X"].numpy(), arrays["y"].numpy(), facts["task"],
                tuple(map(str, facts["classes"])), tuple(column.name for column in columns),
                columns=columns if facts["table"] else (), target=str(facts["target"]),
            )  # fmt: skip
            split = Split.of(dataset, test_fraction=0.0, max_rows=dataset.n, preprocessing=str(facts["preprocessing"]))
            kernel = Exponential(float(facts["temperature"]), log_scale=float(facts["log_scale"]))
            fit = solve(kernel, split.X, split.y, float(facts["ridge"]), algorithm="direct")
            apart = float((fit.alpha - arrays["alpha"]).norm() / fit.alpha.norm().clamp_min(1e-300))
        if not apart <= SAME:
            raise DataFileError(f"{path} is damaged: its coefficients are not those of its rows; fit it again.")
        return cls(split, fit, str(facts["preprocessing"]), bool(facts["balanced"]))

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
        return self.predict(code_like(path.name, table, _columns(self.split.dataset)))

    def predict(self, X: NDArray[np.float64]) -> NewPredictions:
        """Predict rows coded like those of the training table."""
        split, dataset = self.split, self.split.dataset
        rows = torch.from_numpy(np.ascontiguousarray(split.encoder.transform(X)))
        outputs = (self.fit.predict(rows).nan_to_num(nan=0.0) + split.mean).numpy()
        far = self.fit.extrapolates(rows).tolist()
        train = dataset.X[split.rows]
        reasons: list[list[str]] = [["far from every training row"] if one else [] for one in far]
        for j, column in enumerate(_columns(dataset)):
            for row in range(len(X)):
                value = X[row, j]
                if column.kind == "category":
                    if value >= len(column.levels):
                        reasons[row].append(f"{quoted([column.name])} has a value never seen")
                elif value < np.nanmin(train[:, j]) or value > np.nanmax(train[:, j]):
                    reasons[row].append(f"{quoted([column.name])} is outside its training range")
        outside = tuple("; ".join(found) for found in reasons)
        none = np.empty((len(X), 0))
        if dataset.classes:
            p = probabilities(outputs)
            odds = class_odds(split) if self.balanced else np.ones(p.shape[1])
            names = tuple(dataset.classes[int(code)] for code in (p * odds).argmax(1))
            return NewPredictions(names, p, none, none, outside)
        low = high = np.full(len(X), np.nan)
        if len(self.fit.X) >= rows_needed(COVERED):
            interval = self.fit.interval(rows, COVERED)
            low, high = (
                (end.reshape(len(X)) + split.mean.reshape(())).numpy() for end in (interval.low, interval.high)
            )
        return NewPredictions(tuple(outputs[:, 0].tolist()), none, low, high, outside)


def _columns(dataset: Dataset) -> tuple[Column, ...]:
    return dataset.columns or tuple(Column(name) for name in dataset.features)
