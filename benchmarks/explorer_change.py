"""What one moved control costs the explorer: `python benchmarks/explorer_change.py`.

Every change is new to its caches: the ridge moves to a value not seen before. Times are of this process alone, on one
thread: the next state, all results, and the figures of all panels as text.
"""

from __future__ import annotations

import json
import time

import torch

from ridgeformer.app.callbacks import PANELS, _shown, headline, place
from ridgeformer.app.controls import apply, scope, shown
from ridgeformer.app.state import State

STATES = {
    "sine, 24 points, 8 steps": State(),
    "sine, 200 points, 30 steps": State(rows=200, steps=30),
    "digits, 200 rows, 30 steps": State(data="digits", rows=200, ridge=1.0, steps=30),
    "digits, 200 rows, linear, 30 steps": State(data="digits", rows=200, route="linear", steps=30),
    "sine, 200 points, vanilla, 60 steps": State(rows=200, route="vanilla", solver="richardson", steps=60),
}
REPEATS = 7


def change(state: State, number: int) -> float:
    """Return the seconds of processor time that moving the ridge a little takes, everything shown."""
    start = time.process_time()
    moved = apply(state, shown(state, scope(state)) | {"ridge": round(0.5 + 0.01 * number, 2)})
    address = moved.address
    headline(address)
    place(address)
    for show in PANELS.values():
        json.dumps(_shown(show)(address)[0])
    return time.process_time() - start


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print(f"{'':<38}{'best, ms':>10}{'worst, ms':>11}")
    for number, (name, state) in enumerate(STATES.items()):
        change(state, -1 - number)  # loads the data
        times = [1000 * change(state, repeat) for repeat in range(REPEATS)]
        print(f"{name:<38}{min(times):>10.0f}{max(times):>11.0f}")


if __name__ == "__main__":
    main()
