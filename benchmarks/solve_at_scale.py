"""Whole fits, kernel included, against rivals: time, memory and the residual each truly reached.

Every run is a process of its own, so that a rival that crashes costs a line of the table and peak memory is its own.
The residual is computed afterwards in float64 for everyone, with the kernel in float64. Rows have unit length, so the
exponential kernel scaled to unit diagonal is also the Gaussian one that others offer, gamma = 1/(2 temperature).

Usage: python benchmarks/solve_at_scale.py [--sizes 5000 10000 20000] [--rivals NAME ...] [--growth] [--products]
       ... --first [--sizes 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import GEMM, gemm_speed, race, report
from scale_rivals import ENVIRONMENT, RIVALS, Task

from ridgeformer import datasets, solve
from ridgeformer.algorithms import MixedConjugateGradients
from ridgeformer.core import compiled
from ridgeformer.core.errors import DataFileError
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving.engines import Tiles, strips
from ridgeformer.solving.engines.tiles import symmetric_product
from ridgeformer.solving.engines.triangle import tile_size

COMMAND = "`python benchmarks/solve_at_scale.py`"
PRODUCTS = 5
"""Times that a single product is measured."""

WARM = 200
"""Rows of a first fit that is not timed."""

STARTED = 1000
"""Rows of another, which has two tiles."""

CALLS, PROCESSES = 4, 3
"""Fits in a process, and processes, where first calls are measured."""

STAND_IN = "a synthetic stand-in (the dataset is not fetched)"


def main() -> None:
    """Read the arguments; measure fits, and on request growth and single products."""
    arguments = _arguments()
    if arguments.worker:
        print(json.dumps(_measure(arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        source = _prepare(arguments, Path(folder))
        if not arguments.first:
            _fits(arguments, Path(folder), source)
        if arguments.growth:
            _growth(arguments, Path(folder), source)
        if arguments.products:
            _products(arguments, Path(folder), source)
        if arguments.first:
            _first_calls(arguments, Path(folder), source)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 10_000, 20_000])
    parser.add_argument("--rivals", nargs="+", default=sorted(RIVALS), choices=sorted(RIVALS))
    parser.add_argument(
        "--data", default="mnist", help="a dataset's name, or an .npz file with a train and a test part"
    )
    parser.add_argument("--rotated", action="store_true", help="turn the rows: the same K, and no feature is ever zero")
    parser.add_argument("--temperature", type=float, default=0.25)
    parser.add_argument("--ridge", type=float, default=1e-2)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--test-rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=1, help="the best time of this many runs is reported")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds a run may take")
    parser.add_argument("--page", default="solve_at_scale", help="name of the page and the JSON file")
    parser.add_argument("--growth", action="store_true", help="exponents in rows, features and columns")
    parser.add_argument("--products", action="store_true", help="one matrix-free product against a bare X X'")
    parser.add_argument("--products-rows", type=int, default=20_000)
    parser.add_argument("--first", action="store_true", help="the first calls in a process beside later ones, only")
    parser.add_argument("--calls", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


# -- data --------------------------------------------------------------------------------------------


def _prepare(arguments: argparse.Namespace, folder: Path) -> str:
    """Write unit rows and +1/-1 targets where the processes find them; return what they are."""
    rows = max(arguments.sizes)
    try:
        train, test = (datasets.load(arguments.data, part=part) for part in ("train", "test"))
        source = arguments.data
        parts = [(train.X[:rows], train.y[:rows]), (test.X[: arguments.test_rows], test.y[: arguments.test_rows])]
    except DataFileError as error:
        print(f"{error}\nUsing {STAND_IN}.", file=sys.stderr)
        parts, source = _stand_in(rows, arguments.test_rows), STAND_IN
    source = Path(source).stem if source != STAND_IN else source
    turn = None
    if arguments.rotated:
        width = parts[0][0].shape[1]
        turn = np.linalg.qr(numpy_generator(0, "rotation").standard_normal((width, width))).Q
        source += ", rotated so that no feature is zero"
    for name, (X, codes) in zip(("train", "test"), parts, strict=True):
        unit = datasets.unit_rows(X)
        np.save(folder / f"{name}.npy", unit if turn is None else unit @ turn)
        np.save(folder / f"{name}_codes.npy", codes)
    return source


def _stand_in(rows: int, tests: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ten classes of rows in the positive orthant, with a spectrum that falls slowly, as that of images does."""
    generator = numpy_generator(0, "stand-in")
    codes = generator.integers(0, 10, rows + tests)
    basis = generator.standard_normal((784, 784)) / np.arange(1, 785)[:, None] ** 0.7
    X = np.abs(
        generator.standard_normal((rows + tests, 784)) @ basis
        + 3 * (generator.standard_normal((10, 784)) @ basis)[codes]
    )
    return [(X[:rows], codes[:rows]), (X[rows:], codes[rows:])]


