"""Compiled programs against the same algorithms in plain numpy, one task, one thread, processor time.

The rival is what one would write for the algorithm: numpy on whole arrays, no check of its input. A compiled model
checks its input, and runs its sublayers from their weights. Both return the predictions of the last step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from harness import report
from numpy.typing import NDArray

import ridgeformer as rf
from ridgeformer.core.seeds import numpy_generator

SUPPORTS, QUERIES, FEATURES, STEPS = 500, 10, 16, 50

Array: TypeAlias = NDArray[np.float64]
Rival: TypeAlias = Callable[[Array, Array, Array], Array]


def soft(v: Array, t: float) -> Array:
    """Soft-threshold."""
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def ista(X: Array, y: Array, Xq: Array) -> Array:
    """ISTA."""
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        w = soft(w - 0.5 * (X.T @ (X @ w - y)) / len(X), 0.05)
    return Xq @ w


def logistic_descent(X: Array, y: Array, Xq: Array) -> Array:
    """Logistic regression by gradient descent."""
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(X @ w)))
        w = w - (X.T @ (p - y)) / len(X) - 0.01 * w
    return 1 / (1 + np.exp(-(Xq @ w)))


def barzilai_borwein(X: Array, y: Array, Xq: Array) -> Array:
    """Ridge regression with Barzilai-Borwein steps."""
    w, eta = np.zeros(X.shape[1]), 0.1
    g = -(X.T @ y) / len(X)
    for _ in range(STEPS):
        s = -eta * g
        w = w + s
        new = (X.T @ (X @ w - y)) / len(X) + 0.1 * w
        change = s @ (new - g)
        eta, g = (s @ s / change if change > 0 else 0.0), new
    return Xq @ w


def newton_schulz(X: Array, y: Array, Xq: Array) -> Array:
    """Newton-Schulz for X'X, as the program does it: on the rows, not on a matrix of the features."""
    Z = np.concatenate([X, Xq])
    U = Z / np.trace(X @ X.T)
    for _ in range(STEPS):
        U = 2 * U - (U @ X.T) @ U[: len(X)]
    return U[len(X) :] @ (X.T @ y)


def power_iteration(X: Array, y: Array, Xq: Array) -> Array:
    """Power iteration on the exponential kernel."""
    K = np.exp(np.concatenate([X, Xq]) @ X.T / 8)
    v = y
    for _ in range(STEPS):
        u = K @ v
        quotient = v @ u[: len(X)] / (v @ v)
        u = u / quotient
        v = u[: len(X)]
    return u[len(X) :]


def least_mean_squares(X: Array, y: Array, Xq: Array) -> Array:
    """The fixed-point iteration of the program, on the stored Gram matrix."""
    L = np.tril(X @ X.T, -1)
    s = np.zeros(len(X))
    for _ in range(STEPS):
        e = y - 0.01 * s
        s = L @ e
    return 0.01 * Xq @ (X.T @ e)


RIVALS: dict[str, tuple[rf.programs.WrittenAlgorithm, Rival]] = {
    "ista": (rf.programs.PROGRAMS["ista"](steps=STEPS), ista),
    "logistic_descent": (rf.programs.PROGRAMS["logistic_descent"](steps=STEPS), logistic_descent),
    "barzilai_borwein": (rf.programs.PROGRAMS["barzilai_borwein"](steps=STEPS), barzilai_borwein),
    "newton_schulz": (rf.programs.PROGRAMS["newton_schulz"](steps=STEPS), newton_schulz),
    "power_iteration": (rf.programs.PROGRAMS["power_iteration"](steps=STEPS, temperature=8.0), power_iteration),
    "least_mean_squares": (rf.programs.PROGRAMS["least_mean_squares"](steps=STEPS, step_size=0.01), least_mean_squares),
}


def race(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the least processor time of each in seconds; they take turns."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats + 1):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - begin)
    return best


def draw(labels: bool) -> tuple[Array, Array, Array]:
    """Standard normal rows and targets."""
    generator = numpy_generator(0, "rows")
    X, Xq = generator.standard_normal((SUPPORTS, FEATURES)), generator.standard_normal((QUERIES, FEATURES))
    y = X @ generator.standard_normal(FEATURES) + 0.1 * generator.standard_normal(SUPPORTS)
    return X, (y > 0).astype(float) if labels else y, Xq


def main() -> None:
    """Time every pair, and say how far apart their answers are."""
    torch.set_num_threads(1)
    rows = []
    for name, (program, rival) in RIVALS.items():
        X, y, Xq = draw(name.startswith("logistic"))
        model = rf.compile(program, features=FEATURES)
        tensors = [torch.from_numpy(part) for part in (X, y, Xq)]
        answer, expected = model(*tensors).numpy(), rival(X, y, Xq)
        best = race({"plain": lambda: rival(X, y, Xq), "compiled": lambda: model(*tensors)}, 20)  # noqa: B023
        rows.append({
            "program": name, "numpy ms": round(1e3 * best["plain"], 2), "compiled ms": round(1e3 * best["compiled"], 2),
            "ratio": round(best["compiled"] / best["plain"], 2),
            "largest difference": f"{np.abs(answer - expected).max() / np.abs(expected).max():.1e}",
        })  # fmt: skip
        print(rows[-1], flush=True)
    settings = {"supports": SUPPORTS, "queries": QUERIES, "features": FEATURES, "steps": STEPS, "threads": 1}
    report("compiled_programs", settings | {"times": "processor time, least of 20"}, rows)


if __name__ == "__main__":
    main()
