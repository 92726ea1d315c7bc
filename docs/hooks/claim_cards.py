"""Puts the record of a claim where a page says `<!-- claim W4 -->`: the ledger's own words, never a copy of them."""

from __future__ import annotations

import re
from typing import Any

from ridgeformer.claims import CLAIMS, Claim
from ridgeformer.views.claims_page import provenance

MARK = re.compile(r"^<!-- claim (\w+) -->$", re.M)
RECORDS = {claim.id: claim for claim in CLAIMS}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page; a mark without a claim stops the build."""
    return MARK.sub(lambda found: card(RECORDS[found[1]]), markdown)


def card(claim: Claim) -> str:
    """Return the record as a box that opens."""
    lines = ["*As stated.* " + claim.stated, "", f"$${claim.formula}$$", ""]
    if claim.corrected:
        lines += ["*What is true.* " + claim.corrected, ""]
    if claim.corrected_formula:
        lines += [f"$${claim.corrected_formula}$$", ""]
    if claim.condition:
        lines += ["*When.* " + claim.condition, ""]
    lines += [f"Origin: {provenance(claim)}. Try it: `ridgeformer claims {claim.id}`."]
    head = f'??? quote "{claim.id} as published: {claim.full_verdict}. {claim.title}"'
    return "\n".join([head, "", *(f"    {line}" if line else "" for line in lines), ""])
