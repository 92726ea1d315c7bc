"""Metrics that fit the task: recall and precision of every class, AUC and calibration; errors in the target's unit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ridgeformer.auditing.field import Field, Scored

__all__ = ["BINS", "ClassMetrics", "Metrics", "measure"]

BINS = 10
"""Intervals of the predicted probability by which calibration is measured."""


@dataclass(frozen=True)
class ClassMetrics:
    """One class: held-out rows, how many of them were found, and how many of those called it are right.

    `recall` and `precision` are None where there is nothing to divide by.
    """

    name: str
    rows: int
    found: int
    called: int

    @property
    def recall(self) -> float | None:
        """Fraction of its rows that were found."""
        return self.found / self.rows if self.rows else None

    @property
    def precision(self) -> float | None:
        """Fraction of the rows called it that are."""
        return self.found / self.called if self.called else None


@dataclass(frozen=True)
class Metrics:
    """How well one method does on the held-out rows; what does not fit the task is None.

    Attributes:
        accuracy, balanced_accuracy: Fraction of rows right, and the mean of the recalls.
        auc: Area under the ROC curve; with several classes, the mean over them of each against the rest.
        classes: Recall and precision.
        confusion: Rows of each class (first index) by the class called.
        calibration: (mean probability of the class called, fraction right, rows) in each bin that has rows.
        calibration_error: Mean distance between the two, by rows.
        r2, rmse, mae: Explained variance, root mean square and mean absolute error, the last two in the target's unit.
    """

    accuracy: float | None = None
    balanced_accuracy: float | None = None
    auc: float | None = None
    classes: tuple[ClassMetrics, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    calibration: tuple[tuple[float, float, int], ...] = ()
    calibration_error: float | None = None
    r2: float | None = None
    rmse: float | None = None
    mae: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return asdict(self)


def measure(field: Field, one: Scored, names: tuple[str, ...]) -> Metrics:
    """Measure one method of the field; `names` are those of the classes, empty for regression."""
    truth = field.truth
    if one.decided is None:
        error = one.outputs - truth
        spread = ((truth - truth.mean(0)) ** 2).mean(0)
        return Metrics(
            r2=float(1 - ((error**2).mean(0) / np.where(spread > 0, spread, 1.0)).mean()),
            rmse=float(np.sqrt((error**2).mean())),
            mae=float(np.abs(error).mean()),
        )
    count = len(names)
    confusion = np.zeros((count, count), dtype=np.int64)
    np.add.at(confusion, (truth, one.decided), 1)
    classes = tuple(
        ClassMetrics(name, int(confusion[code].sum()), int(confusion[code, code]), int(confusion[:, code].sum()))
        for code, name in enumerate(names)
    )
    recalls = [found for found in (cls.recall for cls in classes) if found is not None]
    called = one.outputs[np.arange(len(truth)), one.outputs.argmax(1)]
    right = one.outputs.argmax(1) == truth
    bins = np.minimum((called * BINS).astype(int), BINS - 1)
    calibration = tuple(
        (float(called[bins == b].mean()), float(right[bins == b].mean()), int((bins == b).sum()))
        for b in np.unique(bins)
    )
    return Metrics(
        accuracy=float((one.decided == truth).mean()),
        balanced_accuracy=float(np.mean(recalls)),
        auc=_auc(truth, one.outputs),
        classes=classes,
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        calibration=calibration,
        calibration_error=sum(abs(p - q) * rows for p, q, rows in calibration) / len(truth),
    )


def _auc(truth: Any, p: Any) -> float | None:
    from sklearn.metrics import roc_auc_score

    codes = [1] if p.shape[1] == 2 else range(p.shape[1])
    found = [
        float(roc_auc_score(truth == code, p[:, code])) for code in codes if 0 < (truth == code).sum() < len(truth)
    ]
    return float(np.mean(found)) if found else None
