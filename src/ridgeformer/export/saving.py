"""Saving an export as an ordinary model directory, with its interface and a model card; loading it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers

from ridgeformer.compiler import Specification
from ridgeformer.compiler.compile import assemble
from ridgeformer.core.errors import DataFileError, InputError, RidgeformerError
from ridgeformer.core.reading import explained, read_regular
from ridgeformer.export.card import model_card
from ridgeformer.export.circuit import Circuit
from ridgeformer.export.hf import FACTS, TARGETS, Export, warn_untested
from ridgeformer.export.interface import Direction, Interface, LayerRecord
from ridgeformer.language.roles import Role

__all__ = ["load_export", "save_export"]

FORMAT = "ridgeformer export"
CONFIG, WEIGHTS, TENSORS, CARD = "config.json", "model.safetensors", "io.safetensors", "README.md"
MOST_BYTES = 2**28


def save_export(exported: Export, directory: str | Path) -> Path:
    """Write the class and its configuration, then `io.safetensors`, `ridgeformer.json` and the model card.

    Hugging Face classes are written by their own `save_pretrained`. TransformerLens has no such directories; a bridge
    becomes the same two files, `config.json` and `model.safetensors`.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    io, directory = exported.io, Path(directory)
    answer = next(record for record in reversed(io.records) if record.name == "f")
    library = "transformer-lens" if io.target == "lens" else "transformers"
    facts: dict[str, Any] = {
        "format": FORMAT,
        "version": version("ridgeformer"),
        library: version(library),
        "class": type(exported.model).__name__,
        **{name: getattr(io, name) for name in ("target", "max_tokens", "hidden", "causal", "rotate", "roles")},
        "takes_squares": len(io.embed[Role.SUPPORT]) > io.spec.features + io.spec.outputs + 1,
        "answer": {"channel": answer.channel, "scale": answer.scale},
        "specification": io.spec.as_dict(),
        "records": [asdict(record) for record in io.records],
        "layers": {name: list(place) for name, place in io.layers.items()},
        "directions": {
            name: {"meaning": found.meaning, "life": [[life.start, life.stop] for life in found.life]}
            for name, found in io.directions.items()
        },
        "circuit": io.circuit.as_dict(),
    }
    tensors = {"carried": io.carried} | ({} if io.unsketched is None else {"unsketched": io.unsketched})
    for kind, parts in (("embed", io.embed), ("numbers", io.numbers)):
        tensors |= {f"{kind}.{role.value}": tensor for role, tensor in parts.items()}
    for name, found in io.directions.items():
        tensors |= {f"read.{name}": found.read, f"write.{name}": found.write}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if io.target == "lens":
            _write_bridge(exported, directory)
        else:
            with _quiet():
                exported.model.save_pretrained(directory)
        content = safetensors.torch.save({name: tensor.contiguous().clone() for name, tensor in tensors.items()})
        (directory / TENSORS).write_bytes(content)
        facts["checksums"] = {name: _checksum(directory / name) for name in (CONFIG, WEIGHTS, TENSORS)}
        facts["checksums"][FACTS] = _own_checksum(facts)
        (directory / FACTS).write_text(json.dumps(facts) + "\n", encoding="utf-8")
        (directory / CARD).write_text(model_card(exported), encoding="utf-8")
    except OSError as error:
        raise RidgeformerError(
            f"cannot write a model into {directory} ({error.strerror or error}): choose another directory."
        ) from None
    return directory


def _write_bridge(exported: Export, directory: Path) -> None:
    """Write a native bridge of TransformerLens: its settings and its weights."""
    from ridgeformer.export.lens import SETTINGS  # TransformerLens is imported for its own models only

    settings = {name: getattr(exported.model.cfg, name) for name in SETTINGS}
    (directory / CONFIG).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    weights = {name: weight.contiguous() for name, weight in exported.model.state_dict().items()}
    (directory / WEIGHTS).write_bytes(safetensors.torch.save(weights))


