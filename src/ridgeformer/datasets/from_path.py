"""Reading a copy the user already has: a folder, an archive of the raw files, or an .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ridgeformer.core.errors import DataFileError
from ridgeformer.core.reading import open_regular
from ridgeformer.datasets.from_debian import read_deb
from ridgeformer.datasets.image_set import Arrays, ImageSet
from ridgeformer.datasets.npy import load_npz
from ridgeformer.datasets.progress import Progress
from ridgeformer.datasets.raw import read_folder, read_tar

__all__ = ["read"]

TAR_ENDINGS = (".tgz", ".tar.gz", ".tar")


def read(spec: ImageSet, path: Path, progress: Progress) -> Arrays:
    """Return the arrays of a copy on disk; the copy itself is never changed or removed.

    Raises:
        DataFileError: no such file, another kind of file, or not the published files.
    """
    if path.is_dir():
        return spec.decode(spec, read_folder(spec, path, progress))
    if not path.is_file():
        raise DataFileError(f"{path} does not exist: give a folder, an archive or an .npz with {spec.name} in it.")
    if path.name.endswith(TAR_ENDINGS):
        with open_regular(path) as stream:
            return spec.decode(spec, read_tar(spec, stream, str(path), progress))
    if path.suffix == ".deb":
        return spec.decode(spec, read_deb(spec, path, progress))
    if path.suffix == ".npz":
        progress(0, None, f"reading {path.name}")
        return _read_npz(spec, path)
    raise DataFileError(
        f"{path} is of no kind known here: give a folder, a .tgz, .tar.gz, .tar or .deb with the raw files, or an .npz "
        "with x_train, y_train, x_test, y_test."
    )


def _read_npz(spec: ImageSet, path: Path) -> Arrays:
    def all_four(keys: list[str]) -> tuple[str, ...]:
        missing = [key for key in Arrays._fields if key not in keys]
        if missing:
            raise DataFileError(
                f"{path} has no {', '.join(missing)}; its keys are {', '.join(keys) or 'none'}: name the arrays "
                "x_train, y_train, x_test, y_test."
            )
        return Arrays._fields

    arrays = load_npz(path, all_four)
    return Arrays(**{key: _as_published(spec, key, array) for key, array in arrays.items()})


def _as_published(spec: ImageSet, key: str, array: np.ndarray) -> np.ndarray:
    """Undo flattened images, labels in a column and wider integers; anything else is left for the check."""
    if array.dtype.kind in "iu" and array.size and array.min() >= 0 and array.max() <= 255:
        array = array.astype(np.uint8)
    count = spec.counts[0] if key.endswith("train") else spec.counts[1]
    shape = (count, *spec.shape) if key.startswith("x") else (count,)
    return array.reshape(shape) if array.size == np.prod(shape) else array
