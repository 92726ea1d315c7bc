"""The dress that every figure of a page has: colours, axes, legend."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log10
from textwrap import wrap
from typing import Any

import plotly.graph_objects as go

__all__ = ["PALETTE", "broken", "log_axis", "styled"]

PALETTE = ("#3b6fd4", "#d1603d", "#2f9e77", "#8a63c9", "#b08a1e")
"""Colours that can be told apart on white and on black, and by most colour-blind people."""

MOST_TICKS = 8


def styled(figure: go.Figure) -> go.Figure:
    """Return the figure in the dress that every page of ours has."""
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 70, "r": 20, "t": 34, "b": 55},
        height=420,
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "rgba(128,128,128,0.7)", "activecolor": PALETTE[0]},
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0},
        hovermode="x unified",
    )
    figure.update_xaxes(gridcolor="rgba(128,128,128,0.2)", zeroline=False, automargin=True)
    figure.update_yaxes(gridcolor="rgba(128,128,128,0.2)", zeroline=False, automargin=True)
    return figure


def broken(words: str, width: int = 22) -> str:
    """Return words with line breaks for a label on an axis.

    Example:
        >>> broken("ReLU network behind attention")
        'ReLU network behind<br>attention'
    """
    return "<br>".join(wrap(words, width))


def log_axis(title: str, *values: Iterable[Any]) -> dict[str, object]:
    """Return a logarithmic axis with powers of ten on it, at most eight, and nothing between them.

    Args:
        title: What it measures.
        values: All that will be shown along it.

    Example:
        >>> log_axis("error", [1.0, 1e-13])["dtick"]
        2
    """
    shown = [value for part in values for value in part if value > 0]
    decades = log10(max(shown) / min(shown)) if shown else 1.0
    return {"title": title, "type": "log", "exponentformat": "power", "dtick": max(1, ceil(decades / MOST_TICKS))}
