"""`ridgeformer explain`: what a saved model holds and does."""

from __future__ import annotations

from dataclasses import asdict

from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.models import Directory
from ridgeformer.compiler import load_model

__all__ = ["explain"]


def explain(directory: Directory, json: Json = False) -> None:
    """Explain a compiled model: what it costs, what each channel holds, what each layer does.

    Example: ridgeformer explain model
    """
    model = load_model(directory)
    if json:
        facts = {"program": model.program.name, "specification": model.spec.as_dict(), "budget": asdict(model.budget)}
        channels = {name: channel.meaning for name, channel in model.program.channels.items()}
        columns = {name: list(places) for name, places in model.layout.columns.items()}
        print_json({**facts, "channels": channels, "columns": columns, "text": model.explain()})
        return
    out().print(model.explain(), markup=False, soft_wrap=True)
