"""Free memory, and errors before an allocation that would not fit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    import torch

__all__ = ["free_bytes", "is_out_of_memory", "require_memory", "show_bytes"]

MEMINFO, GROUPS, MOUNTED = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

LIMITS = {  # of a control group: its folder, the files of its limit and of what it uses, and caches in what it uses
    "": ("", "memory.max", "memory.current", ("inactive_file", "active_file")),
    "memory": (
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
}
"""By the controllers of a line of /proc/self/cgroup: the second version has none there, the first its own line."""


def free_bytes(device: torch.device | None = None) -> int:
    """Return the bytes that can be allocated without swapping, on the device or in main memory.

    On Linux this includes reclaimable caches, and heeds the limit of a container or another control group; elsewhere it
    is the number of free pages, or 2 GiB if that is unknown.
    """
    if device is not None and device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, _left_in_groups())
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 2**31  # unknown: plan for a small machine


def _left_in_groups() -> int:
    """Return the bytes left below the limits of the control groups of this process and of those around them."""
    left = sys.maxsize
    for line in GROUPS.read_text().splitlines() if GROUPS.exists() else []:
        _, controllers, name = line.split(":", 2)
        known = next((LIMITS[one] for one in controllers.split(",") if one in LIMITS), None)
        if known is None:
            continue
        folder, limit, used, caches = known
        root = MOUNTED / folder
        inside = root / name.lstrip("/")
        for group in (inside, *(around for around in inside.parents if around.is_relative_to(root))):
            try:
                most, now = (group / limit).read_text().strip(), int((group / used).read_text())
                held = dict(pair.split() for pair in (group / "memory.stat").read_text().splitlines())
            except (OSError, ValueError):  # a namespace hides the names of groups outside, and a root has no limit
                continue
            if most.isdigit():
                left = min(left, max(0, int(most) - now + sum(int(held.get(cache, 0)) for cache in caches)))
    return left


def show_bytes(count: int) -> str:
    """Format a size in GiB or MiB.

    Example:
        >>> show_bytes(3 * 2**30), show_bytes(5 * 2**20)
        ('3.0 GiB', '5 MiB')
    """
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def require_memory(needed: int, what: str, advice: str) -> None:
    """Raise if more memory is needed than is free, with both sizes and advice.

    Example:
        >>> require_memory(10**18, "a network of width 10^15", "choose a smaller width")
        Traceback (most recent call last):
        ridgeformer.core.errors.InputError: a network of width 10^15 needs about 1,000,000,000.0 GB of memory and ...

    Raises:
        InputError: more memory is needed than is free.
    """
    free = free_bytes()
    if needed > free:
        raise InputError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory and {free / 1e9:,.1f} GB are free: {advice}."
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out; torch raises a `RuntimeError` then.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("no"))
        (True, False)
    """
    words = ("can't allocate memory", "not enough memory", "bad_alloc")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )
