"""What every page shares: one self-contained file, no outside request, written in one step."""

from __future__ import annotations

import tempfile
from errno import EISDIR
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert
from plotly.offline import get_plotlyjs

from ridgeformer.core.errors import RidgeformerError

__all__ = ["fill", "formula", "require_place", "tidy", "write_html"]


def fill(template: str, **values: Any) -> str:
    """Return a template of this package, filled in; plotly's script is part of the page."""
    environment = Environment(
        loader=PackageLoader("ridgeformer.views", "."),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tidy"] = tidy
    return environment.get_template(template).render(plotly_js=get_plotlyjs(), draw=_draw, formula=formula, **values)


def tidy(sentence: str) -> str:
    r"""Return a sentence whose numbers stay on one line with their per cent sign.

    Example:
        >>> tidy("98 % of them")
        '98\xa0% of them'
    """
    return sentence.replace(" %", "\u00a0%")


def formula(latex: str, display: str = "block") -> str:
    """Return a formula as MathML, on a line of its own or "inline"; browsers typeset it without any script.

    Example:
        >>> formula(r"x^2").startswith("<math")
        True
    """
    return convert(latex, display=display)


def require_place(path: Path) -> None:
    """Refuse a place where no page can be written, before the work for it begins; nothing is left there.

    Raises:
        RidgeformerError: it cannot be written there.
    """
    try:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        with tempfile.TemporaryFile(dir=above):
            pass
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> RidgeformerError:
    return RidgeformerError(f"cannot write {path} ({error.strerror}): choose another place.")


def write_html(text: str, path: Path) -> Path:
    """Write a page, replacing an old one in one step.

    Raises:
        RidgeformerError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".page-") as work:
            page = Path(work) / "page.html"
            page.write_text(text, encoding="utf-8")
            return page.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _draw(figure: go.Figure) -> str:
    """Return a figure as its data; the script at the end of the page draws it, so that text comes first."""
    data = str(figure.to_json()).replace("<", "\\u003c")  # so that no text in it can end the element
    return f'<div class="plotly-graph-div" hidden><script type="application/json">{data}</script></div>'
