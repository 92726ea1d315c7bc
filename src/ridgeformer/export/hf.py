"""`to_hf` and `to_transformer_lens`: a compiled transformer in an unmodified class of another library."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ridgeformer.compiler import Certificate, CompiledTransformer
from ridgeformer.core.checks import ArrayLike, whole
from ridgeformer.core.errors import DtypeError, InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.export.interface import Interface
from ridgeformer.export.lowering import lower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["FACTS", "TARGETS", "TESTED", "Export", "to_hf", "to_transformer_lens"]

TARGETS = {"t5": "rms", "llama": "rms", "albert": "layernorm", "bert": "layernorm", "gpt2": "layernorm"}
"""Targets of `to_hf`, with the module of their family."""

FACTS = "ridgeformer.json"
"""The file that makes a model directory an export."""

MOST_TOKENS = 2**16
"""The longest sequence that a model is exported for; tables of positions and numbers grow with it."""

TESTED = {"transformers": "5.23.0", "transformer-lens": "4.3.0"}
"""The versions that the tests run with."""


@dataclass(frozen=True, eq=False)
class Export:
    """A compiled transformer in a stock class, with its interface.

    Attributes:
        model: The class of the other library, unmodified.
        io: How to call it and how to read it.
    """

    model: Any
    io: Interface

    def __call__(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        y: ArrayLike | Sequence[ArrayLike],
        Xq: ArrayLike | Sequence[ArrayLike],
    ) -> list[Tensor]:
        """Return the predictions of the stock class, (queries, outputs) for every task."""
        return self.io.predictions(self._run(X, y, Xq, states=False)[0])

    def hidden_states(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike) -> tuple[Tensor, ...]:
        """Return the input and the output of every layer, (tasks, tokens, hidden) each."""
        return self._run(X, y, Xq, states=True)[1]

    def _run(
        self,
        X: ArrayLike | Sequence[ArrayLike],
        y: ArrayLike | Sequence[ArrayLike],
        Xq: ArrayLike | Sequence[ArrayLike],
        *,
        states: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run the class; it must still have the precision that was compiled."""
        for parameter in self.model.parameters():
            if parameter.dtype != self.io.spec.torch_dtype:
                raise DtypeError(
                    f"the weights are {parameter.dtype} and the model was compiled for {self.io.spec.dtype}; masks, "
                    "norms and reciprocals are made for that: load it with this dtype."
                )
        given = self.io.inputs(X, y, Xq)
        with torch.no_grad():
            if self.io.target == "lens":
                embeds = given.pop("inputs_embeds")
                if not states:
                    return self.model(embeds, **given), ()
                logits, cache = self.model.run_with_cache(embeds, **given)
                layers = range(self.model.cfg.n_layers)
                return logits, (embeds, *(cache[f"blocks.{layer}.hook_resid_post"] for layer in layers))
            output = self.model(**given, output_hidden_states=states)
        return output.last_hidden_state, tuple(output.hidden_states or ())

    def certify(self, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, *, tolerance: float | None = None) -> Certificate:
        """Prove how near the answers of the stock class are to exact ridge regression, from its own hidden states."""
        from ridgeformer.export.certifying import certify_export  # it knows this class

        return certify_export(self, X, y, Xq, tolerance=tolerance)

    def save(self, directory: str | Path) -> Path:
        """Write an ordinary model directory with `ridgeformer.json`, `io.safetensors` and a model card."""
        from ridgeformer.export.saving import save_export  # it knows this class

        return save_export(self, directory)


