"""Trained networks beside their limit kernel on MNIST: several widths and training lengths, with and without attention.

Answers "what would settle it" of the linearized-attention study: docs/what_settles_it.md shows the table.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from harness import report

from ridgeformer.datasets import Split, load
from ridgeformer.regime import Architecture
from ridgeformer.regime.along import follow_training

ROWS, CLASSES = 100, ("3", "8")
WIDTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
LENGTHS = {"mlp-attn": (40, 400, 4_000, 40_000, 400_000), "relu": (40, 400)}
NAMES = {"mlp-attn": "attention", "relu": "raw rows"}
CELLS = Path(__file__).parent / "results" / "trained_networks_cells.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "trained_networks_summary.txt"


def cells(data: str, samples: int, budget: float) -> list[dict[str, Any]]:
    """Train every network and return one record a length; finished ones are read from the last run.

    All short trainings come first, then the long ones sample by sample, so that an interrupted run has whole rows.
    """
    kept = json.loads(CELLS.read_text()) if CELLS.exists() else []
    CELLS.parent.mkdir(exist_ok=True)
    images = load(data)
    todo = [(limit, sample, width, name) for limit in (budget / 10, budget) for sample in range(samples)
            for width in WIDTHS for name in NAMES]  # fmt: skip
    try:
        for limit, sample, width, name in todo:
            lengths = [length for length in LENGTHS[name] if width * length <= limit]
            key = {"data": data, "network": NAMES[name], "width": width, "sample": sample}
            if set(lengths) <= {one["steps"] for one in kept if key.items() <= one.items()}:
                continue
            begin = time.perf_counter()
            problem = Split.for_networks(images, rows=ROWS, test_rows=ROWS, seed=sample, classes=CLASSES)
            found = follow_training(problem, Architecture(name, scale=1.0), width=width, seed=sample, lengths=lengths)
            kept = [one for one in kept if not key.items() <= one.items()]
            kept += [key | asdict(one) for one in found]
            CELLS.write_text(json.dumps(kept, indent=1) + "\n")
            print(f"{key}, {lengths[-1]} steps: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped; what is finished is reported", file=sys.stderr)
    return [one for one in kept if one["data"] == data and one["sample"] < samples]


def spread(values: list[float], how: str = ".2g") -> str:
    """Return mean and range over samples, or the one value."""
    mean, low, high = (format(value, how) for value in (sum(values) / len(values), min(values), max(values)))
    return mean if len(values) == 1 else f"{mean} ({low} to {high})"


def rows_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table: one row a network, width and length."""
    rows = []
    for name in NAMES.values():
        for width in WIDTHS:
            for length in sorted({one["steps"] for one in found}):
                here = [one for one in found if (one["network"], one["width"], one["steps"]) == (name, width, length)]
                if here:
                    column = {key: [one[key] for one in here] for key in here[0] if key not in ("data", "network")}
                    rows.append({
                        "rows": name, "width": f"{width:,}", "steps": f"{length:,}", "samples": len(here),
                        "relative distance": spread(column["relative"]), "rms distance": spread(column["rms"]),
                        "training loss": spread(column["train_loss"]),
                        "of the kernel": spread(column["limit_train_loss"]),
                        "training rows wrong, %": spread([100 * e for e in column["train_error"]], ".0f"),
                        "test rows wrong, %": spread([100 * e for e in column["test_error"]], ".0f"),
                        "of the kernel, %": spread([100 * e for e in column["limit_test_error"]], ".0f"),
                        "kernel moved, %": spread([100 * e for e in column["kernel_drift"]]),
                        "kernel at the start, multiplicative": spread(column["kernel_start"]),
                        "at the end": spread(column["kernel_end"]),
                    })  # fmt: skip
    return rows


def summary(found: list[dict[str, Any]]) -> str:
    """Return relative distances as a table of widths against lengths, one for each kind of rows."""
    lines = []
    for name in NAMES.values():
        mine = [one for one in found if one["network"] == name]
        lengths = sorted({one["steps"] for one in mine})
        lines += [f"| {name}: width | {' | '.join(f'{length:,} steps' for length in lengths)} |"]
        lines += [f"|{'---|' * (len(lengths) + 1)}"]
        for width in sorted({one["width"] for one in mine}):
            line = []
            for length in lengths:
                here = [one["relative"] for one in mine if (one["width"], one["steps"]) == (width, length)]
                line.append(spread(here) if here else "")
            lines += [f"| {width:,} | {' | '.join(line)} |"]
        loss = [
            [one["limit_train_loss"] for one in mine if (one["steps"], one["width"]) == (length, WIDTHS[0])]
            for length in lengths
        ]
        lines += [f"| training loss of the kernel, mean | {' | '.join(f'{sum(x) / len(x):.2g}' for x in loss)} |", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--budget", type=float, default=4e8, help="largest number of neurons times steps of a cell")
    parser.add_argument("--finished", action="store_true", help="report what earlier runs finished and train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = cells(options.data, options.samples, 0 if options.finished else options.budget)
    PAGE.write_text(summary(found), encoding="utf-8")
    settings = {
        "data": f"{options.data}, {' against '.join(CLASSES)}, {ROWS} rows train and {ROWS} test",
        "samples": options.samples, "start": "unit", "training": "full-batch gradient descent, squared error, float32",
        "largest number of neurons times steps": f"{options.budget:.0e}",
    }  # fmt: skip
    command = f"`python benchmarks/trained_networks.py --samples {options.samples} --budget {options.budget:.0e}`"
    report(
        "trained_networks",
        settings,
        rows_of(found),
        how=f"{command}; mean and range over the samples that were finished",
    )
