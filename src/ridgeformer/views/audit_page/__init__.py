"""The page of an audit, its sections in reading order."""

from __future__ import annotations

from ridgeformer.auditing import Audit
from ridgeformer.claims import CLAIMS
from ridgeformer.core.words import count, number
from ridgeformer.views.audit_page.coverage import coverage_section
from ridgeformer.views.audit_page.field import (
    drivers_section,
    errors_section,
    fits_section,
    labels_section,
    reproduce_section,
)
from ridgeformer.views.audit_page.fit import compiled_section, data_section, size_section
from ridgeformer.views.audit_page.networks import influence_section, regime_section
from ridgeformer.views.parts import Form, Page, Section, Table

__all__ = ["audit_page", "claims_section", "settings_section"]


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    dataset = audit.data.dataset
    target = count(len(dataset.classes), "class", "classes") if dataset.classes else "regression"
    applied = {row.claim for row in audit.claims.rows}
    return Page(
        title=f"What attention makes of {dataset.name}",
        subtitle=f"{dataset.n:,} rows of {count(dataset.d, 'feature')}, {target} · ridgeformer audit",
        answer=audit.sentences,
        sections=(
            fits_section(audit),
            errors_section(audit),
            coverage_section(audit.coverage, dataset.target),
            drivers_section(audit),
            labels_section(audit),
            reproduce_section(audit),
            data_section(audit),
            compiled_section(audit),
            size_section(audit),
            regime_section(audit),
            influence_section(audit),
            claims_section(audit),
            settings_section(audit),
        ),
        claims=tuple(claim for claim in CLAIMS if claim.id in applied),
        colophon=f"Made by ridgeformer {audit.versions['ridgeformer']} with seed {audit.settings.seed} in "
        f"{sum(audit.seconds.values()):.0f} seconds. This file is self-contained and makes no network requests.",
    )


def claims_section(audit: Audit) -> Section:
    """Return the section on the theorems that apply to these data, informative ones first."""
    applied = audit.claims
    rows = sorted(applied.rows, key=lambda row: not row.informative)
    useful = sum(row.informative for row in rows)
    columns: dict[str, Form] = {"claim": "", "what it says here": "", "value": number, "informative": ""}
    values = [(row.claim, row.what, row.value, "yes" if row.informative else "no") for row in rows]
    return Section(
        "The claims that apply",
        (
            f"Of {len(rows)} theorems evaluated on these data, {useful} are informative; the others hold but say "
            "nothing here, such as a guarantee larger than the number of rows.",
            *applied.sentences,
            Table.of(columns, values, "claims", links={row.claim: f"#{row.claim}" for row in rows}),
        ),
        anchor="claims",
    )


def settings_section(audit: Audit) -> Section:
    """Return the section with everything needed to repeat the audit."""
    seconds, total = audit.seconds, sum(audit.seconds.values())
    slowest = max(seconds, key=seconds.__getitem__)
    timing = {"stage": "", "seconds": ".1f", "of the total": ".0%"}
    settings = [
        (key.replace("_", " "), ", ".join(map(_plain, value)) if isinstance(value, tuple) else value)
        for key, value in vars(audit.settings).items()
    ]
    return Section(
        "Settings, versions, seeds, timing",
        (
            f"Everything random follows from seed {audit.settings.seed}; the same seed, data and versions give the "
            f"same numbers. Source of the data: {audit.data.dataset.source or 'given in memory'}.",
            f"The audit took {total:.0f} seconds, most of them ({seconds[slowest]:.0f}) {slowest}.",
            Table.of(timing, [(name, value, value / total) for name, value in seconds.items()], "timing"),
            Table.of({"setting": "", "value": str}, settings, "settings"),
            Table.of({"software": "", "version": ""}, audit.versions.items(), "versions"),
        ),
        anchor="settings",
    )


def _plain(value: int | float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