def to_hf(
    model: CompiledTransformer, target: str = "t5", *, max_tokens: int = 256, rotate: int | None = None
) -> Export:
    """Return a compiled transformer in an unmodified Hugging Face class.

    Channels get columns of their own: a model whose channels share columns is compiled again.

    Args:
        model: Softmax attention with primitives="swiglu", or attention="vanilla".
        target: "t5" (its encoder: the reference), "llama" (float32), or for vanilla "albert", "bert", "gpt2".
        max_tokens: The longest sequence: supports, queries, an aggregator or a null token, and anchors (vanilla).
        rotate: Seed of a random rotation that hides the channels; None leaves each in columns of its own.

    Raises:
        InputError: a model that the class cannot hold.

    Example:
        >>> import ridgeformer as rf
        >>> options = {"features": 2, "ridge": 1.0, "attention": "vanilla"}
        >>> vanilla = rf.compile(rf.Exponential(1.0), rf.Richardson(steps=3), **options)
        >>> exported = to_hf(vanilla, "bert")
        >>> X = torch.eye(2, dtype=torch.float64)
        >>> [found] = exported(X, torch.ones(2), X)
        >>> type(exported.model).__name__, torch.allclose(found[:, 0], vanilla(X, torch.ones(2), X))
        ('BertModel', True)
    """
    if target not in TARGETS:
        raise unknown_name("target", target, TARGETS)
    return _checked(model, target, f"ridgeformer.export.{TARGETS[target]}", "transformers", max_tokens, rotate)


def to_transformer_lens(model: CompiledTransformer, *, max_tokens: int = 256, rotate: int | None = None) -> Export:
    """Return a compiled transformer as a native bridge of TransformerLens.

    Call it with `io.inputs(X, y, Xq)["inputs_embeds"]`; hooks and caches have the usual names, and the logits are the
    predictions. The arguments are those of `to_hf`.
    """
    return _checked(model, "bridge", "ridgeformer.export.lens", "transformer-lens", max_tokens, rotate)


def _checked(
    model: CompiledTransformer, build: str, module: str, library: str, max_tokens: int, rotate: int | None
) -> Export:
    """Build an export; with another version of the library than tested, warn with the difference on a probe."""
    if not isinstance(model, CompiledTransformer):
        raise InputError(
            f"a compiled transformer was expected, not {type(model).__name__}: give what compile returned."
        )
    max_tokens = whole(max_tokens, "max_tokens", 4)
    if max_tokens > MOST_TOKENS:
        raise InputError(
            f"max_tokens is {max_tokens:,}; at most {MOST_TOKENS:,} was expected: attention takes the square of it."
        )
    rotate = None if rotate is None else whole(rotate, "rotate", 0)
    lowered = lower(model, max_tokens, rotated=rotate is not None)
    if rotate is not None and model.spec.dtype == "float32" and any(block.gated for block in lowered.blocks):
        raise InputError(
            "a rotation mixes large and small channels, and float32 then loses the small residuals that conjugate "
            "gradients divide by: compile with dtype='float64', or leave rotate out."
        )
    try:
        family = import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("ridgeformer", "torch"):
            raise
        extra = "lens" if library == "transformer-lens" else "hf"
        raise InputError(f"{library} is not installed ({error}): install ridgeformer[{extra}].") from None
    exported = Export(*getattr(family, build)(lowered, rotate))
    warn_untested(exported, lambda: model, library, stacklevel=4)
    return exported


def warn_untested(
    exported: Export, compiled: Callable[[], CompiledTransformer], library: str, *, stacklevel: int
) -> None:
    """Warn if the library has another version than the tested one, with the difference measured on a probe."""
    try:
        found = version(library)
    except PackageNotFoundError:
        found = "unknown"
    if found == TESTED[library]:
        return
    model, generator = compiled(), torch_generator(0, "probe of an export")
    rows = torch.randn(8, model.spec.features, generator=generator, dtype=torch.float64)
    rows = rows / rows.norm(dim=1, keepdim=True)
    y = torch.randn(6, model.spec.outputs, generator=generator, dtype=torch.float64)
    [answer] = exported(rows[:6], y, rows[6:])
    difference = float((answer - model(rows[:6], y, rows[6:])).abs().max())
    warnings.warn(
        f"{library} is {found} and exports are tested with {TESTED[library]}; on a probe of 8 tokens the predictions "
        f"differ by {difference:.1e} from the compiled model's.",
        stacklevel=stacklevel,
    )
