"""Settings, versions, seeds and timing."""

from __future__ import annotations

from typing import Any

from ridgeformer.auditing import Audit
from ridgeformer.views.parts import Section, Table

__all__ = ["settings_section"]


def settings_section(audit: Audit) -> Section:
    """Return the section that lets someone do it again."""
    seconds = audit.seconds
    total = sum(seconds.values())
    times = tuple((name, f"{value:.1f}", f"{100 * value / total:.0f} %") for name, value in seconds.items())
    slowest = max(seconds, key=seconds.__getitem__)
    choices = vars(audit.settings)
    dataset = audit.data.dataset
    return Section(
        "Settings, versions, seeds, timing",
        parts=(
            f"Everything random follows from seed {audit.settings.seed}; the same seed, data and versions give the "
            f"same numbers. Source of the data: {dataset.source or 'given in memory'}.",
            f"The audit took {total:.0f} seconds, most of them ({seconds[slowest]:.0f}) {slowest}.",
            Table(("stage", "seconds", "share"), times, tuple(seconds.items()), "timing"),
            Table(("setting", "value"), tuple((key.replace("_", " "), _shown(value)) for key, value in choices.items()),
                  tuple((key, _shown(value)) for key, value in choices.items()), "settings"),
            Table(("software", "version"), tuple(audit.versions.items()), (), "versions"),
        ),
        anchor="settings",
    )  # fmt: skip


def _shown(value: Any) -> str:
    return ", ".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)
