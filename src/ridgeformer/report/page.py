"""The page of a finished audit."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.audit import Audit
from ridgeformer.claims import CLAIMS
from ridgeformer.report.sections import sections
from ridgeformer.report.writing import fill, write_page

__all__ = ["render", "write"]


def render(audit: Audit) -> str:
    """Return the page as text."""
    dataset = audit.data.dataset
    return fill(
        "page.html.j2",
        title=f"ridgeformer audit of {dataset.name}",
        subtitle=f"{dataset.n:,} rows, {dataset.d:,} features, {dataset.task}",
        answer=audit.sentences,
        sections=sections(audit),
        claims=CLAIMS,
    )


def write(audit: Audit, directory: Path) -> Path:
    """Write `report.html` into the directory and return its path; an old one is replaced in one step.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    return write_page(render(audit), directory / "report.html")
