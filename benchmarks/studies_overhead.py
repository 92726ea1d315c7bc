"""What a study costs beyond its tasks: 10,000 that do nothing, beside joblib.Memory, which also keeps every result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import race, report
from joblib import Memory

from ridgeformer.studies import STUDIES, run
from ridgeformer.studies.registry import nothing

TASKS, LIMIT = len(STUDIES["overhead"].presets["paper"]), 20.0


def study(directory: Path) -> None:
    """Compute what the store in the directory does not have."""
    run("overhead", store=directory / "store.db", preset="paper")


def memory(directory: Path) -> None:
    """Call the same function as often through joblib's cache."""
    kept = Memory(directory / "joblib", verbose=0).cache(nothing)
    for number in range(TASKS):
        kept(number, seed=0)


def fresh(work: Callable[[Path], None]) -> None:
    """Run something in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        work(Path(directory))


def main() -> None:
    """Time both from nothing, and again with everything there."""
    with tempfile.TemporaryDirectory() as directory:
        runs = {
            ("study", "from nothing"): lambda: fresh(study),
            ("joblib.Memory", "from nothing"): lambda: fresh(memory),
            ("study", "all there"): lambda: study(Path(directory)),
            ("joblib.Memory", "all there"): lambda: memory(Path(directory)),
        }
        best = race({"|".join(name): run for name, run in runs.items()}, 2)
    rows = [
        {"what": name, "store": state, "seconds": round(seconds, 2), "us a task": round(1e6 * seconds / TASKS)}
        for (name, state), seconds in zip(runs, best.values(), strict=True)
    ]
    report("studies_overhead", {"tasks": f"{TASKS:,}", "runner": "in-process", "limit": f"{LIMIT:g} s"}, rows)
    if best["study|from nothing"] > LIMIT:
        raise SystemExit(f"the study took {best['study|from nothing']:.1f} s, more than {LIMIT:g} s")


if __name__ == "__main__":
    main()
