"""Damaged and malicious files of every kind that the library reads."""

from __future__ import annotations

import ctypes
import io
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hostile.mutations import Damage, damage
from hostile.specimens import Specimen, specimens
from hostile.tally import Tally
from ridgeformer.cli import main
from ridgeformer.core.errors import RidgeformerError
from ridgeformer.core.seeds import numpy_generator

__all__ = ["attack", "choose"]

INTACT = "an intact file is read exactly"
DAMAGED = "a damaged file is refused, or read as what it was"
HOSTILE = "a hostile file is refused, or read as finite and consistent values"
MEMORY = "memory stays bounded by the size of the file"
QUICK = "a file is refused or read within 5 seconds"
COMMAND = "a refused file is exit code 2 and one line"
UNCHANGED = "reading changes no file"

SECONDS = 5.0
ALLOWANCE, RATIO = 256 * 2**20, 200
"""Bytes of memory that reading may take: a constant, and a number for each byte of the files."""

GUARD = 6 * 2**30
"""Bytes of address space that reading may ask for, so that a bomb cannot take the machine with it."""


def attack(tally: Tally, index: int, seed: int) -> None:
    """Make a file, damage it (or not), read it, and hold what happened against the promises."""
    specimen, done, draw = choose(index, seed)
    case = f"files {index} (seed {seed}): {specimen.name}, {done.what}"
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        _write(folder, done)
        before = _listing(folder)
        found, refusal = _read(tally, case, specimen, folder, sum(map(len, done.files.values())))
        tally.hold(UNCHANGED, case, _listing(folder) == before, "a file appeared, vanished or changed its size")
        if refusal is not None and specimen.command is not None and draw.random() < 0.3:
            _try_command(tally, case, specimen.command(folder))
    _judge(tally, case, specimen, done, found, refusal)


def choose(index: int, seed: int) -> tuple[Specimen, Damage, np.random.Generator]:
    """Return the kind of file of a case, the damage, and the generator for what is left to draw."""
    draw = numpy_generator(seed, "hostile.files", index)
    kinds = specimens()
    specimen = kinds[draw.integers(len(kinds))]
    return specimen, Damage("intact", specimen.files) if draw.random() < 0.05 else damage(specimen, draw), draw


def _write(folder: Path, done: Damage) -> None:
    for name, content in done.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if done.place is not None:
        done.place(folder)


def _listing(folder: Path) -> list[tuple[str, int]]:
    return sorted(
        (str(path.relative_to(folder)), os.lstat(path).st_size) for path in folder.rglob("*") if not path.is_dir()
    )


def _read(tally: Tally, case: str, specimen: Specimen, folder: Path, size: int) -> tuple[Any, str | None]:
    """Read the files; return what came of it and None, or None and the refusal."""
    found, refusal = None, None
    begin = time.process_time()
    with _guarded(), _peak_memory() as peak, tally.only_our_errors(case):
        try:
            found = specimen.read(folder)
        except RidgeformerError as error:
            refusal = str(error)
            raise
    if found is None and refusal is None:
        refusal = "a foreign exception, counted above"
    seconds = time.process_time() - begin
    tally.hold(QUICK, case, seconds < SECONDS, f"{seconds:.1f} s of processor time")
    wanted = "needs more memory than is free" in (refusal or "")
    kept = not wanted and peak() <= ALLOWANCE + RATIO * size
    tally.hold(MEMORY, case, kept, f"{peak() / 2**20:.0f} MiB for {size:,} bytes{', and more was wanted' * wanted}")
    return found, refusal


def _judge(tally: Tally, case: str, specimen: Specimen, done: Damage, found: Any, refusal: str | None) -> None:
    """Compare what was read with the intact content."""
    if done.what == "intact":
        tally.hold(INTACT, case, refusal is None and found == _truth(specimen), refusal or "other values")
    elif done.resealed or not specimen.sealed:
        tally.hold(HOSTILE, case, kept=True)  # `describe` has raised otherwise, which is a foreign exception
    else:
        tally.hold(DAMAGED, case, refusal is not None or found == _truth(specimen), "other values were read")


_truths: dict[str, Any] = {}


def _truth(specimen: Specimen) -> Any:
    """Return what the intact files of a kind hold."""
    if specimen.name not in _truths:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), Damage("intact", specimen.files))
            _truths[specimen.name] = specimen.read(Path(folder))
    return _truths[specimen.name]


def _try_command(tally: Tally, case: str, arguments: list[str]) -> None:
    """Give a refused file to the command line."""
    out, err, before, code = io.StringIO(), io.StringIO(), sys.argv, None
    sys.argv = ["ridgeformer", *arguments]
    try:
        with _guarded(), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    except Exception as error:
        err.write(f"{type(error).__name__}: {error}")
    finally:
        sys.argv = before
    lines = err.getvalue().splitlines()
    kept = code == 2 and len(lines) == 1 and lines[0].startswith("error: ")
    tally.hold(COMMAND, case, kept, f"exit code {code}: {err.getvalue()[:200]!r}")


@contextmanager
def _guarded() -> Iterator[None]:
    """Limit the address space while something is read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(
        resource.RLIMIT_AS, (now + GUARD if hard == resource.RLIM_INFINITY else min(now + GUARD, hard), hard)
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _peak_memory() -> Iterator[Any]:
    """Yield a function that returns by how many bytes the resident memory rose at most since."""

    def measure(what: str) -> int:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(what))

    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)  # else memory that an earlier case gave back would be taken again unseen
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts again from here
    before = measure("VmRSS")
    yield lambda: max(0, measure("VmHWM") - before)
