"""A page from finished results: a title, the answer in sentences, and sections that show why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeformer.claims import Claim
from ridgeformer.views.sections import Section, csv_link
from ridgeformer.views.thumbnails import png
from ridgeformer.views.writing import fill, write_html

__all__ = ["Page", "render_page", "write_page"]


@dataclass(frozen=True, eq=False)
class Page:
    """What a page says.

    Attributes:
        title: The largest words on it.
        subtitle: One line below.
        answer: The answer in sentences, most important first.
        sections: What shows why.
        claims: Records it rests on, for the reader to open.
        colophon: Last line, such as when and by which version it was made.
    """

    title: str
    subtitle: str
    answer: tuple[str, ...]
    sections: tuple[Section, ...]
    claims: tuple[Claim, ...] = ()
    colophon: str = ""


def render_page(page: Page) -> str:
    """Return a page as text."""
    anchors = _anchors(page.sections)
    leads = [_lead(sentence) for sentence in page.answer]
    return fill(
        "page.html.j2", **vars(page), anchors=anchors, csv_link=csv_link, png=png,
        leads=leads if all(words for words, _ in leads) else None,
    )  # fmt: skip


def write_page(page: Page, directory: Path) -> Path:
    """Write `report.html` into the directory and return its path; an old one is replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    return write_html(render_page(page), directory / "report.html")


def _anchors(sections: Sequence[Section]) -> list[str]:
    """Return an address within the page for every section; those of the same name are numbered."""
    found: list[str] = []
    for section in sections:
        name = section.anchor or re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        count = sum(other == name or other.startswith(f"{name}--") for other in found)
        found.append(f"{name}--{count + 1}" if count else name)
    return found


def _lead(sentence: str) -> tuple[str, str]:
    """Return the words before a colon that opens a sentence, to be set apart, and the rest.

    Example:
        >>> _lead("How good: very."), _lead("It is very good, it seems: very.")
        (('How good', 'Very.'), ('', 'It is very good, it seems: very.'))
    """
    words, colon, rest = sentence.partition(": ")
    return (words, rest[:1].upper() + rest[1:]) if colon and len(words.split()) <= 3 else ("", sentence)
