"""The figures of a page once more as SVG and PDF, drawn by matplotlib from the same numbers, for papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.figures import WHISKER, Figure, Trace
from ridgeformer.views.parts import Page, Picture, Strip, as_bytes

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = ["draw_for_paper", "write_figures"]

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
SIZE = (6.0, 3.6)  # inches: the width of a text column
LOOK = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#e3e6eb",
    "grid.linewidth": 0.6, "legend.frameon": False, "legend.fontsize": 8, "svg.hashsalt": "ridgeformer",
    "pdf.fonttype": 42, "axes.axisbelow": True,
}  # fmt: skip


def write_figures(page: Page, directory: Path) -> tuple[Path, ...]:
    """Write every named figure of a page as NAME.svg and NAME.pdf, and return the paths."""
    matplotlib = _matplotlib()
    parts = [part for section in page.sections for part in section.parts]
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(LOOK):
            for part in parts:
                if not isinstance(part, Picture | Strip) or not part.name:
                    continue
                figure = draw_for_paper(part.figure) if isinstance(part, Picture) else _strip(part)
                for ending, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
                    path = directory / f"{part.name}.{ending}"
                    figure.savefig(path, metadata=metadata, bbox_inches="tight")
                    written.append(path)
    except OSError as error:
        raise RidgeformerError(f"cannot write {directory} ({error.strerror}): choose another place.") from None
    return tuple(written)


def draw_for_paper(figure: Figure) -> matplotlib.figure.Figure:
    """Return a figure of lines and bars as one of matplotlib's, with the same numbers, names and axes."""
    plain, axes = _sheet(SIZE)
    bars = [trace for trace in figure["data"] if trace["type"] == "bar"]
    labels = list(dict.fromkeys(label for trace in bars for label in trace["y"]))
    for trace in figure["data"]:
        name = trace.get("name") if trace.get("showlegend", True) else None
        if trace["type"] == "bar":
            _draw_bars(axes, trace, labels, next(i for i, one in enumerate(bars) if one is trace), len(bars))
        elif not bars:
            x = np.arange(len(trace["y"])) if trace.get("x") is None else trace["x"]
            look = {"color": trace["line"]["color"], "linestyle": DASHES[trace["line"].get("dash", "solid")]}
            marker = "o" if "markers" in trace["mode"] else None
            axes.plot(x, trace["y"], label=name, marker=marker, ms=3, **look)
        else:  # a line across bars, such as a threshold
            axes.axvline(trace["x"][0], color=trace["line"]["color"], linestyle="--", label=name)
    _set_axes(axes, figure["layout"], labels)
    return plain


def _draw_bars(axes: Any, trace: Trace, labels: list[str], number: int, count: int) -> None:
    height = 0.8 / count
    places = [labels.index(label) + (number - (count - 1) / 2) * height for label in trace["y"]]
    error = trace.get("error_x")
    whiskers = None if error is None else [error["arrayminus"], error["array"]]
    look = {"xerr": whiskers, "error_kw": {"lw": 0.8, "ecolor": WHISKER}, "label": trace["name"]}
    axes.barh(places, trace["x"], height, color=trace["marker"]["color"], **look)


def _set_axes(axes: Any, layout: dict[str, Any], labels: list[str]) -> None:
    for side in ("x", "y"):
        axis = layout[f"{side}axis"]
        getattr(axes, f"set_{side}label")(axis["title"]["text"].replace("<br>", " "))
        if axis.get("type") == "log":
            getattr(axes, f"set_{side}scale")("log")
        if axis.get("range") is not None:
            ends = [10**end for end in axis["range"]] if axis.get("type") == "log" else axis["range"]
            getattr(axes, f"set_{side}lim")(*ends)
    if labels:
        axes.set_yticks(range(len(labels)), [label.replace("<br>", "\n") for label in labels])
        if layout["yaxis"].get("autorange") == "reversed":
            axes.invert_yaxis()
    if layout.get("showlegend", True):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False)


def _strip(strip: Strip) -> Any:
    plain, axes = _sheet((0.75 * len(strip.images), 1.1), len(strip.images))
    for axis, image in zip(np.atleast_1d(axes), strip.images, strict=True):
        axis.imshow(as_bytes(image.pixels), cmap="gray", vmin=0, vmax=255)
        axis.set_axis_off()
        axis.set_title(image.title, fontsize=6)
    return plain


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
