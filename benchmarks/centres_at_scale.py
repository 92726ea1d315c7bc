"""Regression on 10^5 to 5 x 10^6 rows: ours on centres, and what else runs on one machine, time beside accuracy.

Every configuration is a process of its own and leaves a file in benchmarks/results/centres_at_scale; one that is there
is not run again, so a sweep can be stopped at any time and goes on with the same command. `--page` writes the tables
from the files that there are.

Three datasets, drawn from a seed or made of MNIST:
  sphere  unit rows of 18 features, a smooth function of them and noise;
  rough   rows of 4 features, a target that jumps several times over their spread: a hard spectrum;
  digits  MNIST moved by up to two pixels (25 copies of a row), the 32 leading principal components, ten classes.
All methods are tuned by one rule: twelve candidates each, fitted to the same 20,000 rows with 500 centres, features or
300 trees, and the one with the least error on 5,000 others is taken. Ridges are per row: they carry over to more rows.

Usage: python benchmarks/centres_at_scale.py --targets | --rivals | --growth | --page [--data NAME ...] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import report
from solve_at_scale import _count_peak_from_here, _counted_peak, _why

from ridgeformer import datasets, solve
from ridgeformer.algorithms import Centres
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.kernels import Gaussian

RESULTS = Path(__file__).parent / "results" / "centres_at_scale"
NOISE = 0.3
TUNED_ON, JUDGED_ON, TEST = 20_000, 5000, 20_000
"""Rows that candidates are fitted to, that they are judged by, and that final errors are measured on."""

DRAWN = 100_000
"""Rows drawn at a time."""

FEW = 500
"""Centres or random features of a candidate."""

EXACT_AT_MOST = 20_000
"""Rows at which KeOps solves for all of them; at a million it would take days."""

Model = Callable[[np.ndarray], np.ndarray]
"""From rows to outputs."""


@dataclass(frozen=True)
class Configuration:
    """One run: everything that its result depends on."""

    method: str
    data: str
    rows: int
    centres: int = 2000
    features: int = 0

    @property
    def file(self) -> Path:
        """Where its result is kept."""
        return RESULTS / ("-".join(str(value) for value in asdict(self).values()).replace(" ", "_") + ".json")


# -- data --------------------------------------------------------------------------------------------


def draw(data: str, rows: int, features: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 rows and targets, (rows,) or one column a class; the first rows are the same for any number."""
    if data == "digits":
        return _digits(rows)
    width = features or {"sphere": 18, "rough": 4}[data]
    fixed = numpy_generator(0, f"{data} {width}")
    directions, shifts = fixed.standard_normal((width, 6)), fixed.uniform(0, 2 * np.pi, 6)
    X, y = np.empty((rows, width), np.float32), np.empty(rows, np.float32)
    for number, start in enumerate(range(0, rows, DRAWN)):
        part = numpy_generator(number, f"{data} rows")
        some, noise = part.standard_normal((DRAWN, width)), NOISE * part.standard_normal(DRAWN)
        if data == "sphere":
            some /= np.linalg.norm(some, axis=1, keepdims=True)
            waves = np.sin(some @ directions + shifts)
        else:
            waves = np.sign(
                np.sin(2 * some @ directions[:, :3] / np.linalg.norm(directions[:, :3], axis=0) + shifts[:3])
            )
        place = slice(start, min(start + DRAWN, rows))
        count = place.stop - start
        X[place], y[place] = some[:count], (waves.sum(1) / waves.shape[1] ** 0.5 + noise)[:count]
    return X, y


