"""How far a long fit is, on disk: written whole or not at all, and gone on with for the same problem only."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from torch import Tensor

from ridgeformer.core.errors import DataFileError
from ridgeformer.core.reading import explained, open_regular

__all__ = ["Checkpoint", "describe_problem", "digest_of"]

FORMAT = 1
"""Of the files; others are refused."""

BLOCK = 2**16
"""Rows whose checksum is taken at once."""


def describe_problem(kernel: object, X: Tensor, y: Tensor, **settings: object) -> dict[str, object]:
    """Return what a checkpoint belongs to, as plain values: the kernel, a checksum of all rows, and settings.

    Example:
        >>> import torch
        >>> from ridgeformer.kernels import Gaussian
        >>> describe_problem(Gaussian(0.5), torch.zeros(3, 2), torch.zeros(3, 1), ridge=0.1)["rows"]
        '3 of 2 features and 1 targets, torch.float32'
    """
    data = 0
    for whole in (X, y):
        for some in whole.detach().split(BLOCK):
            data = zlib.crc32(some.cpu().contiguous().numpy().data, data)
    held = {name: _plain(value) for name, value in sorted(vars(kernel).items())}
    return {
        "kernel": f"{type(kernel).__name__}({', '.join(f'{name}={value}' for name, value in held.items())})",
        "rows": f"{len(X):,} of {X.shape[1]} features and {y.shape[1]} targets, {X.dtype}",
        "checksum of the rows and targets": data,
        **settings,
    }


def _plain(value: object) -> str:
    if isinstance(value, Tensor):
        return blake2b(value.detach().cpu().contiguous().numpy().tobytes(), digest_size=8).hexdigest()
    return repr(value) if isinstance(value, bool | int | float | str | None) else type(value).__name__


@dataclass(frozen=True)
class Checkpoint:
    """One file: arrays, plain values, and the problem that they belong to.

    Attributes:
        path: the file, .safetensors; its folder is made if need be.
        problem: what it belongs to (`describe_problem`).
    """

    path: Path
    problem: dict[str, object]

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Return arrays and plain values as they were saved; None if there is no file.

        Raises:
            DataFileError: no checkpoint, an edited or damaged one, or one of another problem.
        """
        from safetensors import safe_open

        if not self.path.exists():
            return None
        with open_regular(self.path):
            pass
        away = "delete it to start over"
        with explained(self.path, "is no checkpoint of a fit, or damaged", away):
            with safe_open(self.path, framework="pt") as file:
                head = json.loads(file.metadata()["ridgeformer"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- it is no mapping
            if head["format"] != FORMAT:
                raise DataFileError(f"{self.path} has format {head['format']}; {FORMAT} was expected: {away}.")
            if head["digest"] != digest_of(arrays, head["problem"], head["facts"]):
                raise DataFileError(f"{self.path} was edited or is damaged, its digest is another: {away}.")
        ours = json.loads(json.dumps(self.problem))
        for name in (*ours, *head["problem"]):
            there, here = head["problem"].get(name), ours.get(name)
            if there != here:
                raise DataFileError(
                    f"{self.path} belongs to another fit (its {name}: {there}; now: {here}): give another folder, or "
                    f"{away}."
                )
        return arrays, head["facts"]

    def save(self, arrays: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Replace the file at once: it is complete, or the one from before.

        Raises:
            DataFileError: it cannot be written; the one from before is kept.
        """
        from safetensors.torch import save

        head = {"format": FORMAT, "problem": self.problem, "facts": facts}
        head["digest"] = digest_of(arrays, self.problem, facts)
        beside = self.path.with_name(self.path.name + ".part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(beside, "wb") as file:
                file.write(save(arrays, metadata={"ridgeformer": json.dumps(head)}))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise DataFileError(
                f"{self.path} cannot be written ({error.strerror or error}): make room or choose another folder. What "
                "was written before is kept, and the same call goes on with it."
            ) from None


def digest_of(arrays: dict[str, Tensor], problem: dict[str, object], facts: dict[str, Any]) -> str:
    """Return a digest of arrays and plain values, in any order of names."""
    found = blake2b(json.dumps([problem, facts], sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        one = arrays[name].contiguous()
        found.update(f"{name} {one.dtype} {tuple(one.shape)}".encode())
        found.update(one.numpy().tobytes())
    return found.hexdigest()
