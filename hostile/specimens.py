"""Intact files of every kind the library reads, how each is read, and what reading it must give."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ridgeformer as rf
from ridgeformer.algorithms import Algorithm, Chebyshev, ConjugateGradients, Richardson
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.datasets import Dataset
from ridgeformer.datasets.decoding import decode_idx
from ridgeformer.datasets.fetching import fetch_set
from ridgeformer.datasets.image_set import Arrays, ImageSet, RawFile, digest_of
from ridgeformer.kernels import DotProduct, Exponential, Gaussian, Kernel
from ridgeformer.studies import Store, StudyTask, TaskOutcome, TaskStatus

__all__ = ["Files", "Specimen", "specimens"]

Files = dict[str, bytes]
"""Content of every file, by its name in the folder."""


@dataclass(frozen=True)
class Specimen:
    """A kind of file.

    Attributes:
        name: What it is called in a report.
        files: The intact files.
        main: The one to be damaged most often.
        read: Reads the folder with the public API; what it returns can be compared with ==.
        command: Arguments of the command line that read it too, given the folder; empty if none does.
        sealed: Whether a checksum covers the content, so that any change of it must be noticed.
    """

    name: str
    files: Files
    main: str
    read: Callable[[Path], Any]
    command: Callable[[Path], list[str]] | None
    sealed: bool


def describe(data: Dataset) -> tuple[Any, ...]:
    """Return everything a dataset holds, to be compared; refuse one that breaks its own promises."""
    sound = (
        data.X.dtype == np.float64
        and data.X.ndim == 2
        and data.X.size > 0
        and bool(np.isfinite(data.X).all())
        and len(data.y) == data.n
        and len(data.features) == data.d
        and bool(np.isfinite(data.y).all())
        and (not data.classes or (data.y.min() >= 0 and data.y.max() < len(data.classes)))
    )
    if not sound:
        raise AssertionError(f"{data!r} is not a finite, consistent dataset")
    return data.X.shape, data.X.tobytes(), data.y.shape, data.y.tobytes(), data.task, data.classes


def table_specimen(name: str, content: bytes, sealed: bool, target: str | None = None) -> Specimen:
    """Return a data file of one's own."""
    file = f"data.{name.split()[0]}"

    def command(folder: Path) -> list[str]:
        chosen = [] if target is None else ["--target", target]
        return ["solve", str(folder / file), "--ridge", "1", *chosen]

    return Specimen(
        name, {file: content}, file, lambda folder: describe(rf.datasets.load(folder / file, target=target)),
        command, sealed,
    )  # fmt: skip


def _rows(outputs: str) -> tuple[np.ndarray, np.ndarray]:
    draw = numpy_generator(0, "hostile.files", outputs)
    X = draw.standard_normal((24, 3)).round(3)
    y = X[:, 0] + 0.1 * draw.standard_normal(24) if outputs == "numbers" else draw.integers(0, 3, 24)
    return X, y


def _csv(text: bool) -> bytes:
    X, y = _rows("classes" if text else "numbers")
    lines = ["a,b,c,y", *(f"{a},{b},{c},{['red', 'green', 'blue'][v] if text else v}" for (a, b, c), v in zip(X, y))]  # noqa: B905
    return "\n".join([*lines, ""]).encode()


def _npz(compressed: bool) -> bytes:
    X, y = _rows("numbers")
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, X=X, y=y)
    return file.getvalue()


def _npy() -> bytes:
    X, y = _rows("numbers")
    file = io.BytesIO()
    np.save(file, np.column_stack([X, y]))
    return file.getvalue()


def _parquet(text: bool) -> bytes:
    X, y = _rows("classes" if text else "numbers")
    target = pa.array(["red", "green", "blue"]).take(pa.array(y)) if text else pa.array(y)
    file = io.BytesIO()
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": target}), file)
    return file.getvalue()


IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@cache
def tiny_images() -> tuple[ImageSet, Arrays, Files]:
    """Return an image dataset of eighteen pictures: its specification, arrays and raw files."""
    draw = numpy_generator(0, "hostile.files", "images")
    x_train, x_test = (draw.integers(0, 256, (n, 4, 3), dtype=np.uint8) for n in (12, 6))
    arrays = Arrays(x_train, np.arange(12, dtype=np.uint8) % 3, x_test, np.arange(6, dtype=np.uint8) % 3)
    raw = {
        name: bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()
        for name, array in zip(IDX, arrays, strict=True)
    }
    files = tuple(RawFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in raw.items())
    spec = replace(
        rf.datasets.REGISTRY["mnist"], name="tiny", shape=(4, 3), counts=(12, 6), classes=("a", "b", "c"),
        files=files, digest=digest_of(arrays), decode=decode_idx,
    )  # fmt: skip
    return spec, arrays, raw


