"""The page of an audit, one section a file, in the order in which it is read."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.auditing import Audit
from ridgeformer.claims import CLAIMS
from ridgeformer.views.audit_page.claims import claims_section
from ridgeformer.views.audit_page.compiled import compiled_section
from ridgeformer.views.audit_page.data import data_section
from ridgeformer.views.audit_page.fits import fits_section
from ridgeformer.views.audit_page.influence import influence_section
from ridgeformer.views.audit_page.regime import regime_section
from ridgeformer.views.audit_page.settings import settings_section
from ridgeformer.views.audit_page.size import size_section
from ridgeformer.views.page import render_page, write_page
from ridgeformer.views.parts import Page

__all__ = ["audit_page", "render", "write"]

SECTIONS = (
    data_section,
    fits_section,
    compiled_section,
    size_section,
    regime_section,
    influence_section,
    claims_section,
    settings_section,
)


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    dataset = audit.data.dataset
    many = f"{len(dataset.classes)} classes" if dataset.classes else "regression"
    applied = {row.claim for row in audit.claims.rows}
    return Page(
        title=f"What attention makes of {dataset.name}",
        subtitle=f"{dataset.n:,} rows of {dataset.d:,} features, {many} · ridgeformer audit",
        answer=audit.sentences,
        sections=tuple(section(audit) for section in SECTIONS),
        claims=tuple(claim for claim in CLAIMS if claim.id in applied),
        colophon=f"Made by ridgeformer {audit.versions['ridgeformer']} with seed {audit.settings.seed} in "
        f"{sum(audit.seconds.values()):.0f} seconds. This file is complete in itself and asks no server for anything.",
    )


def render(audit: Audit) -> str:
    """Return the page of an audit as text."""
    return render_page(audit_page(audit))


def write(audit: Audit, directory: Path) -> Path:
    """Write the page of an audit as `report.html` into a directory and return its path."""
    return write_page(audit_page(audit), directory / "report.html")