def _digits(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return digits moved by up to two pixels either way, on principal components of those that are not moved."""
    given = datasets.load("mnist", part="train")
    pictures, codes = np.asarray(given.X, np.float32).reshape(-1, 28, 28) / 255, np.asarray(given.y)
    flat = pictures.reshape(len(pictures), -1)
    mean = flat.mean(0)
    components = np.linalg.svd((flat[:10_000] - mean).astype(np.float64), full_matrices=False)[2][:32].T
    moves = sorted(product(range(-2, 3), repeat=2), key=lambda move: move[0] ** 2 + move[1] ** 2)
    order = numpy_generator(0, "digits").permutation(len(pictures) * len(moves))[:rows]
    X = np.empty((len(order), 32), np.float32)
    for which, (down, right) in enumerate(moves):
        places = np.flatnonzero(order // len(pictures) == which)
        moved = np.roll(pictures[order[places] % len(pictures)], (down, right), axis=(1, 2))
        X[places] = (moved.reshape(len(places), -1) - mean) @ components
    X /= float(np.sqrt((X.astype(np.float64) ** 2).sum(1).mean()))
    return X, np.where(codes[order % len(pictures)][:, None] == np.arange(10), 1.0, -1.0).astype(np.float32)


def error(model: Model, X: np.ndarray, y: np.ndarray) -> float:
    """Return the fraction of wrong classes, or the root mean square error over the spread of the targets."""
    found = model(X)
    if y.ndim == 2:
        return float((found.argmax(1) != y.argmax(1)).mean())
    return float(np.sqrt(((found - y) ** 2).mean()) / y.std())


# -- methods -----------------------------------------------------------------------------------------


def ours(X: np.ndarray, y: np.ndarray, centres: int, temperature: float, per_row: float) -> tuple[Model, str]:
    """Fit on uniformly drawn centres, streamed."""
    fit = solve(Gaussian(temperature), X, y, per_row * len(X), algorithm=Centres(count=centres))
    return lambda rows: fit.predict(rows).numpy(), f"{fit.status.value}, {fit.steps} steps"


def nystroem(X: np.ndarray, y: np.ndarray, centres: int, temperature: float, per_row: float) -> tuple[Model, str]:
    """scikit-learn's Nystroem features and a linear ridge."""
    from sklearn.kernel_approximation import Nystroem

    return _linear(Nystroem(gamma=1 / (2 * temperature), n_components=centres, random_state=0), X, y, per_row)


def random_features(
    X: np.ndarray, y: np.ndarray, centres: int, temperature: float, per_row: float
) -> tuple[Model, str]:
    """scikit-learn's random Fourier features and a linear ridge."""
    from sklearn.kernel_approximation import RBFSampler

    return _linear(RBFSampler(gamma=1 / (2 * temperature), n_components=centres, random_state=0), X, y, per_row)


def _linear(features: Any, X: np.ndarray, y: np.ndarray, per_row: float) -> tuple[Model, str]:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    return make_pipeline(features, Ridge(alpha=per_row * len(X), fit_intercept=False)).fit(X, y).predict, ""


def boosting(X: np.ndarray, y: np.ndarray, centres: int, rate: float, leaves: int) -> tuple[Model, str]:
    """scikit-learn's gradient boosting: 300 trees where candidates are tried, 1000 in the end; a tenth a class."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    trees = (300 if centres == FEW else 1000) // (1 if y.ndim == 1 else 10)
    options = {"max_iter": trees, "learning_rate": rate, "max_leaf_nodes": int(leaves), "random_state": 0}
    if y.ndim == 2:
        classifier = HistGradientBoostingClassifier(**options, early_stopping=False).fit(X, y.argmax(1))
        return classifier.predict_proba, f"{trees} trees a class"
    return HistGradientBoostingRegressor(**options, early_stopping=False).fit(X, y).predict, f"{trees} trees"


def keops(X: np.ndarray, y: np.ndarray, centres: int, temperature: float, per_row: float) -> tuple[Model, str]:
    """KeOps' conjugate gradients on a symbolic matrix of all rows, to a relative residual of 1e-3."""
    from pykeops.torch import LazyTensor

    if len(X) > EXACT_AT_MOST:
        raise MemoryError(f"not tried beyond {EXACT_AT_MOST:,} rows")
    rows, targets = torch.from_numpy(X), torch.from_numpy(y.reshape(len(y), -1))

    def between(left: torch.Tensor) -> Any:
        gaps = ((LazyTensor(left[:, None, :]) - LazyTensor(rows[None, :, :])) ** 2).sum(-1)
        return (-gaps / (2 * temperature)).exp()

    alpha = between(rows).solve(targets, alpha=per_row * len(X), eps=1e-3)
    return lambda some: (between(torch.from_numpy(some)) @ alpha).numpy().reshape(len(some), *y.shape[1:]), "all rows"


KERNEL = [(t, r) for t in (0.1, 0.3, 1.0, 3.0) for r in (1e-8, 1e-6, 1e-4)]
TREES = [(rate, leaves) for rate in (0.05, 0.1, 0.2) for leaves in (15, 31, 63, 127)]
METHODS: dict[str, tuple[Callable[..., tuple[Model, str]], list[tuple[float, float]]]] = {
    "ridgeformer": (ours, KERNEL),
    "Nystroem + Ridge": (nystroem, KERNEL),
    "RBFSampler + Ridge": (random_features, KERNEL),
    "HistGradientBoosting": (boosting, TREES),
    "pykeops": (keops, KERNEL),
}


# -- one run, in its own process ----------------------------------------------------------------------


def tuned(method: str, data: str, features: int) -> tuple[float, float]:
    """Return the candidate with the least error on other rows, found once and kept; KeOps takes ours."""
    kept = Configuration(f"tuned {method}", data, TUNED_ON, FEW, features).file
    if not kept.exists():
        fit, candidates = METHODS["ridgeformer" if method == "pykeops" else method]
        X, y = draw(data, TUNED_ON + JUDGED_ON, features)
        errors = {
            candidate: error(fit(X[:TUNED_ON], y[:TUNED_ON], FEW, *candidate)[0], X[TUNED_ON:], y[TUNED_ON:])
            for candidate in candidates
        }
        best = min(errors, key=errors.__getitem__)
        kept.write_text(json.dumps({"best": best, "errors": [[*one, found] for one, found in errors.items()]}))
    first, second = json.loads(kept.read_text())["best"]
    return first, second


def measure(asked: Configuration) -> dict[str, Any]:
    """Tune, fit and judge; the fit alone is timed, with what it takes beside the data."""
    chosen, fit = tuned(asked.method, asked.data, asked.features), METHODS[asked.method][0]
    X, y = draw(asked.data, asked.rows + TEST, asked.features)
    train, test = slice(asked.rows), slice(asked.rows, None)
    warm = min(asked.rows, WARM if asked.method == "ridgeformer" else 2000)
    fit(X[:warm], y[:warm], FEW, *chosen)  # imports, compilation and threads are no part of a fit
    before = _count_peak_from_here()
    begin, processor = time.perf_counter(), time.process_time()
    model, note = fit(X[train], y[train], asked.centres, *chosen)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    beside = _counted_peak() - before
    return {
        "seconds": seconds, "processor": processor, "beside": beside, "error": error(model, X[test], y[test]),
        "chosen": chosen, "note": note, "threads": torch.get_num_threads(), "width": X.shape[1],
    }  # fmt: skip


WARM = 140_000
"""Rows of a first fit of ours that is not timed: enough for columns of `FEW` centres not to be kept."""


def run(asked: Configuration, timeout: float) -> None:
    """Run one configuration in a process unless its result is there; a crash or a timeout is a result too."""
    if asked.file.exists():
        return
    print(f"{asked} ...", end=" ", flush=True)
    command = [sys.executable, __file__, "--worker", json.dumps(asdict(asked))]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        found = {"note": _why(done)} if done.returncode else json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"note": f"stopped after {timeout:.0f} s, tuning included"}
    asked.file.write_text(json.dumps({**asdict(asked), **found}))
    shown = {key: value if isinstance(value, str) else round(value, 3) for key, value in found.items() if key in SHOWN}
    print(f"{time.perf_counter() - begin:.0f} s with tuning and data: {shown}", flush=True)


