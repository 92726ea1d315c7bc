"""Makes the list of references from references.bib, and a link of every key that a page or a docstring cites."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

BIBLIOGRAPHY = Path(__file__).parents[1] / "references.bib"
MARK = "<!-- references -->"
CITED = re.compile(r"\[((?:von)?[A-Z][A-Za-z]+(?:19|20)\d\d)\]")
"""A key in square brackets: names and a year."""

ENTRY = re.compile(r"^@(\w+)\{(\w+),\n(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"(\w+) = \{(.*?)\}(?=,|\n|\Z)", re.S)
CODE = re.compile(r"(<pre.*?</pre>|<code.*?</code>|<title.*?</title>)", re.S)


class Entry(NamedTuple):
    """A work: its key, its kind and its fields."""

    key: str
    kind: str
    fields: dict[str, str]

    def line(self) -> str:
        """Return it as one item of a Markdown list."""
        found = self.fields
        parts = [_people(found["author"])] if "author" in found else []
        parts += [f"*{found['title']}*"] if "title" in found else []
        where = [found[name] for name in ("journal", "booktitle", "publisher") if name in found]
        if "edition" in found:
            where.append(f"{found['edition'].lower()} edition")
        if "volume" in found:
            where.append(found["volume"] + (f"({found['number']})" if "number" in found else ""))
        if "pages" in found:
            where.append(found["pages"].replace("--", "-"))
        parts.append(", ".join([*where, found["year"]]))
        if "eprint" in found:
            parts.append(f"[arXiv {found['eprint']}](https://arxiv.org/abs/{found['eprint']})")
        if "note" in found:
            parts.append(found["note"])
        return f'- <span id="{self.key}">**{self.key}**</span> ' + ". ".join(part.rstrip(".") for part in parts) + "."


def _people(authors: str) -> str:
    """Return "Surname, First and ..." as "First Surname, ...": at most six, then "and others"."""
    names = [" ".join(reversed(one.split(", "))) for one in authors.split(" and ")]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} others"


def entries(text: str | None = None) -> list[Entry]:
    """Return the works of the bibliography, by key."""
    text = BIBLIOGRAPHY.read_text(encoding="utf-8") if text is None else text
    found = [Entry(key, kind, dict(FIELD.findall(body))) for kind, key, body in ENTRY.findall(text)]
    return sorted(found, key=lambda entry: entry.key.lower())


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the list where a page asks for it."""
    return markdown.replace(MARK, "\n".join(entry.line() for entry in entries()))


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link every key that is cited; one that is not in the bibliography stops the build."""
    known = {entry.key for entry in entries()}
    up = "../" * page.url.count("/")

    def link(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise KeyError(f"{page.file.src_uri} cites {found[1]}, which references.bib does not have")
        return f'[<a href="{up}references.html#{found[1]}">{found[1]}</a>]'

    return "".join(part if number % 2 else CITED.sub(link, part) for number, part in enumerate(CODE.split(html)))
