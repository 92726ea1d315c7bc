"""How much memory there is, asked before a long run and not after it has failed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ridgeformer.errors import InputError

__all__ = ["available_bytes", "require_memory"]

MEMORY = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Return the bytes of memory that can be had, or the machine's memory where that is all it tells; None if neither.

    What the kernel keeps of files it has read can be had as well, so free pages alone would refuse too much.
    """
    with suppress(OSError):  # another system
        if found := re.search(r"^MemAvailable:\s*(\d+) kB", MEMORY.read_text(), re.MULTILINE):
            return int(found[1]) << 10
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            continue
    return None


def require_memory(needed: int, what: str, advice: str) -> None:
    """Raise before the start of something that does not fit, with the size of it and what to do instead.

    Example:
        >>> require_memory(10**18, "a network of width 10^15", "choose a smaller width")
        Traceback (most recent call last):
        ridgeformer.errors.InputError: a network of width 10^15 needs about 1,000,000,000.0 GB of memory and ...

    Raises:
        InputError: more than is free.
    """
    free = available_bytes()
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory and {free / 1e9:,.1f} GB are free: {advice}."
        )