def _image_files() -> dict[str, tuple[Files, str]]:
    """Return copies of the image dataset, each with the path to fetch it from."""
    _, arrays, raw = tiny_images()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in raw.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    archive = io.BytesIO()
    np.savez(archive, **arrays._asdict())
    return {
        "idx folder": (raw, "."),
        "idx.gz folder": ({f"{name}.gz": gzip.compress(data) for name, data in raw.items()}, "."),
        "tgz of idx": ({"copy.tgz": packed.getvalue()}, "copy.tgz"),
        "npz of images": ({"copy.npz": archive.getvalue()}, "copy.npz"),
    }


def _fetched(source: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        spec = tiny_images()[0]
        with tempfile.TemporaryDirectory() as kept:
            fetch_set(spec, source=folder / source, cache_dir=kept)
            return describe(spec.load("train", kept)), describe(spec.load("test", kept))

    return read


def _cached() -> Specimen:
    spec, _, raw = tiny_images()
    with tempfile.TemporaryDirectory() as folder:
        for name, data in raw.items():
            (Path(folder) / name).write_bytes(data)
        path = fetch_set(spec, source=folder, cache_dir=Path(folder) / "kept")
        files = {f"datasets/{file.name}": file.read_bytes() for file in path.parent.iterdir() if file.is_file()}

    def read(folder: Path) -> Any:
        return describe(spec.load("train", folder)), describe(spec.load("test", folder))

    return Specimen("cached dataset", files, "datasets/tiny.npz", read, None, sealed=True)


def _model(name: str, kernel: Kernel, algorithm: Algorithm, **options: Any) -> Specimen:
    with tempfile.TemporaryDirectory() as folder:
        rf.compile(kernel, algorithm, features=3, ridge=0.3, **options).save(folder)
        files = {file.name: file.read_bytes() for file in Path(folder).iterdir()}

    def read(folder: Path) -> Any:
        model = rf.load_model(folder)
        weights = {key: (tuple(w.shape), w.numpy().tobytes()) for key, w in model.state_dict().items()}
        return model.spec.as_dict(), weights

    return Specimen(
        f"{name} model", files, "model.safetensors", read, lambda folder: ["explain", str(folder)], sealed=True
    )


def _store() -> Specimen:
    with tempfile.TemporaryDirectory() as folder:
        with Store(Path(folder) / "store.db") as store:
            for x in range(12):
                task = StudyTask("overhead", 1, "ridgeformer.studies.registry:nothing", {"x": x}, seed=0)
                store.claim(task.key)
                store.record(task, TaskOutcome(TaskStatus.DONE, json.dumps([{"value": x / 7}]), seconds=0.5))
        with sqlite3.connect(Path(folder) / "store.db") as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        content = (Path(folder) / "store.db").read_bytes()

    def read(folder: Path) -> Any:
        with Store(folder / "store.db", write=False) as kept:
            return [vars(row) for row in kept.results("overhead")], kept.statuses("overhead"), kept.census("overhead")

    def command(folder: Path) -> list[str]:
        return ["studies", "show", "overhead", "--store", str(folder / "store.db")]

    return Specimen("study store", {"store.db": content}, "store.db", read, command, sealed=True)


@cache
def specimens() -> tuple[Specimen, ...]:
    """Return every kind, made once in a process."""
    images = [
        Specimen(name, files, next(iter(files)), _fetched(source), None, sealed=True)
        for name, (files, source) in _image_files().items()
    ]
    return (
        table_specimen("csv of numbers", _csv(text=False), sealed=False),
        table_specimen("csv of text", _csv(text=True), sealed=False),
        table_specimen("npz stored", _npz(compressed=False), sealed=True),
        table_specimen("npz compressed", _npz(compressed=True), sealed=True),
        table_specimen("npy matrix", _npy(), sealed=False),
        table_specimen("parquet of numbers", _parquet(text=False), sealed=False),
        table_specimen("parquet of text", _parquet(text=True), sealed=False, target="y"),
        *images,
        _cached(),
        _model("softmax", Exponential(1.0), ConjugateGradients(steps=3), outputs=2),
        _model("gaussian vanilla", Gaussian(1.0), Richardson(steps=3), attention="vanilla"),
        _model("relu", DotProduct(), ConjugateGradients(steps=3), primitives="relu", relu_knots=8),
        _model("chebyshev", DotProduct(), Chebyshev(steps=3, spectrum=(0.3, 9.0))),
        _store(),
    )
