"""Compiled transformers in unmodified classes of Hugging Face and TransformerLens, with the truth about what they do.

`lowering` puts roles and masks into weights, `rms` and `layernorm` fill the classes of transformers, `lens` that of
TransformerLens; `interface` calls and reads them, `circuit` draws what is known, `saving` writes model directories, and
`certifying` proves how accurate a stock class is. The libraries are imported when a model is exported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeformer.core.errors import InputError
from ridgeformer.export.circuit import Circuit, CircuitEdge, CircuitNode
from ridgeformer.export.hf import FACTS, TARGETS, TESTED, Export, to_hf, to_transformer_lens
from ridgeformer.export.interface import Direction, Interface, LayerRecord

if TYPE_CHECKING:
    from ridgeformer.export.certifying import certify_export
    from ridgeformer.export.saving import load_export

__all__ = [
    "FACTS",
    "TARGETS",
    "TESTED",
    "Circuit",
    "CircuitEdge",
    "CircuitNode",
    "Direction",
    "Export",
    "Interface",
    "LayerRecord",
    "certify_export",
    "load_export",
    "to_hf",
    "to_transformer_lens",
]


def __getattr__(name: str) -> Any:
    homes = {"certify_export": "certifying", "load_export": "saving"}
    if name not in homes:
        raise AttributeError(f"module 'ridgeformer.export' has no attribute {name!r}")
    try:
        return getattr(import_module(f"ridgeformer.export.{homes[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "transformers":
            raise
        raise InputError(f"transformers is not installed ({error}): install ridgeformer[hf].") from None
