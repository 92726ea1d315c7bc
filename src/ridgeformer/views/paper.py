"""The figures of a page once more as SVG and PDF, drawn by matplotlib from the same numbers, for papers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.page import Page
from ridgeformer.views.sections import Picture, Strip
from ridgeformer.views.thumbnails import as_bytes

__all__ = ["draw_for_paper", "write_figures"]

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
SIZE = (6.0, 3.6)
"""Inches: the width of a text column."""

LOOK = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e6eb",
    "grid.linewidth": 0.6, "legend.frameon": False, "legend.fontsize": 8, "svg.hashsalt": "ridgeformer",
    "pdf.fonttype": 42, "axes.axisbelow": True,
}  # fmt: skip


def write_figures(page: Page, directory: Path) -> tuple[Path, ...]:
    """Write every named figure of a page as NAME.svg and NAME.pdf, and return the paths.

    Raises:
        RidgeformerError: matplotlib is not installed, or the directory cannot be written to.
    """
    matplotlib = _matplotlib()
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(LOOK):
            for name, figure in _figures(page):
                for ending, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                    path = directory / f"{name}.{ending}"
                    figure.savefig(path, metadata=metadata, bbox_inches="tight")
                    written.append(path)
    except OSError as error:
        raise RidgeformerError(f"cannot write {directory} ({error.strerror}): choose another place.") from None
    return tuple(written)


def draw_for_paper(figure: go.Figure) -> Any:
    """Return a figure of lines and bars as one of matplotlib's, with the same numbers, names and axes.

    Raises:
        RidgeformerError: matplotlib is not installed.
    """
    plain, axes = _sheet(SIZE)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    labels = list(dict.fromkeys(label for trace in bars for label in trace.y))
    for trace in figure.data:
        if trace.type == "bar":
            _bar(axes, trace, labels, bars.index(trace), len(bars))
        elif not bars:
            x = np.arange(len(trace.y)) if trace.x is None else trace.x
            look = {"color": trace.line.color, "linestyle": DASHES[trace.line.dash or "solid"]}
            axes.plot(
                x, trace.y, label=trace.name, marker="o" if "markers" in (trace.mode or "") else None, ms=3, **look
            )
        else:  # a line across bars, such as a threshold
            axes.axvline(trace.x[0], color=trace.line.color, linestyle="--", label=trace.name)
    _dress(axes, figure, labels)
    return plain


def _bar(axes: Any, trace: Any, labels: list[str], number: int, count: int) -> None:
    height = 0.8 / count
    places = [labels.index(label) + (number - (count - 1) / 2) * height for label in trace.y]
    error = trace.error_x
    above = None if error.array is None else np.asarray(error.array)
    below = above if error.arrayminus is None else np.asarray(error.arrayminus)
    whiskers = None if above is None else [below, above]
    look = {"xerr": whiskers, "error_kw": {"lw": 0.8, "ecolor": "#7a8496"}, "label": trace.name}
    axes.barh(places, trace.x, height, color=trace.marker.color, **look)


def _dress(axes: Any, figure: go.Figure, labels: list[str]) -> None:
    for side, axis in (("x", figure.layout.xaxis), ("y", figure.layout.yaxis)):
        getattr(axes, f"set_{side}label")((axis.title.text or "").replace("<br>", " "))
        if axis.type == "log":
            getattr(axes, f"set_{side}scale")("log")
        if axis.range is not None:
            getattr(axes, f"set_{side}lim")(*axis.range)
    if labels:
        axes.set_yticks(range(len(labels)), [label.replace("<br>", "\n") for label in labels])
        if figure.layout.yaxis.autorange == "reversed":
            axes.invert_yaxis()
    if figure.layout.showlegend is not False:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False)


def _strip(strip: Strip) -> Any:
    plain, axes = _sheet((0.75 * len(strip.images), 1.1), len(strip.images))
    for axis, image in zip(np.atleast_1d(axes), strip.images, strict=True):
        axis.imshow(as_bytes(image.pixels), cmap="gray", vmin=0, vmax=255)
        axis.set_axis_off()
        axis.set_title(image.title, fontsize=6)
    return plain


def _figures(page: Page) -> Iterator[tuple[str, Any]]:
    """Yield every named figure and strip of a page, drawn; a figure is let go before the next is made."""
    for section in page.sections:
        for part in section.body:
            if isinstance(part, Picture) and part.name:
                yield part.name, draw_for_paper(part.figure)
            elif isinstance(part, Strip) and part.name:
                yield part.name, _strip(part)


def _sheet(size: tuple[float, float], columns: int = 1) -> tuple[Any, Any]:
    """Return an empty figure and its axes, without touching matplotlib's global state."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(LOOK):
        figure = matplotlib.figure.Figure(figsize=size)
        return figure, figure.subplots(1, columns)


def _matplotlib() -> Any:
    try:
        import matplotlib.figure
    except ImportError:
        raise RidgeformerError(
            "figures as SVG and PDF are drawn by matplotlib, which is missing: pip install 'ridgeformer[figures]'."
        ) from None
    return matplotlib