def _task(arguments: argparse.Namespace) -> tuple[Task, np.ndarray, np.ndarray]:
    folder = Path(arguments.folder)
    n, d, columns = arguments.shape
    X = np.array(np.load(folder / "train.npy", mmap_mode="r")[:n, :d], order="C")
    codes = np.load(folder / "train_codes.npy")[:n]
    test, test_codes = np.load(folder / "test.npy", mmap_mode="r"), np.load(folder / "test_codes.npy")
    y = np.where(codes[:, None] == np.arange(columns) % 10, 1.0, -1.0)
    if columns > 10:
        y = y * np.linspace(1, 2, columns)
    return Task(X, y, arguments.temperature, arguments.ridge, arguments.tol), test[:, :d], test_codes


# -- one run, in its own process ----------------------------------------------------------------------


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    task, test, codes = _task(arguments)
    if arguments.calls:
        return {"calls": [_seconds(lambda: RIVALS[arguments.worker](task)) for _ in range(arguments.calls)]}
    few = replace(task, X=task.X[:WARM].copy(), y=task.y[:WARM].copy())
    RIVALS[arguments.worker](few)  # what is imported, started or compiled on first use is no part of a fit ...
    started = time.perf_counter()
    _start_large(task)  # ... nor what only our large fits use
    started = time.perf_counter() - started
    before = _count_peak_from_here() if arguments.beside else 0
    begin, processor = time.perf_counter(), time.process_time()
    alpha, note = RIVALS[arguments.worker](task)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    peak = _counted_peak()
    kernel = Exponential(task.temperature, log_scale=1 / task.temperature)
    X, y = torch.from_numpy(task.X), torch.from_numpy(task.y)
    found = {
        "seconds": seconds,
        "processor": processor,
        "peak": peak,
        "beside": peak - before,
        "note": note,
        "started": started,
    }
    if callable(alpha):
        outputs = alpha(test)
        found["residual"] = None
    else:
        alpha = torch.as_tensor(alpha, dtype=torch.float64)
        left = y - symmetric_product(kernel, X, alpha, torch.float64) - task.ridge * alpha
        found["residual"] = float((left.norm(dim=0) / y.norm(dim=0)).max())
        outputs = kernel.product(torch.from_numpy(np.array(test)), X, alpha).numpy()
    found["accuracy"] = float((np.argmax(outputs, 1) == codes).mean()) if y.shape[1] == 10 else None
    return found


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _count_peak_from_here() -> int:
    """Forget the largest memory so far, as Linux can, and return what is held now: X, y and libraries."""
    Path("/proc/self/clear_refs").write_text("5")
    return _counted_peak()


def _counted_peak() -> int:
    """Return the largest memory since then, in bytes; without Linux, the process that started this one counts too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def _start_large(task: Task) -> None:
    """Import and compile what our fits use beyond some size; on disk it is kept, so this takes long only once."""
    kernel = Exponential(task.temperature, log_scale=1 / task.temperature)
    large, compiled.LARGE = compiled.LARGE, 0
    try:
        for algorithm in ("mixed_direct", "mixed_pcg", MixedConjugateGradients(preconditioner="rounded")):
            solve(kernel, task.X[:STARTED], task.y[:STARTED], task.ridge, algorithm=algorithm, tol=task.tol)
    finally:
        compiled.LARGE = large


def _run(arguments: argparse.Namespace, folder: Path, name: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Run one rival in a process; a crash, a timeout or a missing package is an answer too."""
    options = [f"--{key}={getattr(arguments, key)}" for key in ("temperature", "ridge", "tol")]
    command = [
        sys.executable,
        __file__,
        "--worker",
        name,
        "--folder",
        str(folder),
        *options,
        *(["--beside"] if arguments.beside else []),
        *(["--calls", str(CALLS)] if arguments.first else []),
        "--shape",
        *map(str, shape),
    ]
    best: dict[str, Any] = {}
    told = {**os.environ, **ENVIRONMENT.get(name, {})}
    for _ in range(arguments.repeats):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=arguments.timeout, check=False, env=told
            )
        except subprocess.TimeoutExpired:
            return {"note": f"stopped after {arguments.timeout:.0f} s"}
        if done.returncode != 0:
            return {"note": _why(done)}
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if arguments.first:
            return found
        best = found if not best or found["seconds"] < best["seconds"] else best
    return best


def _why(done: subprocess.CompletedProcess[str]) -> str:
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if "ModuleNotFoundError" in last:
        return "not installed"
    return f"crashed (signal {-done.returncode})" if done.returncode < 0 else f"failed: {last[:80]}"


