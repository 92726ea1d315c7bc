"""A Parquet file larger than memory may be, fitted by the command line, killed twice with SIGKILL and resumed.

Run: python benchmarks/fit_file.py [--gigabytes 20] [--centres 1000] [--folder DIR] [--group DIR] [--compare]

The file is generated in pieces in a folder of its own under DIR (half as much again is needed for the rows), and
everything is deleted at the end. Memory is that of the fitting process, read from /proc ten times a second: what it
allocated (RssAnon), and with pages of mapped files, which the system takes back when it needs them (VmHWM). It is
killed once while rows are written and once after the third step of the solve. With --compare the same file is fitted
without interruption too, and the two models are compared byte by byte.

With --group the fitting process runs in that control group of Linux, a folder made before, whose limit holds for
everything: what it allocates, pages of mapped files and of files being written. By the first version, as root:

    mkdir /sys/fs/cgroup/memory/four
    echo 4294967296 > /sys/fs/cgroup/memory/four/memory.limit_in_bytes
    python benchmarks/fit_file.py --centres 500 --group /sys/fs/cgroup/memory/four

By the second version the limit is the group's memory.max, and memory.swap.max is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from harness import report

from ridgeformer.core.memory import free_bytes
from ridgeformer.core.seeds import numpy_generator

FEATURES, LATENT, NOISE, PIECE = 100, 6, 0.1, 2**17
"""Columns, numbers that they are made of, noise of the target, and rows generated at once."""


def draw(piece: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one piece of the table: features near a surface of a few dimensions, and a smooth function there."""
    generator = numpy_generator(0, "piece", piece)
    latent = generator.standard_normal((rows, LATENT))
    X = latent @ numpy_generator(0, "directions").standard_normal((LATENT, FEATURES))
    X += 0.1 * generator.standard_normal(X.shape)
    y = np.sin(latent[:, 0] + latent[:, 1]) + 0.5 * latent[:, 2] * np.cos(latent[:, 3])
    return X, y + NOISE * generator.standard_normal(rows)


def generate(path: Path, gigabytes: float) -> int:
    """Write a table of roughly this size and return its number of rows."""
    rows = int(gigabytes * 1e9 / (8 * (FEATURES + 1)))
    names = [f"x{j}" for j in range(FEATURES)]
    schema = pa.schema([(name, pa.float64()) for name in (*names, "y")])
    with pa.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for piece, start in enumerate(range(0, rows, PIECE)):
            X, y = draw(piece, min(PIECE, rows - start))
            columns = [*(pa.array(column) for column in X.T), pa.array(y)]
            writer.write_table(pa.table(columns, schema=schema))
    return rows


def memory(pid: int) -> tuple[float, float]:
    """Return what a process has allocated and the most it has had resident, in GiB; zeros when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    held = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("RssAnon", "VmHWM"))}
    return int(held.get("RssAnon", 0)) / 2**20, int(held.get("VmHWM", 0)) / 2**20


def limit_of(group: Path) -> float:
    """Return the limit of a control group, in GiB."""
    name = next(name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists())
    return int((group / name).read_text()) / 2**30


def fit(command: list[str], folder: Path, group: Path | None, stop: Callable[[], bool] | None) -> dict[str, Any]:
    """Run the command until it ends or `stop` says so, which kills it; return seconds, peaks and its output."""
    begin, peak, resident = time.perf_counter(), 0.0, 0.0
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    if group is not None:
        (group / "cgroup.procs").write_text(str(process.pid))
    killed = False
    while process.poll() is None:
        allocated, most = memory(process.pid)
        peak, resident = max(peak, allocated), max(resident, most)
        if stop is not None and not killed and stop():
            process.kill()
            killed = True
        time.sleep(0.1)
    said = process.communicate()[0]
    if process.returncode != 0 and not killed:
        raise SystemExit(f"the fit ended with code {process.returncode}")
    return {"seconds": time.perf_counter() - begin, "peak": peak, "resident": resident, "killed": killed, "said": said}


def steps_done(work: Path) -> int:
    """Return how many steps a checkpoint in this folder holds."""
    from safetensors import safe_open

    for path in work.glob("solve/*.safetensors"):
        with safe_open(path, framework="np") as file:
            return len(file.get_tensor("relative")) if "relative" in file.keys() else 0  # noqa: SIM118
    return 0


def main() -> None:
    """Generate, fit with two kills, judge on fresh rows, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--centres", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--group", type=Path, default=None)
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="ridgeformer-fit-file-", dir=given.folder))
    try:
        _measure(place, given.gigabytes, given.centres, given.group, given.compare)
    finally:
        shutil.rmtree(place)


