"""One self-contained HTML page from a finished audit: no outside request, ever."""

from __future__ import annotations

import tempfile
from pathlib import Path

import plotly.io
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from plotly.offline import get_plotlyjs

from ridgeformer.audit import Audit
from ridgeformer.errors import RidgeformerError
from ridgeformer.report.sections import Picture, sections

__all__ = ["render", "write"]


def render(audit: Audit) -> str:
    """Return the page as text."""
    environment = Environment(
        loader=PackageLoader("ridgeformer.report", "."),
        autoescape=select_autoescape(["html", "j2"]),
        undefined=StrictUndefined,
    )
    dataset = audit.data.dataset
    return environment.get_template("page.html.j2").render(
        title=f"ridgeformer audit of {dataset.name}",
        subtitle=f"{dataset.n:,} rows, {dataset.d:,} features, {dataset.task}",
        answer=audit.sentences,
        sections=sections(audit),
        plotly_js=get_plotlyjs(),
        draw=_draw,
    )


def write(audit: Audit, directory: Path) -> Path:
    """Write `report.html` into the directory and return its path; an old one is replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    text = render(audit)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".report-") as work:
            page = Path(work) / "report.html"
            page.write_text(text, encoding="utf-8")
            return page.replace(directory / "report.html")
    except OSError as error:
        raise RidgeformerError(
            f"cannot write into {directory} ({error.strerror}): choose another directory with --out."
        ) from None


def _draw(picture: Picture) -> str:
    config = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
    html: str = plotly.io.to_html(picture.figure, full_html=False, include_plotlyjs=False, config=config)
    return html
