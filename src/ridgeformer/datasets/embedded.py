"""Datasets that come with scikit-learn: nothing to fetch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from ridgeformer.core.errors import InputError
from ridgeformer.datasets.dataset import Dataset, Info, Task

__all__ = ["DIABETES", "DIGITS", "WINE", "Embedded"]

SOURCE = "scikit-learn's own copy"


@dataclass(frozen=True)
class Embedded:
    """A dataset that is installed with scikit-learn and has no official split.

    Its one part is called "train" and holds every row; `Dataset.split` makes a test part.

    Attributes:
        name: What `load` takes; scikit-learn reads it with the function of that name behind `load_`.
        n, d: Its size.
        task: Classification or regression.
        classes: Label of each class code.
        licence, citation, description: For `Info`.
        scale: What the features are divided by.
        units: The units of the features, in words.
        options: Of scikit-learn's function.
        image_shape: Shape of a row that is an image.
    """

    name: str
    n: int
    d: int
    task: Task
    classes: tuple[str, ...]
    licence: str
    citation: str
    description: str
    scale: float = 1.0
    units: str = "in the original units"
    options: tuple[tuple[str, bool], ...] = ()
    image_shape: tuple[int, ...] | None = None

    def info(self, cache_dir: str | Path | None = None) -> Info:
        """Return the record to show; there is no cache, so `cache_dir` is not used."""
        facts = {name: getattr(self, name) for name in ("name", "d", "task", "classes", "licence", "citation")}
        return Info(**facts, n=(self.n,), parts=("train",), origin=SOURCE, fetched=True, description=self.description)

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
        bunch = getattr(import_module("sklearn.datasets"), f"load_{self.name}")(**dict(self.options))
        dataset = Dataset(
            name=self.name,
            X=np.asarray(bunch.data, dtype=np.float64) / self.scale,
            y=np.asarray(bunch.target, dtype=np.int64 if self.classes else np.float64),
            task=self.task,
            classes=self.classes,
            features=tuple(bunch.feature_names),
            image_shape=self.image_shape,
            source=f"{SOURCE}, {self.units}",
            description=self.description,
        )
        return dataset if limit is None or limit >= dataset.n else dataset.sample(limit, seed=0)


DIGITS = Embedded(
    name="digits",
    n=1797,
    d=64,
    task="classification",
    classes=tuple("0123456789"),
    licence="CC BY 4.0 (UCI Machine Learning Repository)",
    citation="E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.",
    description="Handwritten digits of 8 x 8 pixels, in [0, 1].",
    scale=16.0,
    units="pixels / 16",
    image_shape=(8, 8),
)

DIABETES = Embedded(
    name="diabetes",
    n=442,
    d=10,
    task="regression",
    classes=(),
    licence="none stated",
    citation="B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least Angle Regression, Annals of Statistics, 2004.",
    description="Disease progression after a year from age, sex, body mass, blood pressure and six serum values.",
    options=(("scaled", False),),  # the scaled copy has statistics of all rows in every row
)

WINE = Embedded(
    name="wine",
    n=178,
    d=13,
    task="classification",
    classes=("class_0", "class_1", "class_2"),
    licence="CC BY 4.0 (UCI Machine Learning Repository)",
    citation="S. Aeberhard and M. Forina, Wine, UCI, 1992.",
    description="Three cultivars of wine from thirteen chemical measurements.",
)
