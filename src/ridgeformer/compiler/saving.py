"""Saving a compiled transformer and loading it again: numbers and names, never code."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from ridgeformer.compiler.compile import assemble
from ridgeformer.compiler.specification import Specification
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.core.errors import DataFileError, InputError, RidgeformerError
from ridgeformer.core.reading import explained, read_regular

__all__ = ["load_model", "save"]

FORMAT = "ridgeformer compiled transformer"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
MOST_CONFIG_BYTES = 2**20


def save(model: CompiledTransformer, directory: str | Path) -> Path:
    """Write `config.json` and `model.safetensors` into the directory, each replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    directory = Path(directory)
    specification = model.spec.as_dict()
    config = {"format": FORMAT, "version": version("ridgeformer"), "specification": specification}
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".saving-") as work:
            content = safetensors.torch.save(weights)
            (Path(work) / WEIGHTS).write_bytes(content)
            config["checksum"] = _checksum(specification, content)
            (Path(work) / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            for name in (WEIGHTS, CONFIG):
                os.replace(Path(work) / name, directory / name)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise RidgeformerError(f"cannot write a model into {directory} ({why}): choose another directory.") from None
    return directory


def load_model(directory: str | Path) -> CompiledTransformer:
    """Return the model that `save` wrote: the same program compiled again, with the weights of the file.

    The file of weights is compared with the configuration before a model is built, so a configuration that asks for
    more than the file holds takes no memory.

    Raises:
        DataFileError: missing, damaged or foreign files; nothing in them is ever run as code.
    """
    with explained(directory, "cannot be read as a saved model", "save the model again"):
        spec, checksum = _read_config(Path(directory))
        path = Path(directory) / WEIGHTS
        weights = _read_weights(path, spec, checksum)
        widest = max((weight.shape[-1] for name, weight in weights.items() if name.endswith(".W_a")), default=0)
        try:
            zeros = torch.zeros(spec.features, spec.carried, dtype=torch.float64)
            model = assemble(spec, zeros, most_units=widest)
        except InputError as error:
            raise DataFileError(f"{path} does not belong to its {CONFIG} ({error}): save the model again.") from None
        expected, held = model.state_dict(), dict[int, str]()
        for name in sorted(set(expected) ^ set(weights)):
            raise DataFileError(f"{path} does not belong to its {CONFIG} (weight {name!r}): save the model again.")
        for name, weight in weights.items():
            if weight.shape != expected[name].shape or weight.dtype != expected[name].dtype:
                raise DataFileError(
                    f"{path}: weight {name!r} is {tuple(weight.shape)} {weight.dtype}, {CONFIG} calls for "
                    f"{tuple(expected[name].shape)} {expected[name].dtype}: save the model again."
                )
            if not bool(torch.isfinite(weight).all()):
                raise DataFileError(f"{path}: weight {name!r} is not finite: save the model again.")
            same = held.setdefault(expected[name].data_ptr(), name)  # one that steps share is there for each of them
            if weight.numel() and not torch.equal(weight, weights[same]):
                raise DataFileError(
                    f"{path}: weights {same!r} and {name!r} are one in the model: save the model again."
                )
        model.load_state_dict(weights)
        return model


def _read_weights(path: Path, spec: Specification, checksum: str) -> dict[str, torch.Tensor]:
    """Return the tensors of the file, which must have the checksum and hold enough numbers."""
    if not path.exists():
        raise DataFileError(f"{path.parent} has no {WEIGHTS}: save the model again.")
    content = read_regular(path)
    if checksum != _checksum(spec.as_dict(), content):
        raise DataFileError(
            f"{path.parent}: {CONFIG} and {WEIGHTS} do not belong together, one was damaged or edited: compile with "
            "the numbers you want, or save the model again."
        )
    with explained(path, "is damaged", "save the model again"):
        weights = safetensors.torch.load(content)
    held = sum(weight.numel() for weight in weights.values())
    if spec.least_numbers > held:
        raise DataFileError(
            f"{path} holds {held:,} numbers and its {CONFIG} calls for at least {spec.least_numbers:,}: save the model "
            "again."
        )
    return weights


def _checksum(specification: dict[str, Any], weights: bytes) -> str:
    """Return the SHA-256 of the specification, as canonical JSON, and of the file of weights."""
    digest = hashlib.sha256(json.dumps(specification, sort_keys=True).encode())
    digest.update(weights)
    return digest.hexdigest()


def _read_config(directory: Path) -> tuple[Specification, str]:
    """Return the specification and the checksum that `config.json` holds."""
    path = directory / CONFIG
    if not path.exists():
        raise DataFileError(f"{directory} is not a saved model: it has no {CONFIG}.")
    text = read_regular(path, MOST_CONFIG_BYTES)
    with explained(path, "is damaged", "save the model again"):
        config: Any = json.loads(text)
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise DataFileError(f"{path} is not the configuration of a {FORMAT}: give a directory made by save.")
        for name in ("specification", "checksum"):
            if name not in config:
                raise DataFileError(f"{path} has no {name}: save the model again.")
        try:
            return Specification.from_dict(config["specification"]), config["checksum"]
        except InputError as error:
            raise DataFileError(f"{path}: {error}") from None
