"""The loss surface around trained weights, in two directions, for both networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.regime import Architecture, Training, train
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.studies.surface_directions import choose_directions, curvature
from ridgeformer.views import Page, Picture, Section, Table, styled

__all__ = ["STUDY", "make_page", "measure"]

MODELS = {"relu": "relu", "attention": "mlp-attn"}


def measure(
    data: str, rows: int, width: int, directions: str, loss: str, epochs: int, reach: float, side: int, seed: int
) -> list[dict[str, Any]]:
    """Return one row a model and grid point: the training loss at w + |w| (a u + b v).

    u and v are orthonormal in the space of all first-layer weights, and nothing is scaled neuron by neuron; a and b
    are lengths over that of the trained weights w, so models compare.

    Args:
        data: dataset, all classes, unit rows.
        rows: training rows.
        width: of the networks.
        directions: "random", or "hessian": the two of largest curvature at w.
        loss: "mse" or "cross_entropy".
        epochs: of Adam with the published rate and penalty.
        reach: the largest |a| and |b|.
        side: points a side of the grid, odd, so that w itself is one.
        seed: of rows, weights, batches and directions.

    Example:
        >>> found = measure("digits", 30, 8, "random", "mse", 5, 0.5, 3, seed=0)
        >>> len(found), found[4]["a"], found[4]["b"]
        (18, 0.0, 0.0)
    """
    problem = Split.for_networks(datasets.load(data), rows=rows, test_rows=10, seed=seed)
    training = Training("adam", loss, epochs=epochs)
    found = []
    for model, name in MODELS.items():
        built = Architecture(name).build(problem.X, width, problem.y.shape[1], torch_generator(seed, "network"))
        seen = built.features(problem.X)
        train(built.model, seen, problem.y, training, torch_generator(seed, "batches"))
        weights = built.model.get_parameter("weights").detach().clone()

        def at(moved: Tensor, built: Any = built, seen: Tensor = seen) -> Tensor:
            outputs = torch.func.functional_call(built.model, {"weights": moved}, (seen,))
            return training.objective(outputs, problem.y)

        u, v = choose_directions(at, weights, directions, seed)
        size = float(weights.norm())
        bent = {"bend_a": size**2 * curvature(at, weights, u), "bend_b": size**2 * curvature(at, weights, v)}
        with torch.no_grad():
            found += [
                {"model": model, "a": a, "b": b, "height": float(at(weights + size * (a * u + b * v)))} | bent
                for a in _steps(reach, side)
                for b in _steps(reach, side)
            ]
    return found


def _steps(reach: float, side: int) -> list[float]:
    return [float(step) for step in np.linspace(-reach, reach, side)]


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: a contour plot a model and kind of directions, and the curvatures."""
    first, kinds = rows[0], sorted({row["directions"] for row in rows})
    return Page(
        "The loss surface around trained weights",
        f"{first['data']}; {first['rows']:,} training rows, width {first['width']:,}, {first['loss']}, "
        f"{first['epochs']} epochs, {len({row['seed'] for row in rows})} seeds",
        tuple(_sentence(means, kind) for kind in kinds),
        (
            Section(
                "Two directions",
                ("The training loss, mean over seeds, where the weights w are moved by a |w| u + b |w| v. Directions "
                 "are orthonormal and not scaled neuron by neuron: random ones, or the two of largest curvature.",),
                pictures=tuple(_picture(means, model, kind) for kind in kinds for model in MODELS),
            ),
            Section("Second derivative of the loss at the trained weights", (), _table(means, kinds)),
        ),
    )  # fmt: skip


def _sentence(means: list[dict[str, Any]], kind: str) -> str:
    parts = []
    for model in MODELS:
        surface = [row for row in means if (row["model"], row["directions"]) == (model, kind)]
        centre = next(row["height"] for row in surface if row["a"] == row["b"] == 0)
        parts.append(f"{model} from {centre:.3g} at the trained weights to {max(r['height'] for r in surface):.3g}")
    reach = max(row["a"] for row in means)
    return f"In {kind} directions, up to {reach:g} times the length of the weights, the loss rises: {'; '.join(parts)}."


def _table(means: list[dict[str, Any]], kinds: list[str]) -> Table:
    body = []
    for kind in kinds:
        for model in MODELS:
            row = next(row for row in means if (row["model"], row["directions"]) == (model, kind))
            body.append((kind, model, f"{row['bend_a']:.3g}", f"{row['bend_b']:.3g}"))
    return Table(("directions", "model", "in a", "in b"), tuple(body))


def _picture(means: list[dict[str, Any]], model: str, kind: str) -> Picture:
    surface = [row for row in means if (row["model"], row["directions"]) == (model, kind)]
    a, b = (sorted({row[name] for row in surface}) for name in ("a", "b"))
    height = {(row["a"], row["b"]): row["height"] for row in surface}
    figure = go.Figure(go.Contour(x=a, y=b, z=[[height[i, j] for i in a] for j in b], colorscale="Viridis"))
    figure.update_xaxes(title="a")
    figure.update_yaxes(title="b", scaleanchor="x")
    caption = f"{model}, {kind} directions."
    return Picture(styled(figure), caption, f"Contours of the training loss of {model} in {kind} directions.")


def _grid(data: list[str], rows: int, width: int, epochs: int, side: int) -> list[dict[str, Any]]:
    return product(
        data=data, rows=[rows], width=[width], directions=["random", "hessian"], loss=["cross_entropy"],
        epochs=[epochs], reach=[1.0], side=[side],
    )  # fmt: skip


STUDY = Study(
    name="loss-surface",
    version=1,
    what="The training loss around trained weights, in two random or two steepest directions.",
    function="ridgeformer.studies.loss_surface:measure",
    presets={
        "quick": Preset(_grid(["digits"], 100, 64, 200, 11), seeds=3),
        "default": Preset(_grid(["digits"], 250, 256, 500, 21), seeds=5),
        "paper": Preset(_grid(["mnist", "cifar10"], 1000, 1024, 500, 31), seeds=5),
    },
    within=("model", "a", "b"),
    seconds=3600.0,
    memory=4 << 30,
    page=make_page,
)
