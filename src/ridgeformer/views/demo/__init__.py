"""`ridgeformer demo`: one page on which points are dragged and three transformers answer, from their weights.

The page holds the sparse weights of every network and runs the forward passes itself; no curve on it is made in any
other way, but for the exact regression drawn beside them, which the page solves by a Cholesky factorisation.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from ridgeformer.algorithms import Compilable, ConjugateGradients, NadarayaWatson, Richardson
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.language.expressions import SMALLEST_DIVISOR
from ridgeformer.language.program import Record
from ridgeformer.language.roles import QUERY, SUPPORT
from ridgeformer.views.explorer.data import HARMONICS, lift
from ridgeformer.views.page import fill, write_html
from ridgeformer.views.viewer.view import sparse_entries, sparse_sublayer

__all__ = ["CARRIED", "NETWORKS", "compile_network", "demo_data", "network_data", "render_demo", "write_demo"]

FEATURES = 2 * HARMONICS + 1
CARRIED = (1, 2, 3, 5, 7, FEATURES)
"""How many features a network's stream carries, from narrow to wide."""

POINTS, QUERIES, STEPS = 24, 81, 60
TEMPERATURE, RIDGE = 0.2, 15.0

NETWORKS: dict[str, tuple[str | None, Compilable]] = {
    "cg": (None, ConjugateGradients(steps=STEPS)),
    "vanilla": ("vanilla", Richardson(steps=STEPS)),
    "average": (None, NadarayaWatson()),
}
"""Attention and algorithm of the three networks, by the names they have on the page."""

SCRIPTS = ("viewer/network.js", "viewer/plots.js", "demo/demo.js")


def compile_network(name: str, carried: int = FEATURES) -> CompiledTransformer:
    """Return one network of the page; narrow ones carry the leading directions of positions along the line.

    Example:
        >>> compile_network("average", carried=3).spec.carried
        3
    """
    attention, algorithm = NETWORKS[name]
    given: dict[str, Any] = {"features": FEATURES, "ridge": RIDGE, "attention": attention}
    wide = compile(Exponential(TEMPERATURE), algorithm, **given)
    if carried == FEATURES:
        return wide
    blocks = sum(channel.size == "features" for channel in wide.program.channels.values())
    width = wide.layout.width - blocks * (FEATURES - carried)
    reference = lift(np.linspace(-1, 1, QUERIES))
    return compile(Exponential(TEMPERATURE), algorithm, width=width, sketch="pca", reference=reference, **given)


def network_data(model: CompiledTransformer) -> dict[str, Any]:
    """Return a compiled transformer as plain values: embedding, sublayers and where its answers are read.

    An embedding is [input, column, weight]: inputs are the features, the target and the constant 1.
    """
    modules = list(dict.fromkeys(sublayer for _, _, sublayer in model.sublayers))
    readings: dict[str, list[list[float | int]]] = {"f": [], "alpha": []}
    for section, record, passed in model.records:
        if (record.name, record.role) in (("f", QUERY), ("alpha", SUPPORT)):
            readings[record.name].append([passed, _step(model, section, record), *_read(model, record)])
    return {
        "roles": [role.value for role in model.program.roles],
        "width": model.layout.width,
        "embed": {role: sparse_entries(model.embed[role].detach()) for role in (r.value for r in model.program.roles)},
        "modules": [sparse_sublayer(module) for module in modules],
        "schedule": [modules.index(sublayer) for _, _, sublayer in model.sublayers],
        "readings": readings,
        "weights": [model.budget.parameters, model.budget.nonzeros],
    }


def _step(model: CompiledTransformer, section: str, record: Record) -> int:
    return (model.spec.steps if section == "readout" else int(section.split()[1])) - record.lag


def _read(model: CompiledTransformer, record: Record) -> tuple[int, float]:
    return model.layout.columns[record.channel][0], record.scale


def demo_data() -> dict[str, Any]:
    """Return everything the page holds: the networks at every width, and the points it opens with."""
    generator = torch_generator(0, "points of the demo")
    jitter, noise = (torch.rand(2, POINTS, generator=generator, dtype=torch.float64) - 0.5).unbind()
    x = torch.linspace(-0.94, 0.94, POINTS, dtype=torch.float64) + 0.05 * jitter
    y = 1.1 * torch.sin(3.6 * x) + 0.55 * torch.cos(8.5 * x) + 0.9 * noise
    networks = {name: [network_data(compile_network(name, carried)) for carried in CARRIED] for name in NETWORKS}
    return {
        "x": x.tolist(), "y": y.tolist(), "grid": np.linspace(-1, 1, QUERIES).tolist(), "harmonics": HARMONICS,
        "temperature": TEMPERATURE, "ridge": RIDGE, "steps": STEPS, "carried": list(CARRIED),
        "smallest": SMALLEST_DIVISOR[torch.float64], "networks": networks,
    }  # fmt: skip


def render_demo() -> str:
    """Return the page."""
    folder = files("ridgeformer.views")
    data = json.dumps(demo_data(), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    return fill("demo/demo.html.j2", data=Markup(data), script=Markup(script), carried=CARRIED, steps=STEPS)


def write_demo(path: Path) -> Path:
    """Write the page; an old one is replaced in one step."""
    return write_html(render_demo(), path)
