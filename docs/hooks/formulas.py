"""Typesets the formulas of every page to MathML while the site is built, so that no page fetches a script for it."""

from __future__ import annotations

import html
import re
from typing import Any

from ridgeformer.views.page import formula

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
DISPLAYED = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    """Replace what pymdownx.arithmatex marked as a formula."""
    content = DISPLAYED.sub(lambda found: f'<div class="formula">{typeset(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: typeset(found[1], "inline"), content)


def typeset(latex: str, display: str) -> str:
    """Return one formula as MathML."""
    return formula(html.unescape(latex).strip(), display)
