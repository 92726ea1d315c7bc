"""Saving a compiled transformer and loading it again: numbers and names, never code."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ridgeformer.compiler.specification import Specification
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.errors import DataFileError, InputError, RidgeformerError

__all__ = ["load", "save"]

FORMAT = "ridgeformer compiled transformer"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def save(model: CompiledTransformer, directory: str | Path) -> Path:
    """Write `config.json` and `model.safetensors` into the directory, each replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    directory = Path(directory)
    specification = model.spec.as_dict()
    config = {"format": FORMAT, "version": version("ridgeformer"), "specification": specification}
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".saving-") as work:
            save_file(weights, Path(work) / WEIGHTS)
            config["checksum"] = _checksum(specification, Path(work) / WEIGHTS)
            (Path(work) / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            for name in (WEIGHTS, CONFIG):
                os.replace(Path(work) / name, directory / name)
    except (OSError, SafetensorError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise RidgeformerError(f"cannot write a model into {directory} ({why}): choose another directory.") from None
    return directory


def load(directory: str | Path) -> CompiledTransformer:
    """Return the model that `save` wrote: the same program compiled again, with the weights of the file.

    Raises:
        DataFileError: missing, damaged or foreign files; nothing in them is ever run as code.
    """
    directory = Path(directory)
    spec, checksum = _config(directory)
    try:
        if checksum != _checksum(spec.as_dict(), directory / WEIGHTS):
            raise DataFileError(
                f"{directory}: {CONFIG} and {WEIGHTS} do not belong together, one was damaged or edited: compile with "
                "the numbers you want, or save the model again."
            )
        weights = load_file(directory / WEIGHTS)
    except FileNotFoundError:
        raise DataFileError(f"{directory} has no {WEIGHTS}: save the model again.") from None
    except (SafetensorError, OSError) as error:
        raise DataFileError(f"{directory / WEIGHTS} is damaged ({error}): save the model again.") from None
    model = CompiledTransformer(spec, torch.zeros(spec.features, spec.carried, dtype=torch.float64))
    expected = model.state_dict()
    for name in sorted(set(expected) ^ set(weights)):
        raise DataFileError(
            f"{directory / WEIGHTS} does not belong to its {CONFIG} (weight {name!r}): save the model again."
        )
    for name, weight in weights.items():
        if weight.shape != expected[name].shape or weight.dtype != expected[name].dtype:
            raise DataFileError(
                f"{directory / WEIGHTS}: weight {name!r} is {tuple(weight.shape)} {weight.dtype}, {CONFIG} calls for "
                f"{tuple(expected[name].shape)} {expected[name].dtype}: save the model again."
            )
        if not bool(torch.isfinite(weight).all()):
            raise DataFileError(f"{directory / WEIGHTS}: weight {name!r} is not finite: save the model again.")
    model.load_state_dict(weights)
    return model


def _checksum(specification: dict[str, Any], weights: Path) -> str:
    """Return the SHA-256 of the specification, as canonical JSON, and of the file of weights."""
    digest = hashlib.sha256(json.dumps(specification, sort_keys=True).encode())
    digest.update(weights.read_bytes())
    return digest.hexdigest()


def _config(directory: Path) -> tuple[Specification, str]:
    """Return the specification and the checksum that `config.json` holds."""
    path = directory / CONFIG
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise DataFileError(f"{path} is not the configuration of a {FORMAT}: give a directory made by save.")
        return Specification.from_dict(config["specification"]), config["checksum"]
    except (FileNotFoundError, NotADirectoryError):
        raise DataFileError(f"{directory} is not a saved model: it has no {CONFIG}.") from None
    except InputError as error:
        raise DataFileError(f"{path}: {error}") from None
    except KeyError as error:
        raise DataFileError(f"{path} has no {error.args[0]}: save the model again.") from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataFileError(f"{path} is damaged ({error}): save the model again.") from None
