"""Tiny copies of everything that is large or far away; no test here can reach a network or a real client."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ridgeformer.datasets.decoding import decode_idx, decode_strips
from ridgeformer.datasets.image_set import Arrays, ImageSet, RawFile, digest_of


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, an empty PATH, no OpenML."""

    def no_network(*args: object, **kwargs: object) -> None:
        raise OSError("no network in tests")

    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("RIDGEFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    monkeypatch.setattr("ridgeformer.datasets.fetching.ROOT", tmp_path / "root")
    return empty


@pytest.fixture
def stub(nowhere: Path) -> Callable[[str, str], None]:
    """Put a shell script on PATH under the given name."""

    def put(name: str, script: str) -> None:
        path = nowhere / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return put


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def strip_bytes(images: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(images.reshape(len(images), -1, 3)).save(file, format="PNG")
    return file.getvalue()


def arrays(shape: tuple[int, ...], counts: tuple[int, int], classes: int) -> Arrays:
    draw = np.random.default_rng(7)

    def images(n: int) -> np.ndarray:
        return draw.integers(0, 256, size=(n, *shape), dtype=np.uint8)

    def labels(n: int) -> np.ndarray:
        return (np.arange(n) % classes).astype(np.uint8)

    return Arrays(images(counts[0]), labels(counts[0]), images(counts[1]), labels(counts[1]))


def raw_file(name: str, data: bytes) -> RawFile:
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    return RawFile(name, len(data), hashlib.sha256(data).hexdigest(), md5)


class Tiny:
    """A dataset of a few images: its specification, its arrays and its raw files."""

    def __init__(self, spec: ImageSet, arrays: Arrays, raw: Mapping[str, bytes]) -> None:
        digest, files = digest_of(arrays), tuple(raw_file(name, data) for name, data in raw.items())
        self.spec, self.arrays, self.raw = replace(spec, digest=digest, files=files), arrays, dict(raw)

    def tgz(self, path: Path, folder: str = "package/data", **changed: bytes) -> Path:
        """Write an archive of the raw files; `changed` replaces some of them."""
        return write_tgz(path, {f"{folder}/{name}": data for name, data in (self.raw | changed).items()})


def write_tgz(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def _spec(name: str, shape: tuple[int, ...], counts: tuple[int, int], decode: Callable[..., Arrays]) -> ImageSet:
    return ImageSet(
        name=name,
        shape=shape,
        counts=counts,
        classes=("a", "b", "c"),
        files=(),
        folders=("package/data", "usr/share/datasets/tiny"),
        decode=decode,
        digest="",
        sources={"npm": "tiny-data@1.0.0", "debian": "dataset-tiny", "openml": "tiny_12"},
        licence="none",
        citation="nobody",
        description="Noise.",
    )


@pytest.fixture
def tiny() -> Tiny:
    """Grey images in idx files, as MNIST has them."""
    spec = _spec("tiny", (4, 3), (12, 6), decode_idx)
    data = arrays(spec.shape, spec.counts, 3)
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    return Tiny(spec, data, {name: idx_bytes(array) for name, array in zip(names, data, strict=True)})


@pytest.fixture
def colour() -> Tiny:
    """Colour images in PNG strips, as the CIFAR-10 package has them."""
    spec = _spec("colour", (4, 2, 3), (12, 6), decode_strips)
    data = arrays(spec.shape, spec.counts, 3)
    raw = {
        "data_batch_1.png": strip_bytes(data.x_train[:6]),
        "data_batch_2.png": strip_bytes(data.x_train[6:]),
        "test_batch.png": strip_bytes(data.x_test),
        "train_lables.json": json.dumps(data.y_train.tolist()).encode(),
        "test_lables.json": json.dumps(data.y_test.tolist()).encode(),
    }
    return Tiny(spec, data, raw)


@pytest.fixture
def left_over(tmp_path: Path) -> Callable[[], list[str]]:
    """What is in the cache now."""
    return lambda: sorted(
        str(p.relative_to(tmp_path / "cache" / "datasets")) for p in (tmp_path / "cache").rglob("*.*")
    )


@pytest.fixture
def write_folder(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    """Write files into a fresh folder, gzipped where the name ends in .gz."""

    def write(files: Mapping[str, bytes]) -> Path:
        folder = tmp_path / "copy"
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return folder

    return write
