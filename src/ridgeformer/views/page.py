"""Pages as HTML: one self-contained file without outside requests, written in one step."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EISDIR
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from latex2mathml.converter import convert

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.figures import figure_json
from ridgeformer.views.parts import Page, Section, csv_link, png

__all__ = ["fill", "formula", "render_page", "require_place", "tidy", "write_html", "write_page"]


def render_page(page: Page) -> str:
    """Return a page as HTML; the words before the colon that opens each sentence of the answer are set apart."""
    leads = []
    for sentence in page.answer:
        words, _, rest = sentence.partition(": ")
        if rest and len(words.split()) <= 3:
            leads.append((words, rest[:1].upper() + rest[1:]))
    answered = leads if len(leads) == len(page.answer) else None
    anchors = _anchors(page.sections)
    return fill("page.html.j2", **vars(page), anchors=anchors, csv_link=csv_link, png=png, leads=answered)


def write_page(page: Page, path: Path) -> Path:
    """Write a page to a file, replacing an old one in one step, and return the path."""
    return write_html(render_page(page), path)


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
    script = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    return environment.get_template(template).render(
        plotly_js=script, figure_json=figure_json, formula=formula, **values
    )


def tidy(sentence: str) -> str:
    r"""Return a sentence whose numbers stay on one line with their per cent sign.

    Example:
        >>> tidy("98 % of them")
        '98\xa0% of them'
    """
    return sentence.replace(" %", "\u00a0%")


def formula(latex: str, display: str = "block") -> str:
    """Return a formula as MathML, on a line of its own or "inline"; browsers typeset it without a script.

    Example:
        >>> formula(r"x^2").startswith("<math")
        True
    """
    return convert(latex, display=display)


def require_place(path: Path) -> None:
    """Refuse a path where no page can be written, before the work for it begins; nothing is left there."""
    with _writing(path):
        above = next(folder for folder in path.absolute().parents if folder.exists())
        with tempfile.TemporaryFile(dir=above):
            pass
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder")


def write_html(text: str, path: Path) -> Path:
    """Write a page, replacing an old one in one step."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".page-") as work:
            page = Path(work) / "page.html"
            page.write_text(text, encoding="utf-8")
            return page.replace(path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RidgeformerError(f"cannot write {path} ({error.strerror}): choose another place.") from None


def _anchors(sections: Sequence[Section]) -> list[str]:
    """Return an address within the page for every section; equal titles are numbered."""
    anchors: list[str] = []
    for section in sections:
        name = section.anchor or re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        count = sum(other == name or other.startswith(f"{name}--") for other in anchors)
        anchors.append(f"{name}--{count + 1}" if count else name)
    return anchors