def load_export(directory: str | Path) -> Export:
    """Return the export that `Export.save` wrote: the class with its weights, and the interface.

    Raises:
        DataFileError: missing, damaged, edited or foreign files; nothing in them is ever run as code.
    """
    directory = Path(directory)
    if not (directory / FACTS).exists():
        raise DataFileError(f"{directory} is not an exported model: it has no {FACTS}.")
    with explained(directory, "cannot be read as an exported model", "export the model again"):
        facts: Any = json.loads(read_regular(directory / FACTS, MOST_BYTES))
        targets = (*TARGETS, "lens")
        if not isinstance(facts, dict) or facts.get("format") != FORMAT or facts.get("target") not in targets:
            raise DataFileError(f"{directory / FACTS} does not describe a {FORMAT}: give a directory made by save.")
        for name in (CONFIG, WEIGHTS, TENSORS, FACTS):
            found = _own_checksum(facts) if name == FACTS else _checksum(directory / name)
            if found != facts["checksums"][name]:
                raise DataFileError(
                    f"{directory / name} is not the file that was saved: it was damaged or edited, and nothing that "
                    f"{FACTS} says of the model would be known to hold. Export the model again, or open it without "
                    "ridgeformer."
                )
        io = _interface(facts, safetensors.torch.load(read_regular(directory / TENSORS, MOST_BYTES)))
        model = _read_bridge(directory, io) if io.target == "lens" else _read_class(directory, io)
    exported = Export(model.eval().requires_grad_(False), io)
    library = "transformer-lens" if io.target == "lens" else "transformers"
    warn_untested(exported, lambda: assemble(io.spec, io.carried, io.unsketched), library, stacklevel=3)
    return exported


def _read_class(directory: Path, io: Interface) -> Any:
    """Return the Hugging Face class, by its own `from_pretrained`."""
    kind = {"t5": "T5EncoderModel", "llama": "LlamaModel", "bert": "BertModel", "albert": "AlbertModel"}
    options = {"add_pooling_layer": False} if io.target in ("bert", "albert") else {}
    with _quiet():
        return getattr(transformers, kind.get(io.target, "GPT2Model")).from_pretrained(
            directory, dtype=io.spec.torch_dtype, attn_implementation="eager", use_safetensors=True,
            local_files_only=True, **options,
        )  # fmt: skip


def _read_bridge(directory: Path, io: Interface) -> Any:
    """Return the native bridge of TransformerLens; its settings are compared with the weights before it is built."""
    try:
        from ridgeformer.export.lens import SETTINGS, boot  # TransformerLens is imported for its own models only
    except ModuleNotFoundError as error:
        raise InputError(f"transformer-lens is not installed ({error}): install ridgeformer[lens].") from None
    settings = json.loads(read_regular(directory / CONFIG, MOST_BYTES))
    weights = safetensors.torch.load(read_regular(directory / WEIGHTS))
    rows, width = weights["blocks.0.attn.q.weight"].shape
    held = (len({name.split(".")[1] for name in weights if name.startswith("blocks.")}), rows, width)
    said = (settings["n_layers"], settings["n_heads"] * settings["d_head"], settings["d_model"])
    if set(settings) != set(SETTINGS) or held != said or settings["n_ctx"] != len(weights["pos_embed.weight"]):
        raise DataFileError(f"{directory / CONFIG} does not belong to {WEIGHTS}: export the model again.")
    model = boot(settings, io.spec.torch_dtype)
    model.load_state_dict(weights, strict=True)
    return model


def _checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(read_regular(path)).hexdigest()


def _own_checksum(facts: dict[str, Any]) -> str:
    """Return the SHA-256 of all facts, the checksums of other files included."""
    sums = {name: value for name, value in facts["checksums"].items() if name != FACTS}
    return hashlib.sha256(json.dumps({**facts, "checksums": sums}, sort_keys=True).encode()).hexdigest()


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the library show no progress bar."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()


def _interface(facts: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Interface:
    """Return the interface that the two files describe."""

    def parts(kind: str) -> dict[Role, torch.Tensor]:
        return {Role(name.partition(".")[2]): t for name, t in tensors.items() if name.startswith(f"{kind}.")}

    directions = {
        name: Direction(
            found["meaning"],
            tensors[f"read.{name}"],
            tensors[f"write.{name}"],
            tuple(range(*life) for life in found["life"]),
        )
        for name, found in facts["directions"].items()
    }
    records = tuple(LayerRecord(**{**record, "role": Role(record["role"])}) for record in facts["records"])
    read = {record.channel for record in records} | {f"role {role}" for role in facts["roles"]}
    counts = {len(table) for table in parts("numbers").values()} | {facts["max_tokens"]}
    if not any(record.name == "f" for record in records) or read - set(directions) or len(counts) > 1:
        raise DataFileError(f"{FACTS} and {TENSORS} do not belong together: export the model again.")
    return Interface(
        Specification.from_dict(facts["specification"]), facts["target"], facts["max_tokens"], facts["hidden"],
        facts["causal"], facts["rotate"], tuple(Role(role) for role in facts["roles"]), parts("embed"),
        parts("numbers"), tensors["carried"], tensors.get("unsketched"), directions,
        {name: (layer, part) for name, (layer, part) in facts["layers"].items()}, records,
        Circuit.from_dict(facts["circuit"]),
    )  # fmt: skip
