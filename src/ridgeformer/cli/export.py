"""`ridgeformer export`: a compiled model as a directory that plain `from_pretrained` opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.cli.compile import Directory

__all__ = ["export"]


def export(
    directory: Directory,
    to: Annotated[str, typer.Option(help="t5, llama (float32), lens, or for vanilla models albert, bert, gpt2.")],
    into: Annotated[Path, typer.Option("--out", help="Where the model directory goes.")],
    max_tokens: Annotated[int, typer.Option(help="The longest sequence.", min=4)] = 256,
    rotate: Annotated[int | None, typer.Option(help="Seed of a rotation that hides the channels.", min=0)] = None,
    json: ui.Json = False,
) -> None:
    """Export a compiled model to an unmodified class of Hugging Face or TransformerLens, with its circuit and a card.

    Example: ridgeformer export model --to t5 --out model-t5
    """
    with importing():
        from ridgeformer.compiler import load_model
        from ridgeformer.export import to_hf, to_transformer_lens

    model = load_model(directory)
    if to == "lens":
        exported = to_transformer_lens(model, max_tokens=max_tokens, rotate=rotate)
    else:
        exported = to_hf(model, to, max_tokens=max_tokens, rotate=rotate)
    exported.save(into)
    io, kind = exported.io, type(exported.model).__name__
    facts = {
        "directory": str(into),
        "class": kind,
        "layers": len({node.layer for node in io.circuit.nodes}) - 2,
        "parameters": sum(parameter.numel() for parameter in exported.model.parameters()),
        "heads_and_gated_layers": len(io.circuit.nodes) - 2,
        "edges": len(io.circuit.edges),
    }
    if json:
        ui.print_json(facts)
        return
    opener = "TransformerBridge.boot_native, as the card shows," if to == "lens" else f"{kind}.from_pretrained"
    ui.out().print(f"\n[bold]{opener} opens it; ridgeformer is not needed.[/bold]", soft_wrap=True)
    lines = {
        "layers": f"{facts['layers']:,}, of {facts['heads_and_gated_layers']:,} heads and gated sublayers",
        "weights": f"{facts['parameters']:,}",
        "circuit": f"{facts['edges']:,} edges, in {into / 'ridgeformer.json'}",
        "card": str(into / "README.md"),
    }
    ui.print_facts(lines, 12)
