"""The page of an influence answer: the words, the points, and their images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ridgeformer.datasets import Dataset
from ridgeformer.views.figures import styled
from ridgeformer.views.page import Page, render_page
from ridgeformer.views.sections import Picture, Section, Table
from ridgeformer.views.writing import write_html

if TYPE_CHECKING:  # influence stands beside the report, not below it
    from ridgeformer.influence.answer import Answer, Point

__all__ = ["influence_page", "write_influence_page"]


def influence_page(answer: Answer, dataset: Dataset) -> Page:
    """Return the page; images are shown where the rows of the dataset are images."""
    sides = (("Helpful", answer.helpful), ("Harmful", answer.harmful))
    rows = tuple((name, str(p.row), p.label, f"{p.score:.4g}") for name, points in sides for p in points)
    pictures: tuple[Picture, ...] = ()
    if dataset.image_shape is not None:
        pictures = tuple(_picture(answer, dataset, name, points) for name, points in sides if points)
    return Page(
        f"What made the prediction at row {answer.row} of {answer.name}",
        f"{answer.model}, {answer.training_rows:,} training rows, ridge {answer.ridge:.2e}",
        answer.sentences,
        (
            Section("The points", (), Table(("", "row", "label", "score"), rows), pictures),
            Section("What was done to the data", answer.notes),
        ),
    )


def write_influence_page(answer: Answer, dataset: Dataset, path: Path) -> Path:
    """Write the page; an old one is replaced in one step."""
    return write_html(render_page(influence_page(answer, dataset)), path)


def _picture(answer: Answer, dataset: Dataset, name: str, points: tuple[Point, ...]) -> Picture:
    shown = [(f"asked: row {answer.row} ({answer.truth})", answer.row)]
    shown += [(f"row {point.row} ({point.label})", point.row) for point in points]
    figure = make_subplots(rows=1, cols=len(shown), subplot_titles=[title for title, _ in shown])
    for column, (_, row) in enumerate(shown, start=1):
        figure.add_trace(_image(dataset, row), row=1, col=column)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed", scaleanchor="x")
    caption = f"{name} points, the strongest first, beside the row asked about."
    return Picture(styled(figure), caption, f"Images of the row asked about and of the {name.lower()} points.")


def _image(dataset: Dataset, row: int) -> go.Heatmap | go.Image:
    assert dataset.image_shape is not None
    image = dataset.X[row].reshape(dataset.image_shape)
    if image.ndim == 2:
        return go.Heatmap(z=image, colorscale="gray", showscale=False, hoverinfo="skip")
    top = float(dataset.X.max()) or 1.0
    return go.Image(z=np.rint(np.clip(image / top, 0, 1) * 255).astype(np.uint8), hoverinfo="skip")
