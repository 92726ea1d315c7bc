"""The theorems on these data: which of them say something here."""

from __future__ import annotations

from ridgeformer.auditing import Audit
from ridgeformer.views.parts import Section, Table

__all__ = ["claims_section"]


def claims_section(audit: Audit) -> Section:
    """Return the section on the claims that apply."""
    applied = audit.claims
    useful = [row for row in applied.rows if row.informative]
    ordered = [*useful, *(row for row in applied.rows if not row.informative)]
    rows = tuple((row.claim, row.what, f"{row.value:.4g}", "yes" if row.informative else "no") for row in ordered)
    values = tuple((row.claim, row.what, row.value, row.informative) for row in ordered)
    links = {row.claim: f"#{row.claim}" for row in ordered}
    return Section(
        "The claims that apply",
        (
            f"Of {len(applied.rows)} theorems evaluated on these data {len(useful)} say something here; the others "
            "hold and say nothing, such as a guarantee larger than the number of rows.",
            *applied.sentences,
        ),
        Table(("claim", "what it says here", "value", "says something"), rows, values, "claims", links),
        anchor="claims",
    )