# -- tables ------------------------------------------------------------------------------------------


def _fits(arguments: argparse.Namespace, folder: Path, source: str) -> None:
    features = np.load(folder / "train.npy", mmap_mode="r").shape[1]
    rows, started, speed = [], 0.0, gemm_speed()
    for n in arguments.sizes:
        found = {name: _run(arguments, folder, name, (n, features, 10)) for name in arguments.rivals}
        started = max(started, *(result.get("started", 0.0) for result in found.values()))
        ours = found.get("ridgeformer", {}).get("seconds")
        rows += [_line(n, name, result, ours) for name, result in found.items()]
    settings = {
        "data": source, "features": features, "targets": 10, "temperature": arguments.temperature,
        "ridge": arguments.ridge, "tolerance": arguments.tol, "repeats": arguments.repeats,
        "imports and compilation before a fit s": round(started, 1),
        f"{GEMM} before and after": f"{speed}, {gemm_speed()}", **_versions(),
    }  # fmt: skip
    report(
        arguments.page,
        settings,
        rows,
        how=f"{_command(arguments)}; each run in a process of its own, kernel included, "
        f"stopped after {arguments.timeout:.0f} s",
    )


def _command(arguments: argparse.Namespace) -> str:
    """Return the command with what was asked for other than usual."""
    sizes, rivals = " ".join(map(str, arguments.sizes)), " ".join(f'"{name}"' for name in arguments.rivals)
    repeats = f" --repeats {arguments.repeats}" if arguments.repeats > 1 else ""
    page = f" --page {arguments.page}" if arguments.page != "solve_at_scale" else ""
    rotated = " --rotated" if arguments.rotated else ""
    chosen = f" --rivals {rivals}" if arguments.rivals != sorted(RIVALS) else ""
    timeout = f" --timeout {arguments.timeout:.0f}"
    data = f" --data {arguments.data}" if arguments.data != "mnist" else ""
    # at temperature 1 the spectrum of pictures falls more slowly beside the same ridge, and steps double
    data += f" --temperature {arguments.temperature:g}" if arguments.temperature != 0.25 else ""
    return f"`python benchmarks/solve_at_scale.py --sizes {sizes}{data}{timeout}{repeats}{rotated}{page}{chosen}`"


