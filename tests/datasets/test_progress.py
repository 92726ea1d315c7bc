from __future__ import annotations

from ridgeformer.datasets.fetching import Progress, silent


def test_silent_is_a_progress() -> None:
    report: Progress = silent
    assert report(0, None, "anything") is None
