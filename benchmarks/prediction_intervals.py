"""Prediction intervals: coverage over many draws, and the time of jackknife+ beside MAPIE's refits."""

from __future__ import annotations

import argparse
import resource
import time
from math import log

import torch
from harness import report
from mapie.regression import CrossConformalRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut

import ridgeformer as rf
from ridgeformer.core.seeds import torch_generator
from ridgeformer.core.statistics import mean_interval
from ridgeformer.intervals import GUARANTEES

DRAWS, LEVEL, N, QUERIES, FEATURES, RIDGE, TAU = 500, 0.9, 10_000, 2000, 18, 0.1, 9.0
SMALL, FEW = (125, 250, 500), 10


def draw(n: int, seed: int, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows in the square and noisy targets: normal noise, heavy tails, or noise that grows along one feature."""
    generator = torch_generator(seed, f"intervals {kind}")
    X = 2 * torch.rand(n, 2, generator=generator, dtype=torch.float64) - 1
    noise = 0.3 * torch.randn(n, generator=generator, dtype=torch.float64)
    noise = {"normal": noise, "heavy tails": 10 * noise**3, "growing": noise * (1 + X[:, 0]) * 1.5}[kind]
    return X, torch.sin(3 * X[:, 0]) + X[:, 1] ** 2 + noise


def coverage() -> None:
    """Measure how often new targets are covered, on average over draws of everything, and how wide intervals are."""
    rows, kernel = [], rf.Gaussian(temperature=0.5)
    for kind in ("normal", "heavy tails", "growing"):
        held: dict[str, list[float]] = {method: [] for method in GUARANTEES}
        width: dict[str, list[float]] = {method: [] for method in GUARANTEES}
        for seed in range(DRAWS):
            X, y = draw(250, seed, kind)
            Xq, yq = X[200:], y[200:]
            whole = rf.solve(kernel, X[:200], y[:200], 0.3, algorithm="direct")
            half = rf.solve(kernel, X[:100], y[:100], 0.3, algorithm="direct")
            for method in GUARANTEES:
                split = method in ("split", "normalised")
                given = {"calibration": (X[100:200], y[100:200])} if split else {}
                interval = (half if split else whole).interval(Xq, LEVEL, method, **given)
                held[method].append(float(interval.covers(yq).double().mean()))
                width[method].append(float(interval.width.mean()))
        for method in GUARANTEES:
            low, high = mean_interval(held[method])
            assert low is not None
            assert high is not None
            rows.append(
                {
                    "noise": kind,
                    "method": method,
                    "covered": f"{sum(held[method]) / DRAWS:.4f}",
                    "95 % interval": f"{low:.4f} to {high:.4f}",
                    "mean width": f"{sum(width[method]) / DRAWS:.3f}",
                }
            )
    settings = {"draws": DRAWS, "rows": 200, "queries": 50, "level": LEVEL}
    report("interval_prediction_coverage", settings, rows, "`python benchmarks/prediction_intervals.py`")


def classes() -> None:
    """Measure how often prediction sets hold the true class, over all classes and for the rarest."""
    rows, kernel = [], rf.Gaussian(temperature=0.5)
    for per_class in (False, True):
        held, rare, size = [], [], []
        for seed in range(DRAWS):
            generator = torch_generator(seed, "interval classes")
            labels = torch.multinomial(torch.tensor([0.6, 0.3, 0.1]), 300, replacement=True, generator=generator)
            X = torch.randn(300, 2, generator=generator, dtype=torch.float64) + 1.3 * torch.eye(3, 2).double()[labels]
            targets = 2 * torch.nn.functional.one_hot(labels, 3).double() - 1
            fit = rf.solve(kernel, X[:250], targets[:250], 1.0, algorithm="direct")
            sets = fit.prediction_set(X[250:], LEVEL, per_class=per_class)
            covered = sets.covers(labels[250:]).double()
            held.append(float(covered.mean()))
            if bool((labels[250:] == 2).any()):
                rare.append(float(covered[labels[250:] == 2].mean()))
            size.append(float(sets.size.double().mean()))
        low, high = mean_interval(held)
        assert low is not None
        assert high is not None
        rows.append(
            {
                "compared": "within every class" if per_class else "over all rows",
                "covered": f"{sum(held) / DRAWS:.4f}",
                "95 % interval": f"{low:.4f} to {high:.4f}",
                "covered, rarest class": f"{sum(rare) / len(rare):.4f}",
                "mean size": f"{sum(size) / DRAWS:.3f}",
            }
        )
    settings = {"draws": DRAWS, "rows": 250, "queries": 50, "level": LEVEL}
    report("prediction_set_coverage", settings, rows, "`python benchmarks/prediction_intervals.py`")


def seconds(run: object) -> float:
    """Return the time of one call."""
    begin = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - begin


def speed() -> None:
    """Time jackknife+ at 10,000 rows beside one Cholesky, one refit, and MAPIE where it can run."""
    generator = torch_generator(0, "interval speed")
    X = torch.randn(N + QUERIES, FEATURES, generator=generator, dtype=torch.float64)
    y = torch.sin(X[:, 0]) + 0.1 * torch.randn(len(X), generator=generator, dtype=torch.float64)
    kernel = rf.Gaussian(temperature=TAU)

    def ours(n: int, q: int) -> torch.Tensor:
        return rf.solve(kernel, X[:n], y[:n], RIDGE, algorithm="direct").interval(X[N : N + q], LEVEL).low

    def theirs(n: int, q: int) -> object:
        estimator = KernelRidge(kernel="rbf", gamma=1 / (2 * TAU), alpha=RIDGE)
        model = CrossConformalRegressor(estimator, LEVEL, cv=LeaveOneOut(), method="plus")
        return model.fit_conformalize(X[:n].numpy(), y[:n].numpy()).predict_interval(X[N : N + q].numpy())

    ours(4000, 1000)  # imports and threads
    A = kernel(X[:N]).diagonal_scatter(1 + RIDGE + 0 * X[:N, 0])
    cholesky = seconds(lambda: torch.linalg.cholesky(A))
    del A
    own = seconds(lambda: ours(N, QUERIES))
    refit = seconds(
        lambda: KernelRidge(kernel="rbf", gamma=1 / (2 * TAU), alpha=RIDGE).fit(X[: N - 1].numpy(), y[: N - 1].numpy())
    )
    small = [seconds(lambda n=n: theirs(n, QUERIES)) for n in SMALL]
    power = log(small[-1] / small[0]) / log(SMALL[-1] / SMALL[0])
    row = {
        "cholesky s": f"{cholesky:.2f}",
        "jackknife+ s": f"{own:.2f}",
        "over cholesky": f"{own / cholesky:.2f}",
        **{f"MAPIE, {n} rows s": f"{one:.1f}" for n, one in zip(SMALL, small, strict=True)},
        "growth": f"n^{power:.1f}",
        "one scikit-learn refit s": f"{refit:.1f}",
        "n of them s": f"{N * refit:,.0f}",
        "over jackknife+": f"{N * refit / own:,.0f}",
    }
    settings = {"n": N, "queries": QUERIES, "features": FEATURES, "ridge": RIDGE, "kernel in jackknife+": "included"}
    report("jackknife_plus", settings, [row], "`python benchmarks/prediction_intervals.py --speed`, one run each")


def scale(rows: int) -> None:
    """Make intervals and posterior variances for rows of MNIST too many for a Cholesky factor: time and error bars."""
    train, new = rf.datasets.load("mnist", limit=rows), rf.datasets.load("mnist", part="test", limit=FEW)
    X, Xq = (torch.as_tensor(rf.datasets.unit_rows(data.X)).double() for data in (train, new))
    y = 2 * torch.as_tensor(train.y == 0).double() - 1
    kernel = rf.Exponential(0.25, log_scale=4.0)
    begin = time.perf_counter()
    fit = rf.solve(kernel, X, y, 1e-2)
    solved = time.perf_counter()
    interval = fit.interval(Xq, LEVEL, probes=64)
    judged = time.perf_counter()
    posterior = fit.posterior(Xq)
    end = time.perf_counter()
    assert interval.error is not None
    row = {
        "rows": rows,
        "solve s": round(solved - begin),
        "intervals s": round(judged - solved),
        "variances s": round(end - judged),
        "peak, GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "median width": f"{float(interval.width.median()):.3f}",
        "largest error bar of an end": f"{float(interval.error.max()):.1e}",
        "posterior deviation": f"{float(posterior.std.median()):.3f}",
        "widest proved interval of a variance": f"{float((posterior.high - posterior.low).max()):.1e}",
    }
    settings = {"queries": FEW, "probes": 64, "kernel": "exponential, 0.25, unit diagonal", "ridge": 1e-2}
    report("interval_at_scale", settings, [row], f"`python benchmarks/prediction_intervals.py --scale {rows}`")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true", help="time only")
    parser.add_argument("--scale", type=int, help="intervals without a factor, for this number of rows of MNIST")
    given = parser.parse_args()
    if given.speed:
        speed()
    elif given.scale:
        scale(given.scale)
    else:
        coverage()
        classes()
