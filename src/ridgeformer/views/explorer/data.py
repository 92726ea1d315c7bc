"""From a state to a regression: toy functions, drawn points, datasets, and files that were uploaded."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from math import pi, sqrt
from pathlib import Path, PurePosixPath
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.words import count
from ridgeformer.datasets import Dataset, Split, load_file
from ridgeformer.views.explorer.state import DRAWN, State

__all__ = ["FUNCTIONS", "MOST_BYTES", "MOST_COLUMNS", "MOST_RECORDS", "Regression", "load_regression", "receive"]

Array = NDArray[np.float64]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sine": lambda x: np.sin(2 * pi * x),
    "steps": lambda x: np.sign(np.sin(3 * x)),
    "bumps": lambda x: np.exp(-((x + 0.5) ** 2) / 0.02) - np.exp(-((x - 0.4) ** 2) / 0.08),
    "line": lambda x: 0.8 * x,
}
"""Toy functions on [-1, 1]; noise is added to their values."""

NOISE = 0.1
GRID = 121  # queries of one-dimensional data: the curve
MARGIN = 0.05  # the curve extends beyond the outermost points by this fraction of their range
HELD_OUT = 50  # queries of other data, at most
MOST_BYTES = 5 * 1024 * 1024
MOST_UNPACKED = 64 * 1024 * 1024
MOST_RECORDS, MOST_COLUMNS = 50_000, 200
ENDINGS = (".csv", ".npz")
MOST_KEPT = 8  # uploads kept in memory; the oldest is dropped first
_kept: OrderedDict[str, Dataset] = OrderedDict()
_lock = Lock()

HARMONICS = 4
FEWEST = 2


@dataclass(frozen=True, eq=False)
class Regression:
    """One regression with one output.

    Attributes:
        X, y, Xq: Training rows, centred targets, and queries.
        mean: Mean of the targets, added to every prediction that is shown.
        truth: Targets of the queries, not centred, or None where they are unknown.
        x, grid: Positions of the points and of the queries on the line; None if the data are not one-dimensional.
        outputs: Names of the targets to choose from.
        labels: One for each training point.
        notes: What was done to the data, in sentences.
        image_shape: Shape of a row that is an image, else None.
    """

    name: str
    X: Tensor
    y: Tensor
    Xq: Tensor
    mean: float
    truth: Array | None
    x: Array | None
    grid: Array | None
    outputs: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    image_shape: tuple[int, ...] | None = None

    @property
    def line(self) -> bool:
        """Whether the data are one-dimensional."""
        return self.x is not None

    @property
    def targets(self) -> Array:
        """Targets of the training points as given."""
        return np.asarray(self.y.numpy() + self.mean)


def load_regression(state: State) -> Regression:
    """Return the regression of a state; too few points, or an upload no longer in memory, are refused."""
    return _load(state.data, state.rows, state.output, state.points)


@lru_cache(maxsize=16)
def _load(data: str, rows: int, output: int, points: tuple[tuple[float, float], ...]) -> Regression:
    if data in FUNCTIONS:
        function, generator = FUNCTIONS[data], numpy_generator(0, "explorer", data)
        x = generator.uniform(-1, 1, rows)
        y = function(x) + NOISE * numpy_generator(0, "explorer", data, "noise").standard_normal(rows)
        return _on_a_line(f"{data}, {rows} points", x, y, (-1.0, 1.0), function)
    if data == DRAWN:
        drawn = np.array(points, dtype=np.float64).reshape(-1, 2)
        span = max(1.0, float(np.abs(drawn[:, 0]).max(initial=0)))
        return _on_a_line(f"{len(drawn)} drawn points", drawn[:, 0], drawn[:, 1], (-span, span))
    dataset = datasets.load(data) if data in datasets.REGISTRY else find_upload(data)
    if dataset.d == 1 and dataset.task == "regression" and dataset.outputs == 1:
        few = dataset.sample(rows, seed=0) if dataset.n > rows else dataset
        x = few.X[:, 0]
        if np.isnan(x).any():
            raise InputError(f"the only feature of {dataset.name} has missing values: fill them in or drop those rows.")
        if x.min() == x.max():
            raise InputError(f"the only feature of {dataset.name} is constant, so nothing can be learnt from it.")
        task = _on_a_line(few.name, x, few.targets()[:, 0], (float(x.min()), float(x.max())))
        sampled = f"{rows} of {dataset.n:,} rows were drawn at random."
        return task if few is dataset else replace(task, notes=(sampled, *task.notes))
    return _rows(dataset, rows, output)


def lift(x: Array, harmonics: int = HARMONICS) -> Tensor:
    """Return the features of positions in [-1, 1]: unit rows whose products are a Fejer kernel of the distance.

    A transformer's kernel is made of inner products, which one raw number serves badly. Sines and cosines up to a
    quarter of a turn times `harmonics`, weighted so that x'z >= 0 falls with distance, serve it well.

    Example:
        >>> phi = lift(np.array([-0.3, 0.0, 0.8]))
        >>> phi.shape, torch.allclose(phi.square().sum(1), torch.ones(3, dtype=torch.float64))
        (torch.Size([3, 9]), True)
    """
    angle = torch.from_numpy(np.asarray(x, dtype=np.float64)) * (pi / 2)
    top = harmonics + 1
    columns = [torch.full_like(angle, sqrt(1 / top))]
    for j in range(1, top):
        weight = sqrt(2 * (top - j)) / top
        columns += [weight * torch.cos(j * angle), weight * torch.sin(j * angle)]
    return torch.stack(columns, dim=1)


def _on_a_line(
    name: str, x: Array, y: Array, ends: tuple[float, float], function: Callable[[Array], Array] | None = None
) -> Regression:
    if len(x) < FEWEST:
        raise InputError(f"{count(len(x), 'point')} cannot be fitted; draw at least {FEWEST}.")
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    low, high = ends
    centre, half = (low + high) / 2, (high - low) / 2
    grid = np.linspace(low - MARGIN * (high - low), high + MARGIN * (high - low), GRID)
    mean = float(y.mean())
    return Regression(
        name=name,
        X=lift((x - centre) / half),
        y=torch.from_numpy(y - mean),
        Xq=lift((grid - centre) / half),
        mean=mean,
        truth=None if function is None else function(grid),
        x=x,
        grid=grid,
        outputs=("y",),
        labels=tuple(f"point {i} at x = {value:.3g}" for i, value in enumerate(x)),
        notes=(f"A position x is given to the transformer as {2 * HARMONICS + 1} sines and cosines of unit length.",),
    )


def _rows(dataset: Dataset, rows: int, output: int) -> Regression:
    held_out = max(1, min(HELD_OUT, round(0.3 * dataset.n)))
    total = min(dataset.n, rows + held_out)
    split = Split.of(dataset, max_rows=total, test_fraction=held_out / total)
    names = dataset.classes or tuple(f"output {j}" for j in range(dataset.outputs))
    if output >= len(names):
        raise InputError(f"{dataset.name} has no output {output}: it has {len(names)}, counted from 0.")
    kind = f"class {names[output]} against the rest, +1 or -1" if dataset.classes else names[output]
    labels = [f"training row {i}" for i in range(len(split.X))]
    if split.labels is not None:
        labels = [f"{label} ({names[int(code)]})" for label, code in zip(labels, split.labels, strict=True)]
    return Regression(
        name=dataset.name,
        X=split.X,
        y=split.y[:, output],
        Xq=split.Xt,
        mean=float(split.mean[output]),
        truth=(split.yt[:, output] + split.mean[output]).numpy(),
        x=None,
        grid=None,
        outputs=names,
        labels=tuple(labels),
        notes=(*split.notes, f"What is predicted: {kind}."),
        image_shape=dataset.image_shape,
    )


# -- uploads ----------------------------------------------------------------------------------------


def receive(name: str, contents: str, target: str | None = None) -> str:
    """Read an upload, keep it in memory and return its name, "upload-" and a digest.

    The file's name decides how it is read; `contents` is a browser's data URL, "data:...;base64,...". Without a target,
    the reader's default is predicted. Pickles are never opened.
    """
    if Path(name).suffix.lower() not in ENDINGS:
        raise DataFileError(f"{name} ends in {Path(name).suffix or 'nothing'}; {' or '.join(ENDINGS)} was expected.")
    _, _, text = contents.partition(",")
    if len(text) > MOST_BYTES * 4 // 3 + 4:
        raise DataFileError(f"{name} has more than {MOST_BYTES // 1024**2} MB, the most that is accepted here.")
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise DataFileError(f"{name} did not arrive whole: upload it again.") from None
    dataset = _read(PurePosixPath(name.replace("\\", "/")).name, raw, target or None)
    if dataset.n > MOST_RECORDS or dataset.d > MOST_COLUMNS:
        raise InputError(
            f"{name} has {dataset.n:,} rows and {dataset.d:,} features; at most {MOST_RECORDS:,} and {MOST_COLUMNS:,} "
            "are accepted here: use `ridgeformer audit` for more."
        )
    key = "upload-" + hashlib.sha256(raw + (target or "").encode()).hexdigest()[:16]
    with _lock:
        _kept[key] = dataset
        _kept.move_to_end(key)
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return key


def find_upload(key: str) -> Dataset:
    """Return a dataset that was uploaded; it is gone after a restart, or after other uploads."""
    with _lock:
        if key not in _kept:
            raise InputError(
                "the uploaded file behind this link is no longer in memory (files are not stored): upload it again."
            )
        return _kept[key]


def _read(name: str, raw: bytes, target: str | None) -> Dataset:
    unpacked = 0
    if name.lower().endswith(".npz"):
        with suppress(zipfile.BadZipFile):  # the reader reports it better
            unpacked = sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(raw)).infolist())
    if unpacked > MOST_UNPACKED:
        raise DataFileError(
            f"{name} unpacks to {unpacked / 1024**2:,.0f} MB; at most {MOST_UNPACKED // 1024**2} MB are accepted here."
        )
    with tempfile.TemporaryDirectory(prefix="ridgeformer-") as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        try:
            return load_file(path, target=target)
        except (DataFileError, InputError) as error:  # without the temporary folder
            raise type(error)(str(error).replace(f"{folder}/", "")) from None