def _measure(place: Path, gigabytes: float, centres: int, group: Path | None, compare: bool) -> None:
    begin, free = time.perf_counter(), free_bytes()
    rows = generate(place / "big.parquet", gigabytes)
    if group is not None:  # pages of the file still in memory would be counted outside of the group
        file = os.open(place / "big.parquet", os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    print(f"generated {rows:,} rows in {time.perf_counter() - begin:.0f} s", flush=True)
    base = [sys.executable, "-m", "ridgeformer", "fit", "big.parquet", "--target", "y", "--centres", str(centres)]
    command = [*base, "--work", "work", "--out", "model.safetensors", "--json"]

    def half_written() -> bool:
        notes = place / "work" / "notes.json"
        return notes.exists() and json.loads(notes.read_text())["written"] > rows / 2

    runs = [fit(command, place, group, half_written)]
    if runs[-1]["killed"]:
        print(f"killed while rows were written, after {runs[-1]['seconds']:.0f} s", flush=True)
        runs.append(fit(command, place, group, lambda: steps_done(place / "work") >= 3))
        before = steps_done(place / "work")
        if runs[-1]["killed"]:
            print(f"killed with {before} steps done, after {runs[-1]['seconds']:.0f} s", flush=True)
            runs.append(fit(command, place, group, None))
    facts = json.loads(runs[-1]["said"])
    row: dict[str, Any] = {
        "rows": f"{rows:,}",
        "file, GB": round((place / "big.parquet").stat().st_size / 1e9, 1),
        "centres": facts["centres"],
        "seconds of the three runs": " + ".join(f"{run['seconds']:.0f}" for run in runs),
        "allocated at most, GiB": round(max(run["peak"] for run in runs), 2),
        "resident at most, GiB": round(max(run["resident"] for run in runs), 2),
        "leave-one-out error": round(facts["left_out_error"], 4),
        "error at 10,000 fresh rows": round(_judged(place), 4),
    }
    if compare:
        whole = fit([*base, "--work", "whole", "--out", "whole.safetensors", "--json"], place, group, None)
        same = (place / "model.safetensors").read_bytes() == (place / "whole.safetensors").read_bytes()
        row |= {"uninterrupted, s": round(whole["seconds"]), "same model, byte by byte": same}
    settings: dict[str, Any] = {"features": FEATURES, "noise": NOISE, "precision of the rows on disk": "float32"}
    if group is None:
        settings["memory that may be used, GiB"] = round(free / 2**30, 1)
    else:
        settings["limit of the control group, GiB"] = round(limit_of(group), 2)
    options = f"--gigabytes {gigabytes:g} --centres {centres}"
    options += f" --group {group}" * (group is not None) + " --compare" * compare
    how = f"`python benchmarks/fit_file.py {options}`"
    notes = "The process was killed with SIGKILL between the runs. "
    notes += "Seconds are by the clock, with whatever else the machine did."
    if group is not None:
        notes += (
            " A control group counts a page for the process that touched it first, so pages that others had touched, "
            "such as those of libraries, are resident here and not in the group."
        )
    report("fit_file", settings, [row], how, notes)


def _judged(place: Path) -> float:
    """Return the root mean square error of the saved model at fresh rows, noise included."""
    from ridgeformer.auditing.fitted_file import FittedFile

    X, y = draw(2**20, 10_000)
    found = np.array(FittedFile.load(place / "model.safetensors").predict(X).predicted)
    return float(np.sqrt(np.mean((found - y) ** 2)))


if __name__ == "__main__":
    main()
