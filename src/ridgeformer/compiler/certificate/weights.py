"""Are the weights those that the specification compiles to? Compared bit by bit, so that no edit is too small."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.certificate.certificate import Finding
from ridgeformer.compiler.certificate.problem import all_features, carried_features
from ridgeformer.compiler.compile import assemble
from ridgeformer.compiler.sublayers import AttentionSublayer, GatedMLP
from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["as_specified", "check_weights"]

BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def as_specified(model: CompiledTransformer) -> CompiledTransformer:
    """Return what the model's specification compiles to, whatever its weights are now."""
    return assemble(model.spec, carried_features(model), all_features(model))


def check_weights(model: CompiledTransformer) -> Finding:
    """Return the finding that every weight, mask and gate is, bit by bit, the one the specification compiles to."""
    sound = as_specified(model)
    compiled, found = sound.state_dict(), model.state_dict()
    differing = {name: _differing(weight, found.get(name)) for name, weight in compiled.items()}
    differing |= {name: weight.numel() for name, weight in found.items() if name not in compiled}
    differing |= dict.fromkeys(_differing_sublayers(sound, model), 1)
    entries = sum(differing.values())
    what = f"all {sum(weight.numel() for weight in compiled.values()):,} weights are, bit by bit, those of the "
    what += "specification compiled again"
    if entries:
        first, count = next((name, count) for name, count in differing.items() if count)
        names = sum(count > 0 for count in differing.values())
        what = (
            f"the weights are NOT those of the specification compiled again: {first} differs first, in {count:,} "
            f"of its entries; {entries:,} entries of {names:,} tensors or masks differ in all"
        )
    measured = np.asarray(float(entries))
    return Finding("weights", what, "none", measured, np.zeros_like(measured), kind="observed")


def _differing(compiled: Tensor, found: Tensor | None) -> int:
    """Return how many entries differ in any bit; all of them where the tensors cannot be compared."""
    if found is None or found.shape != compiled.shape or found.dtype != compiled.dtype:
        return max(1, compiled.numel())
    bits = BITS[compiled.dtype]
    return int((compiled.contiguous().view(bits) != found.detach().cpu().contiguous().view(bits)).sum())


def _differing_sublayers(sound: CompiledTransformer, model: CompiledTransformer) -> list[str]:
    """Return the names of sublayers whose masks, kinds of head or gates are not the compiled ones."""
    found = dict(model.named_modules())
    return [
        f"{name} (masks or gates)"
        for name, layer in sound.named_modules()
        if isinstance(layer, AttentionSublayer | GatedMLP) and _wiring(layer) != _wiring(found.get(name))
    ]


def _wiring(layer: object) -> tuple[object, ...]:
    if isinstance(layer, AttentionSublayer):
        return layer.masks, layer.kinds
    return (layer.gates,) if isinstance(layer, GatedMLP) else ()