def _line(n: int, name: str, result: dict[str, Any], ours: float | None) -> dict[str, Any]:
    def show(key: str, form: Callable[[float], str]) -> str:
        return "-" if result.get(key) is None else form(result[key])

    ratio = result["seconds"] / ours if ours and "seconds" in result else None
    return {
        "n": n,
        "rival": name,
        "seconds": show("seconds", lambda s: f"{s:.2f}"),
        "processor s": show("processor", lambda s: f"{s:.2f}"),
        "over ours": "-" if ratio is None else f"{ratio:.2f}",
        "peak GiB": show("peak", lambda b: f"{b / 2**30:.2f}"),
        "float64 residual": show("residual", lambda r: f"{r:.1e}"),
        "test accuracy": show("accuracy", lambda a: f"{a:.4f}"),
        "note": result.get("note", ""),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in ("numba", "scikit-learn", "scipy", "linear_operator", "gpytorch", "pykeops"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _growth(arguments: argparse.Namespace, folder: Path, source: str) -> None:
    """Fit an exponent of time in rows, features and columns, the others held."""
    n, d = min(8000, max(arguments.sizes)), np.load(folder / "train.npy", mmap_mode="r").shape[1]
    grids = {
        "rows": [(n // k, d, 10) for k in (8, 4, 2, 1)],
        "features": [(n // 2, d // k, 10) for k in (8, 4, 2, 1)],
        "columns": [(n // 2, d, k) for k in (1, 4, 16, 64)],
    }
    rows = []
    for name in [rival for rival in ("ridgeformer", "ridgeformer tiles", "torch cholesky") if rival in RIVALS]:
        for axis, shapes in grids.items():
            place = list(grids).index(axis)
            seconds = [_run(arguments, folder, name, shape).get("seconds", float("nan")) for shape in shapes]
            slope = np.polyfit(np.log([shape[place] for shape in shapes]), np.log(seconds), 1)[0]
            rows.append({
                "rival": name, "grows in": axis, "values": " ".join(str(shape[place]) for shape in shapes),
                "seconds": " ".join(f"{s:.2f}" for s in seconds), "exponent": f"{slope:.2f}",
            })  # fmt: skip
    report(
        "solve_growth",
        {"data": source, "tolerance": arguments.tol},
        rows,
        how=f"{COMMAND} `--growth`; each run in a process of its own",
    )


def _first_calls(arguments: argparse.Namespace, folder: Path, source: str) -> None:
    """The first fit in a process, which loads compiled functions, beside the ones that follow, of the same rows."""
    features, rows = np.load(folder / "train.npy", mmap_mode="r").shape[1], []
    for n in arguments.sizes:
        for process in range(1, PROCESSES + 1):
            first, *others = _run(arguments, folder, "ridgeformer", (n, features, 10))["calls"]
            rows.append({
                "n": n, "process": process, "first s": f"{first:.2f}", "second s": f"{others[0]:.2f}",
                "others s": " ".join(f"{s:.2f}" for s in others[1:]), "first over second s": f"{first - others[0]:.2f}",
            })  # fmt: skip
    sizes, data = " ".join(map(str, arguments.sizes)), "" if source == "mnist" else f" --data {arguments.data}"
    report(
        "solve_first_calls" + ("" if source == "mnist" else f"_{source}"),
        {"data": source, "features": features, "targets": 10, "tolerance": arguments.tol},
        rows,
        how=f"`python benchmarks/solve_at_scale.py --first --sizes {sizes}{data}`; the same fit {CALLS} times",
    )


def _products(arguments: argparse.Namespace, folder: Path, source: str) -> None:
    """One product without a stored K against a bare X X' of all rows; also for rows without features that are zero."""
    n = arguments.products_rows
    given = np.load(folder / "train.npy", mmap_mode="r")[:n]
    full = datasets.unit_rows(numpy_generator(0, "rows").random(given.shape))
    rows = [
        {"rows": name, **_against_gemm(arguments, torch.tensor(X, dtype=torch.float32), columns)}
        for name, X in ((source, np.array(given)), ("random, no feature zero", full))
        for columns in (1, 10)
    ]
    how = f"{COMMAND} --products; best of {PRODUCTS} that take turns"
    report("solve_products", {"n": len(given), "features": given.shape[1], "precision": "float32"}, rows, how)
    _stored_products(n, how)
    _matrix_free(arguments, folder, source, len(given))


def _matrix_free(arguments: argparse.Namespace, folder: Path, source: str, n: int) -> None:
    """A whole fit without a stored K: what it takes beside the data."""
    arguments.beside = True
    features = np.load(folder / "train.npy", mmap_mode="r").shape[1]
    found = _run(arguments, folder, "ridgeformer tiles", (n, features, 10))
    row = {
        "n": n, "seconds": f"{found['seconds']:.1f}", "memory beside the data, MB": f"{found['beside'] / 1e6:.0f}",
        "limit": 300, "float64 residual": f"{found['residual']:.1e}", "note": found["note"],
    }  # fmt: skip
    settings = {"data": source, "features": features, "targets": 10, "tolerance": arguments.tol}
    report("solve_matrix_free", settings, [row], f"{COMMAND} --products; in a process of its own")


def _stored_products(n: int, how: str) -> None:
    """One product with the stored tiles of a symmetric matrix: compiled by Numba, and by PyTorch."""
    size = tile_size(n)
    count, generator = -(-n // size), torch.Generator().manual_seed(0)
    high = [torch.rand(i + 1, size, size, generator=generator) for i in range(count)]
    rows = []
    for columns in (1, 10, 16, 64):
        V = torch.rand(count, columns, size, generator=generator)
        ways = {"Numba": strips.by_strips, "PyTorch": strips.by_torch}
        best = race({name: lambda way=way, V=V: way(high, V) for name, way in ways.items()}, PRODUCTS)
        seconds = {f"{name} s": round(value, 3) for name, value in best.items()}
        rows.append({"columns": columns, **seconds, "PyTorch over Numba": round(best["PyTorch"] / best["Numba"], 2)})
    report("solve_stored_products", {"n": n, "precision": "float32", "numba": _versions()["numba"]}, rows, how)


def _against_gemm(arguments: argparse.Namespace, X: torch.Tensor, columns: int) -> dict[str, Any]:
    engine = Tiles(Exponential(arguments.temperature, log_scale=1 / arguments.temperature), X, torch.float32)
    block = torch.empty(1024, len(X))
    V = torch.from_numpy(numpy_generator(0, "V").random((len(X), columns))).to(torch.float32)

    def bare() -> None:
        for rows in X.split(1024):
            torch.mm(rows, X.T, out=block[: len(rows)])

    best = race({"bare": bare, "tiles": lambda: engine.matmat(V)}, PRODUCTS)
    row = {"columns": columns, "X X' s": round(best["bare"], 2), "tiles s": round(best["tiles"], 2)}
    return {**row, "over X X'": round(best["tiles"] / best["bare"], 2), "limit": 0.6 if columns == 1 else "-"}


if __name__ == "__main__":
    main()
