"""Twenty ridges with their leave-one-out errors against one fit, and against scikit-learn's ways to choose a ridge."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from harness import report
from scale_rivals import Task, torch_cholesky
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV

from ridgeformer import solve
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving.ridge_path import RidgePath, ridge_path

FEATURES, OUTPUTS, TAU, RIDGE = 784, 10, 0.25, 1e-2
RIDGES = np.geomspace(1e-3, 1e1, 20)
WARM = 8200
"""Rows of a first path that is not timed: from there on Numba is used."""

Found = TypeVar("Found")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
clock = "wall"


def draw(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit rows around ten centres, and +1/-1 targets: a spectrum that decays as that of images does."""
    generator = torch_generator(0, "rows")
    codes = torch.randint(OUTPUTS, (n,), generator=generator)
    centres = torch.randn(OUTPUTS, FEATURES, generator=generator, dtype=torch.float64)
    mixing = torch.randn(FEATURES, FEATURES, generator=generator, dtype=torch.float64)
    decay = torch.arange(1, FEATURES + 1, dtype=torch.float64).reciprocal()
    noise = torch.randn(n, FEATURES, generator=generator, dtype=torch.float64) * decay @ mixing
    rows = torch.nn.functional.normalize(0.5 * centres[codes] + noise, dim=1)
    return rows, 2.0 * torch.nn.functional.one_hot(codes, OUTPUTS).double() - 1


def best_of(run: Callable[[], Found], repeats: int) -> tuple[float, Found]:
    """Return the least of several times, and what was found."""
    times = []
    for _ in range(repeats):
        begin = CLOCKS[clock]()
        found = run()
        times.append(CLOCKS[clock]() - begin)
    return min(times), found


def rivals(n: int) -> list[dict[str, object]]:
    """Time scikit-learn on the same kernel: RidgeCV's leave-one-out on a precomputed kernel's root, and refits."""
    X, y = draw(n)
    K = Exponential(TAU, log_scale=1 / TAU)(X).numpy()
    values, Q = np.linalg.eigh(K)
    root = Q * np.sqrt(values.clip(0))
    search = GridSearchCV(KernelRidge(kernel="precomputed"), {"alpha": RIDGES}, cv=5, scoring="neg_mean_squared_error")
    exact = RidgeCV(RIDGES, fit_intercept=False, store_cv_results=True).fit(root, y.numpy()).cv_results_.mean((0, 1))
    mine, path = best_of(lambda: ours(X, y), 3)
    found = path.mean_squared.numpy()
    plain = RidgeCV(RIDGES, fit_intercept=False)
    timed = {
        "ours, every row left out": mine,
        "RidgeCV, given the kernel's root": best_of(lambda: plain.fit(root, y.numpy()), 1)[0],
        "GridSearchCV, five folds": best_of(lambda: search.fit(K, y.numpy()), 1)[0],
    }
    least = min(timed.values())
    return [
        {
            "n": n,
            "what": name,
            "seconds": round(seconds, 2),
            "times the least": round(seconds / least, 1),
            "difference": f"{np.abs(found / exact - 1).max():.0e}" if name.startswith("ours") else "",
        }
        for name, seconds in timed.items()
    ]


def ours(X: torch.Tensor, y: torch.Tensor) -> RidgePath:
    """All ridges of the grid."""
    return ridge_path(Exponential(TAU, log_scale=1 / TAU), X, y, RIDGES)


def against_one_fit(n: int, repeats: int) -> dict[str, object]:
    """Time all ridges against one fit, by Cholesky in float64 and as `solve` chooses; the kernel is in all of them."""
    X, y = draw(n)
    kernel = Exponential(TAU, log_scale=1 / TAU)
    task = Task(X.numpy(), y.numpy(), TAU, RIDGE, 1e-6)
    ours(X[:WARM], y[:WARM])  # what starts once in a process is no part of a fit
    by_torch, _ = best_of(lambda: torch_cholesky(task), repeats)
    direct, _ = best_of(lambda: solve(kernel, X, y, RIDGE, algorithm="direct"), repeats)
    auto, _ = best_of(lambda: solve(kernel, X, y, RIDGE, tol=1e-6), repeats)
    path, found = best_of(lambda: ours(X, y), repeats)
    return {
        "n": n,
        "float64 Cholesky fit by torch s": round(by_torch, 2),
        "ours in float64 s": round(direct, 2),
        "chosen fit s": round(auto, 2),
        f"{len(RIDGES)} ridges s": round(path, 2),
        "over torch's Cholesky": round(path / by_torch, 2),
        "over ours in float64": round(path / direct, 2),
        "over chosen": round(path / auto, 2),
        "asked": 2.5,
        "largest error found": f"{float(found.error.max()):.0e}",
    }


def main() -> None:
    """Print and keep both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int, nargs="*", default=[10_000])
    parser.add_argument("--rivals", type=int, default=2500, help="rows for scikit-learn")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="processor time of one thread, on a machine that is in use")
    asked = parser.parse_args()
    if asked.busy:
        global clock
        clock = "processor"
        torch.set_num_threads(1)
    settings = {"clock": clock, "features": FEATURES, "outputs": OUTPUTS, "temperature": TAU, "ridges": len(RIDGES)}
    how = f"`make bench`; best of {asked.repeats}, one after the other in one process"
    report("ridge_path", settings, [against_one_fit(n, asked.repeats) for n in asked.n], how)
    report("ridge_path_rivals", settings, rivals(asked.rivals))


if __name__ == "__main__":
    main()
