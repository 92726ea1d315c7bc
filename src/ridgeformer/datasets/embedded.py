"""Datasets that come with scikit-learn: nothing to fetch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ridgeformer.core.errors import InputError
from ridgeformer.datasets.dataset import Dataset, Info, Task

__all__ = ["DIABETES", "DIGITS", "WINE", "Embedded"]

_SOURCE = "scikit-learn's own copy"


@dataclass(frozen=True)
class Embedded:
    """A dataset that is installed with scikit-learn and has no official split.

    Its one part is called "train" and holds every row; `Dataset.split` makes a test part.
    """

    name: str
    read: Callable[[], Dataset]
    n: int
    d: int
    task: Task
    classes: tuple[str, ...]
    licence: str
    citation: str
    description: str

    def info(self, cache_dir: str | Path | None = None) -> Info:
        """Return the record to show; there is no cache, so `cache_dir` is not used."""
        return Info(
            name=self.name,
            n=(self.n,),
            d=self.d,
            task=self.task,
            classes=self.classes,
            parts=("train",),
            origin=_SOURCE,
            fetched=True,
            licence=self.licence,
            citation=self.citation,
            description=self.description,
        )

    def load(self, part: str = "train", cache_dir: str | Path | None = None, limit: int | None = None) -> Dataset:
        """Return every row, or `limit` of them with the classes in proportion.

        Raises:
            InputError: a part other than "train".
        """
        if part != "train":
            raise InputError(
                f"{self.name} has no official {part!r} part: load it whole and call "
                "split(test_fraction=0.2, seed=0) on it."
            )
        dataset = self.read()
        return dataset if limit is None or limit >= dataset.n else dataset.sample(limit, seed=0)


def _read_digits() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Dataset(
        name="digits",
        X=np.asarray(bunch.data, dtype=np.float64) / 16.0,
        y=np.asarray(bunch.target, dtype=np.int64),
        task="classification",
        classes=DIGITS.classes,
        features=tuple(bunch.feature_names),
        image_shape=(8, 8),
        source=f"{_SOURCE}, pixels / 16",
        description=DIGITS.description,
    )


def _read_diabetes() -> Dataset:
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)  # the scaled copy has statistics of all rows in every row
    return Dataset(
        name="diabetes",
        X=np.asarray(bunch.data, dtype=np.float64),
        y=np.asarray(bunch.target, dtype=np.float64),
        features=tuple(bunch.feature_names),
        source=f"{_SOURCE}, in the original units",
        description=DIABETES.description,
    )


def _read_wine() -> Dataset:
    from sklearn.datasets import load_wine

    bunch = load_wine()
    return Dataset(
        name="wine",
        X=np.asarray(bunch.data, dtype=np.float64),
        y=np.asarray(bunch.target, dtype=np.int64),
        task="classification",
        classes=WINE.classes,
        features=tuple(bunch.feature_names),
        source=f"{_SOURCE}, in the original units",
        description=WINE.description,
    )


DIGITS = Embedded(
    name="digits",
    read=_read_digits,
    n=1797,
    d=64,
    task="classification",
    classes=tuple("0123456789"),
    licence="CC BY 4.0 (UCI Machine Learning Repository)",
    citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.",
    description="Handwritten digits of 8 x 8 pixels, in [0, 1].",
)

DIABETES = Embedded(
    name="diabetes",
    read=_read_diabetes,
    n=442,
    d=10,
    task="regression",
    classes=(),
    licence="none stated",
    citation="B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least Angle Regression, Annals of Statistics, 2004.",
    description="Disease progression after a year from age, sex, body mass, blood pressure and six serum values.",
)

WINE = Embedded(
    name="wine",
    read=_read_wine,
    n=178,
    d=13,
    task="classification",
    classes=("class_0", "class_1", "class_2"),
    licence="CC BY 4.0 (UCI Machine Learning Repository)",
    citation="S. Aeberhard and M. Forina, Wine, UCI, 1992.",
    description="Three cultivars of wine from thirteen chemical measurements.",
)
