"""What one moved control costs the explorer, in this process and in a real browser.

Every change is new to its caches: the ridge moves to a value not seen before. "Computed" is processor time of this
process alone, on one thread: the next state, all results, and the figures of all panels as text. "Seen" is wall time in
a headless Chromium of 1400 by 900 pixels from the key pressed on the slider until everything in sight shows the new
state, Dash's own waiting included; "all" until the panels below do too. Browser and server share the machine.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from harness import report

from ridgeformer.views.explorer.controls import apply, scope, shown
from ridgeformer.views.explorer.server import show
from ridgeformer.views.explorer.state import State

sys.path.append(str(Path(__file__).parents[1]))
from tests.real_browser import chromium
from tests.views.explorer.served_explorer import AWAITED, Explorer, served

STATES = {
    "sine, 24 points, 8 steps": State(),
    "sine, 200 points, 30 steps": State(rows=200, steps=30),
    "digits, 200 rows, 30 steps": State(data="digits", rows=200, ridge=1.0, steps=30),
    "digits, 200 rows, linear, 30 steps": State.parse("data=digits&rows=200&attention=linear&steps=30"),
    "sine, 200 points, vanilla, 60 steps": State.parse("rows=200&attention=vanilla&steps=60"),
}
REPEATS = 7


def change(state: State, number: int) -> float:
    """Return the seconds of processor time that moving the ridge a little takes, everything shown."""
    start = time.process_time()
    moved = apply(state, shown(state, scope(state)) | {"ridge": round(0.5 + 0.01 * number, 2)})
    json.dumps(show(moved.address, state.address)[1])
    return time.process_time() - start


SETTLED = f"""(all) => new Promise((done) => {{
  const begin = performance.now(), awaited = {AWAITED};
  const below = (id) => document.getElementById(id)?.getBoundingClientRect().top >= innerHeight;
  const left = () => awaited().filter((name) => all || !below(name));
  const look = () => left().length ? requestAnimationFrame(look) : done(performance.now() - begin);
  requestAnimationFrame(look);
}})"""


def seen(explorer: Explorer, key: str) -> tuple[float, float]:
    """Return the seconds from a key pressed on the ridge's slider until what is in sight, and until all, follows."""
    explorer.page.focus("#ridge")
    begin = time.perf_counter()
    explorer.page.keyboard.press(key)
    explorer.page.evaluate(SETTLED, False)
    in_sight = time.perf_counter() - begin
    explorer.page.evaluate(SETTLED, True)
    return in_sight, time.perf_counter() - begin


def main() -> None:
    """Print and keep a table."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with served() as base, chromium() as browser:
        for number, (name, state) in enumerate(STATES.items()):
            change(state, -1 - number)  # loads the data
            computed = [1000 * change(state, repeat) for repeat in range(REPEATS)]
            explorer = Explorer(browser, base, viewport={"width": 1400, "height": 900}).open(state.address)
            times = [seen(explorer, "ArrowRight") for _ in range(REPEATS)]
            in_sight, everything = ([1000 * each for each in column] for column in zip(*times, strict=True))
            explorer.page.context.close()
            rows.append({
                "state": name, "computed, ms": round(median(computed)), "seen, ms": round(median(in_sight)),
                "worst, ms": round(max(in_sight)), "all, ms": round(median(everything)), "asked": "300",
            })  # fmt: skip
    settings = {"changes": REPEATS, "of each": "the median and the worst"}
    report("explorer_change", settings, rows, how="`python benchmarks/explorer_change.py`")


if __name__ == "__main__":
    main()
