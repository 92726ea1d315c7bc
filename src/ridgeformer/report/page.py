"""A page from finished results: a title, the answer in sentences, and sections that show why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ridgeformer.audit import Audit
from ridgeformer.claims import CLAIMS, Claim
from ridgeformer.report.sections import Section, sections
from ridgeformer.report.writing import fill, write_html

__all__ = ["Page", "render", "render_page", "write", "write_page"]


@dataclass(frozen=True, eq=False)
class Page:
    """What a page says; `claims` are the records it rests on, for the reader to open."""

    title: str
    subtitle: str
    answer: tuple[str, ...]
    sections: tuple[Section, ...]
    claims: tuple[Claim, ...] = ()


def render_page(page: Page) -> str:
    """Return a page as text."""
    return fill("page.html.j2", **vars(page))


def write_page(page: Page, directory: Path) -> Path:
    """Write `report.html` into the directory and return its path; an old one is replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    return write_html(render_page(page), directory / "report.html")


def render(audit: Audit) -> str:
    """Return the page of an audit as text."""
    return render_page(_audit_page(audit))


def write(audit: Audit, directory: Path) -> Path:
    """Write the page of an audit as `write_page` does."""
    return write_page(_audit_page(audit), directory)


def _audit_page(audit: Audit) -> Page:
    dataset = audit.data.dataset
    subtitle = f"{dataset.n:,} rows, {dataset.d:,} features, {dataset.task}"
    title = f"ridgeformer audit of {dataset.name}"
    return Page(title, subtitle, audit.sentences, tuple(sections(audit)), CLAIMS)
