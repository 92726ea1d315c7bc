"""Lets the reference show docstrings as they were meant: plain text with mathematics, and doctests as code.

Markdown would take `alpha*` for the start of emphasis and <x, z> for a tag, and griffe knows a section "Examples:"
where ours say "Example:".
"""

from __future__ import annotations

import re
from typing import Any

import griffe

CODE = re.compile(r"(`[^`]*`)")
MARKUP = re.compile(r"(?<=[\w)|])\*|(?<=[)|\]])_")


class PlainDocstrings(griffe.Extension):
    """Rewrite docstrings while the sources are read; the sources stay as they are."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one."""
        if obj.docstring:
            text, example, doctest = obj.docstring.value.partition("\nExample:\n")
            obj.docstring.value = escape(text) + (f"\nExamples:\n{doctest}" if example else "")


def escape(text: str) -> str:
    """Escape what Markdown would take as markup, outside backticks."""
    pieces = CODE.split(text)
    pieces[::2] = [MARKUP.sub(r"\\\g<0>", piece).replace("<", "&lt;") for piece in pieces[::2]]
    return "".join(pieces)