SHOWN = ("seconds", "error", "note")


def sweep(name: str, data: list[str]) -> list[Configuration]:
    """Return the configurations of a part of the benchmark, the most important first."""
    if name == "targets":
        return [
            Configuration("ridgeformer", "sphere", 10**6),
            Configuration("ridgeformer", "sphere", 10**6, 5000),
            Configuration("ridgeformer", "sphere", 5 * 10**6),
            Configuration("Nystroem + Ridge", "sphere", 10**6),
        ]
    if name == "rivals":
        streamed = [method for method in METHODS if method != "pykeops"]
        many = [Configuration(method, one, n) for one in data for n in (10**5, 10**6) for method in streamed]
        return many + [
            Configuration(method, one, EXACT_AT_MOST) for one in data for method in ("ridgeformer", "pykeops")
        ]
    rows = [Configuration("ridgeformer", "sphere", n) for n in (10**5, 3 * 10**5, 10**6, 2 * 10**6, 5 * 10**6)]
    centres = [Configuration("ridgeformer", "sphere", 10**6, m) for m in (500, 1000, 2000, 5000)]
    return rows + centres + [Configuration("ridgeformer", "sphere", 10**6, 2000, d) for d in (8, 32, 64, 100)]


# -- tables ------------------------------------------------------------------------------------------


