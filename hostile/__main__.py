"""Run the adversary: `python -m hostile --solves 20000 --certificates 1000 --files 2000`.

Cases go to worker processes in chunks. A case that takes longer than `CASE_SECONDS` counts as a hang, in Python by an
alarm and in compiled code by ending the worker. The exit code is 1 if any promise was broken.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from hostile.tally import Tally

KINDS = {"solves": "hostile.solves", "certificates": "hostile.certificates", "files": "hostile.files"}
"""Kinds of attack, each a module with `attack(tally, index, seed)`."""

CHUNK = {"solves": 50, "certificates": 10, "files": 25}
"""Cases that a worker tries in one go."""

CASE_SECONDS = 60
"""A case that takes longer counts as a hang."""

HANG = "no case hangs"


class HangError(BaseException):
    """Raised by the alarm; no handler of ordinary exceptions catches it."""


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Raise `HangError` in this block after this many seconds."""

    def ring(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def try_cases(kind: str, indices: range, seed: int) -> str:
    """Try some cases of one kind and return the tally as JSON."""
    import torch

    torch.set_num_threads(1)
    attack: Callable[[Tally, int, int], None] = import_module(KINDS[kind]).attack
    tally = Tally()
    for index in indices:
        try:
            with alarm(CASE_SECONDS):
                attack(tally, index, seed)
        except HangError:
            tally.hold(HANG, f"{kind} {index} (seed {seed})", False, f"took more than {CASE_SECONDS} s")
        else:
            tally.hold(HANG, f"{kind} {index} (seed {seed})", kept=True)
    return tally.as_json()


def run(kind: str, cases: int, seed: int, deadline: float, workers: int) -> tuple[Tally, int]:
    """Try this many cases in worker processes; return the tally and how many were reached before the deadline."""
    total, size, reached = Tally(), CHUNK[kind], 0
    chunks = [range(start, min(start + size, cases)) for start in range(0, cases, size)]
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        waiting = [(chunk, pool.apply_async(try_cases, (kind, chunk, seed))) for chunk in chunks]
        for chunk, result in waiting:
            try:
                total.add(Tally.from_json(result.get(max(1.0, min(deadline - time.monotonic(), size * CASE_SECONDS)))))
            except multiprocessing.TimeoutError:
                if time.monotonic() < deadline:
                    total.hold(
                        HANG, f"{kind} {chunk.start}-{chunk.stop - 1} (seed {seed})", False, "compiled code hangs"
                    )
                break
            reached += len(chunk)
            print(
                f"\r{kind}: {reached:,} of {cases:,}, {len(total.broken)} broken", end="", file=sys.stderr, flush=True
            )
    print(file=sys.stderr)
    return total, reached


def main() -> int:
    """Run every kind that was asked for, print the tables, write the page."""
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--solves", type=int, default=0, metavar="N", help="solves against ball arithmetic")
    parser.add_argument("--certificates", type=int, default=0, metavar="N", help="certificates of compiled models")
    parser.add_argument("--files", type=int, default=0, metavar="N", help="damaged files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="for all of it; what was reached is said")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--page", type=Path, help="where to write the page, such as docs/reliability.md")
    arguments = parser.parse_args()
    begin = time.monotonic()
    found = {}
    for kind in KINDS:
        if cases := getattr(arguments, kind):
            deadline = begin + 60 * arguments.minutes
            found[kind] = (*run(kind, cases, arguments.seed, deadline, arguments.workers), cases)
    text = page(found, arguments, time.monotonic() - begin)
    print(text)
    if arguments.page:
        arguments.page.write_text(INTRODUCTION + text)
    return int(any(tally.broken for tally, _, _ in found.values()))


INTRODUCTION = """# Reliability

Trust is what this library sells, so it comes with an adversary. `make hostile` draws problems that are ordinary,
extreme and malicious, runs them through the public functions, and compares every number with exact arithmetic: rational
dot products and [python-flint](https://python-flint.readthedocs.io)'s ball arithmetic at 3,000 bits, which shares no
code with the solvers. A refusal in a plain sentence is an honest answer; a wrong number, a bound that does not hold, a
foreign exception or a hang is a broken promise. Every case is determined by its kind, number and seed, so any
failure can be replayed. A fixed slice of it is part of `make test`, with tests that loosen the rounding constants and
require that the slice then fails.

"""


def page(found: dict[str, tuple[Tally, int, int]], arguments: argparse.Namespace, seconds: float) -> str:
    """Return what was promised, tried and broken, as Markdown."""
    import torch

    wanted = " ".join(f"--{kind} {cases}" for kind, (_, _, cases) in found.items())
    lines = [
        f"Written by `python -m hostile {wanted} --seed {arguments.seed} --page docs/reliability.md` in "
        f"{seconds / 60:.0f} minutes on {_processor()}, {arguments.workers} processes, PyTorch {torch.__version__}.",
        "",
    ]
    for kind, (tally, reached, cases) in found.items():
        lines += [f"## {kind.capitalize()}", "", f"{reached:,} cases of {cases:,} asked for.", ""]
        lines += ["| promise | tried | broken |", "|---|---|---|"]
        for promise, tried in sorted(tally.tried.items()):
            lines.append(f"| {promise} | {tried:,} | {sum(one.promise == promise for one in tally.broken):,} |")
        lines += ["", *(f"- {one.promise}: {one.case}: {one.what}" for one in tally.broken[:50]), ""]
    return "\n".join(lines)


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    from hostile.__main__ import main as by_name  # spawned workers can import `try_cases` from there, not from __main__

    sys.exit(by_name())
