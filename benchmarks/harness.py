"""What every benchmark shares: rivals timed in turn in one process, and a record of machine, versions and settings."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ridgeformer.core.products import product

__all__ = ["GEMM", "gemm_speed", "machine", "race", "report"]


GEMM = "float32 / float32 by oneDNN / float64 GEMM GFLOPS"
"""What `gemm_speed` returns. Where the second is twice the first, PyTorch's own choice leaves half of it unused."""


def race(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the best time of each in seconds; they take turns, so that a slow moment of the machine hits all."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "processor": _processor(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("ridgeformer", "torch", "numpy")},
    }


def _processor() -> str:
    """Return the name that the processor gives itself, where the system tells it, and the numbers of its design."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "model name" not in said:
        return platform.processor() or platform.machine()
    return f"{said['model name']} (family {said.get('cpu family', '?')} model {said.get('model', '?')})"


def gemm_speed() -> str:
    """Return the speed of a matrix product in GFLOPS, what all other times come from: `GEMM` says which."""
    size = 3000
    A = torch.ones(size, size, dtype=torch.float32)
    A64 = A.to(torch.float64)
    times = race({"float32": lambda: A @ A, "oneDNN": lambda: product(A, A), "float64": lambda: A64 @ A64}, 3)
    return " / ".join(f"{2 * size**3 / seconds / 1e9:.0f}" for seconds in times.values())


TURNS = "`make bench`; best of several runs that take turns in one process"


def report(name: str, settings: dict[str, Any], rows: list[dict[str, Any]], how: str = TURNS, notes: str = "") -> None:
    """Print a table, write the same as JSON into benchmarks/results and as a page, with notes, into docs/benchmarks."""
    print(f"\n{name}: {', '.join(f'{key} {value}' for key, value in settings.items())}")
    heads = list(rows[0])
    widths = [max(len(head), *(len(str(row[head])) for row in rows)) for head in heads]
    for line in (heads, *([str(row[head]) for head in heads] for row in rows)):
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    _page(name, settings, rows, how, notes)
    record = {"benchmark": name, "machine": machine(), "settings": settings, "rows": rows}
    (results / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")


def _page(name: str, settings: dict[str, Any], rows: list[dict[str, Any]], how: str, notes: str) -> None:
    """Write the table as Markdown, with what it depends on."""
    heads = list(rows[0])
    lines = [
        f"# {name.replace('_', ' ').capitalize()}",
        "",
        f"Written by {how}.",
        "",
        f"Settings: {', '.join(f'{key} {value}' for key, value in settings.items())}.",
        f"Machine: {', '.join(f'{key} {value}' for key, value in machine().items())}.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(str(row[head]) for head in heads)} |" for row in rows),
        *(["", notes] if notes else []),
        "",
    ]
    pages = Path(__file__).parents[1] / "docs" / "benchmarks"
    pages.mkdir(exist_ok=True)
    (pages / f"{name}.md").write_text("\n".join(lines))