def page() -> None:
    """Write a table of all results, and exponents of time in rows, centres and features."""
    found = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    found = sorted(
        (one for one in found if "rows" in one),
        key=lambda one: (one["data"], one["features"], one["rows"], one["centres"], one["method"]),
    )
    if not found:
        sys.exit("no results yet: run --targets, --rivals or --growth first.")
    how = (
        "`python benchmarks/centres_at_scale.py --targets`, `--rivals`, `--growth` and `--page`, KeOps by "
        "`--rivals --only pykeops --timeout 120`; each run in a process"
    )
    settings = {"tuned on": TUNED_ON, "test rows": TEST, "noise": NOISE}
    report("centres_at_scale", settings, [_line(one) for one in found], how)
    axes = {
        "rows": [
            one for one in found if one["centres"] == 2000 and not one["features"] and one["rows"] > EXACT_AT_MOST
        ],
        "centres": [one for one in found if one["rows"] == 10**6 and not one["features"]],
        "width": [one for one in found if one["rows"] == 10**6 and one["centres"] == 2000],
    }
    lines = []
    for axis, ones in axes.items():
        ones = sorted(
            (one for one in ones if one["method"] == "ridgeformer" and one["data"] == "sphere" and "seconds" in one),
            key=lambda one: one[axis],
        )
        if len(ones) > 2:
            slope = np.polyfit(np.log([one[axis] for one in ones]), np.log([one["seconds"] for one in ones]), 1)[0]
            lines.append({
                "grows in": axis, "values": " ".join(str(one[axis]) for one in ones),
                "seconds": " ".join(f"{one['seconds']:.1f}" for one in ones), "exponent": f"{slope:.2f}",
            })  # fmt: skip
    if lines:
        report("centres_growth", settings, lines, how)


def _line(one: dict[str, Any]) -> dict[str, Any]:
    known = "seconds" in one
    return {
        "data": one["data"],
        "features": one.get("width", "-"),
        "n": one["rows"],
        "centres or features": "-" if one["method"] in ("HistGradientBoosting", "pykeops") else one["centres"],
        "method": one["method"],
        "seconds": f"{one['seconds']:.1f}" if known else "-",
        "processor s": f"{one['processor']:.1f}" if known else "-",
        "GiB beside the data": f"{one['beside'] / 2**30:.2f}" if known else "-",
        "test error": f"{one['error']:.4f}" if known else "-",
        "note": one["note"],
    }


def main() -> None:
    """Read the arguments; run what is missing of what was asked for, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--targets", action="store_true", help="what is promised at 10^6 and 5 x 10^6 rows")
    parser.add_argument("--rivals", action="store_true", help="every method at 10^5 and 10^6 rows")
    parser.add_argument("--growth", action="store_true", help="ours in rows, centres and features")
    parser.add_argument("--page", action="store_true", help="write the tables from what there is")
    parser.add_argument("--data", nargs="+", default=["sphere", "rough", "digits"])
    parser.add_argument("--only", help="one method")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds of a run, tuning included")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if asked.worker:
        print(json.dumps(measure(Configuration(**json.loads(asked.worker)))))
        return
    for name in ("targets", "rivals", "growth"):
        if getattr(asked, name):
            for one in sweep(name, asked.data):
                if asked.only in (None, one.method):
                    run(one, asked.timeout)
    if asked.page:
        page()


if __name__ == "__main__":
    main()
