"""The user's own files: .npz, .npy, .csv and .parquet."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.core.errors import DataFileError, InputError, unknown_name
from ridgeformer.core.reading import explained, open_regular
from ridgeformer.datasets.array_files import read_npy, read_npz
from ridgeformer.datasets.dataset import Dataset

__all__ = ["ENDINGS", "PICKLES", "load_file"]

ENDINGS = (".npz", ".npy", ".csv", ".parquet")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib", ".dill")


def load_file(
    path: str | Path, *, target: str | int | None = None, task: str | None = None, part: str = "train"
) -> Dataset:
    r"""Return the dataset in a file, chosen by its ending.

    Args:
        path: An .npz, .npy, .csv or .parquet file.
        target: What to predict: a column name or position of a table (default: the column y or target), a key of an
            .npz (default: y, or y_train), a column position of an .npy (default: the last).
        task: "classification" or "regression"; by default text, booleans and integers with few distinct
            values are classes, anything else is numbers.
        part: "train" or "test"; "test" needs an .npz with x_test and y_test.

    Raises:
        DataFileError: the file is missing, damaged, a pickle or of another kind.
        InputError: its content cannot be used; the message names the column.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "heights.csv"
        ...     _ = path.write_text("age,height\n1,0.75\n2,0.87\n3,0.96\n")
        ...     load_file(path, target="height")
        Dataset('heights', n=3, d=1, regression, 1 output)
    """
    if part not in ("train", "test"):
        raise unknown_name("part", part, ("train", "test"))
    path = Path(path).expanduser()
    with explained(path, "cannot be read"):
        return _load(path, _check_path(path), target, task, part)


def _load(path: Path, ending: str, target: str | int | None, task: str | None, part: str) -> Dataset:
    if ending == ".npz":
        return read_npz(path, target, task, part)
    if part != "train":
        raise InputError(
            f"{path.name} has no {part} part; only an .npz with x_test and y_test has: load it whole and call split()."
        )
    if ending == ".npy":
        return read_npy(path, target, task)
    from ridgeformer.datasets import tables  # pyarrow takes a while to import

    return tables.read_csv(path, target, task) if ending == ".csv" else tables.read_parquet(path, target, task)


def _check_path(path: Path) -> str:
    """Return the ending, in lower case, of a regular file with something in it."""
    ending = path.suffix.lower()
    if ending in PICKLES:
        raise DataFileError(
            f"{path} is a pickle by its name; opening a pickle runs code it contains, so it is never opened here: save "
            "the arrays with numpy.savez(path, X=X, y=y)."
        )
    with open_regular(path) as file:
        if ending not in ENDINGS:
            raise DataFileError(
                f"{path} ends in {ending or 'nothing'}; {', '.join(ENDINGS)} were expected: convert it first."
            )
        if not file.read(1):
            raise DataFileError(f"{path} is empty: save it again.")
    return ending
