"""Compiled programs against the same algorithms in plain numpy, one task, one thread, processor time.

The rival is what one would write for the algorithm: numpy on whole arrays, no check of its input. A compiled model
checks its input, and runs its sublayers from their weights. Both return the predictions of the last step.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from harness import report
from numpy.typing import NDArray

import ridgeformer as rf
from ridgeformer.compiler.execution import fast
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.programs import PROGRAMS

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


def elastic_net(X: Array, y: Array, Xq: Array) -> Array:
    """Elastic net."""
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        w = soft(w - 0.5 * (X.T @ (X @ w - y)) / len(X), 0.05) / 1.05
    return Xq @ w


def fista(X: Array, y: Array, Xq: Array) -> Array:
    """FISTA."""
    w = z = np.zeros(X.shape[1])
    t = 1.0
    for _ in range(STEPS):
        t, before = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        v = soft(z - 0.5 * (X.T @ (X @ z - y)) / len(X), 0.05)
        z, w = v + (before - 1) / t * (v - w), v
    return Xq @ w


def whitened_descent(X: Array, y: Array, Xq: Array) -> Array:
    """Gradient descent."""
    w = np.zeros(X.shape[1])
    for _ in range(STEPS):
        w = w - 0.5 * (X.T @ (X @ w - y)) / len(X)
    return Xq @ w


def preconditioned_descent(X: Array, y: Array, Xq: Array) -> Array:
    """Gradient descent with a diagonal preconditioner."""
    w, d = np.zeros(X.shape[1]), 0.5 / (np.mean(X**2, 0) + 1e-3) / len(X)
    for _ in range(STEPS):
        w = w - d * (X.T @ (X @ w - y))
    return Xq @ w


def cg(A: Array, b: Array, steps: int) -> Array:
    """Conjugate gradients from zero on one matrix, or on a stack of them."""
    if A.ndim == 3:
        return np.stack([cg(one, right, steps) for one, right in zip(A, b, strict=True)])
    x, r, p, rho = np.zeros_like(b), b, b, b @ b
    for _ in range(steps):
        u = A @ p
        gamma = rho / (p @ u) if rho > 0 else 0.0
        x, r = x + gamma * p, r - gamma * u
        rho, old = r @ r, rho
        p = r + (rho / old if old > 0 else 0.0) * p
    return x


def huber(X: Array, y: Array, Xq: Array) -> Array:
    """Huber regression: the weighted normal matrix, then conjugate gradients on it."""
    w, ridge = np.zeros(X.shape[1]), 0.01 * np.eye(X.shape[1])
    for _ in range(STEPS):
        e = X @ w - y
        h = 1 / np.maximum(np.abs(e), 1)
        w = w + cg((X.T * h) @ X / len(X) + ridge, -(X.T @ (h * e)) / len(X) - 0.01 * w, 4)
    return Xq @ w


def logistic_newton(X: Array, y: Array, Xq: Array) -> Array:
    """Logistic regression: the Hessian, then conjugate gradients on it."""
    w, ridge = np.zeros(X.shape[1]), 0.01 * np.eye(X.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(X @ w)))
        w = w + cg((X.T * (p * (1 - p))) @ X / len(X) + ridge, -(X.T @ (p - y)) / len(X) - 0.01 * w, 4)
    return 1 / (1 + np.exp(-(Xq @ w)))


def process_variance(X: Array, y: Array, Xq: Array) -> Array:
    """Conjugate gradients for all queries at once, on rows."""
    A = X.T @ X + 0.1 * np.eye(X.shape[1])
    V, R = np.zeros_like(Xq), Xq
    Q, rho = R, (R * R).sum(1, keepdims=True)
    for _ in range(FEATURES):
        U = Q @ A
        gamma = rho / (Q * U).sum(1, keepdims=True)
        V, R = V + gamma * Q, R - gamma * U
        rho, old = (R * R).sum(1, keepdims=True), rho
        Q = R + rho / old * Q
    return 0.1 * (Xq * V).sum(1)


def recursive_least_squares(X: Array, y: Array, Xq: Array) -> Array:
    """The textbook recursion, one support after the other."""
    P, w = np.eye(X.shape[1]) / 0.1, np.zeros(X.shape[1])
    for x, target in zip(X, y, strict=True):
        u = P @ x
        gain = u / (1 + x @ u)
        w = w + gain * (target - x @ w)
        P = P - np.outer(gain, u)
    return Xq @ w


def nearest_neighbour(X: Array, y: Array, Xq: Array) -> Array:
    """The nearest support."""
    return y[np.argmin((X * X).sum(1) - 2 * Xq @ X.T, 1)]


def nearest_neighbours(X: Array, y: Array, Xq: Array) -> Array:
    """Three nearest supports."""
    return y[np.argpartition((X * X).sum(1) - 2 * Xq @ X.T, 3, 1)[:, :3]].mean(1)


def nystrom_regression(X: Array, y: Array, Xq: Array) -> Array:
    """Conjugate gradients on the normal equations of the landmarks, every product through all rows."""
    Z = X[:5]
    K, Kz, Kq = (np.exp(-((R * R).sum(1)[:, None] + (Z * Z).sum(1) - 2 * R @ Z.T) / 16) for R in (X, Z, Xq))
    a, r = np.zeros(5), K.T @ y
    p, rho = r, r @ r
    for _ in range(5):
        u = K.T @ (K @ p) + 0.1 * Kz @ p
        gamma = rho / (p @ u)
        a, r = a + gamma * p, r - gamma * u
        rho, old = r @ r, rho
        p = r + rho / old * p
    return Kq @ a


def newton_schulz(X: Array, y: Array, Xq: Array) -> Array:
    """Newton-Schulz for X'X, as the program does it: on the rows, not on a matrix of the features."""
    U = np.concatenate([X, Xq]) / (X * X).sum()
    for _ in range(STEPS):
        U = 2 * U - U @ (X.T @ U[: len(X)])
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


RIVALS: dict[str, tuple[dict[str, float], Rival]] = {
    "ista": ({}, ista),
    "fista": ({}, fista),
    "elastic_net": ({}, elastic_net),
    "whitened_descent": ({}, whitened_descent),
    "preconditioned_descent": ({}, preconditioned_descent),
    "barzilai_borwein": ({}, barzilai_borwein),
    "logistic_descent": ({}, logistic_descent),
    "logistic_newton": ({}, logistic_newton),
    "huber": ({}, huber),
    "newton_schulz": ({}, newton_schulz),
    "power_iteration": ({"temperature": 8.0}, power_iteration),
    "least_mean_squares": ({"step_size": 0.01}, least_mean_squares),
    "process_variance": ({"steps": FEATURES}, process_variance),
    "nystrom_regression": ({"steps": 5, "temperature": 8.0}, nystrom_regression),
    "recursive_least_squares": ({"steps": FEATURES}, recursive_least_squares),
    "nearest_neighbour": ({"steps": 1}, nearest_neighbour),
    "nearest_neighbours": ({"steps": SUPPORTS}, nearest_neighbours),
}
"""Options of every program, and its rival."""


NOTES = """\
Times are those of a pass after the first, which plans the model (0.01 to 1 s) and, once in a process, starts Numba
(about half a second). `ratio` is a plain call of the model: it checks its input and compares every weight, bit by bit,
with those that it was planned for. `ratio frozen` is a call inside `with model.frozen():`, which leaves the comparison
out. `instructions` are those of the kernel. Rivals are plain numpy for the same algorithm.

Programs above three times numpy, and why:

{above}

`at 20` and `at 100` are milliseconds of numpy, of a plain call and of a frozen one at 20 and at 100 supports. Most
plain calls there run torch, sublayer by sublayer: planning for the kernel takes as long as 10 to 50 such calls, and
pays only for many. `frozen` says that there will be many: use it in a loop over small tasks. `batch` is milliseconds
for 20 tasks of 100 supports in one call, all at once by torch, and one after the other by the kernel; a model takes the
kernel where tasks are large enough.
"""

WHY = {
    "nystrom_regression": "numpy has 510 x 5 entries of the kernel and makes about 60 calls. The network has the same: "
    "which supports are landmarks is known when the run is planned, so 511 x 5 and 5 x 500 entries are formed. What is "
    "left is the cost of a call: checking the input and the weights, two patterns formed by torch, three calls of the "
    "kernel.",
    "nearest_neighbour": "both have 10 x 500 inner products; the network takes as many exponentials besides. What is "
    "left is the cost of a call, which does not grow: {more}",
    "nearest_neighbours": "takes one support a step, because a query cannot mask the support that it has found. Every "
    "support costs each query 16 products and about 30 comparisons, minima and gated sums, {instructions} "
    "instructions on 10 numbers in all; numpy has one product of 10 x 16 x 500 and one partial sort of 10 x 500. That "
    "sort has no counterpart in a network of these parts.",
    "newton_schulz": "both take 500 x 16 x 16 products twice a step; numpy as two matrix products, which reuse "
    "registers, the table as 32 instructions on 16 rows each, which read their rows from the cache again.",
    "fista": "every step has weights of its own for the momentum, and all of them are compared.",
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


def draw(labels: bool, supports: int = SUPPORTS, queries: int = QUERIES) -> tuple[Array, Array, Array]:
    """Standard normal rows and targets."""
    generator = numpy_generator(0, "rows")
    X, Xq = generator.standard_normal((supports, FEATURES)), generator.standard_normal((queries, FEATURES))
    y = X @ generator.standard_normal(FEATURES) + 0.1 * generator.standard_normal(supports)
    return X, (y > 0).astype(float) if labels else y, Xq


def measure(model: rf.CompiledTransformer, rival: Rival, given: tuple[Array, Array, Array], repeats: int) -> Times:
    """Return the seconds of numpy, of a call and of a frozen call, and how far apart the answers are."""
    tensors = [torch.from_numpy(part) for part in given]
    answer, expected = model(*tensors).numpy(), rival(*given)
    best = race({"plain": lambda: rival(*given), "compiled": lambda: model(*tensors)}, repeats)
    with model.frozen():
        best |= race({"frozen": lambda: model(*tensors)}, repeats)
    return Times(*best.values(), float(np.abs(answer - expected).max() / np.abs(expected).max()))


class Times(NamedTuple):
    """Seconds of numpy, of a call and of a frozen call, and the largest difference of the answers."""

    plain: float
    compiled: float
    frozen: float
    difference: float

    def __str__(self) -> str:
        return " / ".join(f"{1e3 * seconds:.2f}" for seconds in self[:3])


def batch(model: rf.CompiledTransformer, labels: bool) -> str:
    """Return milliseconds of 20 tasks of 100 supports, by torch and by the kernel."""
    X, y, Xq = (torch.from_numpy(part).expand(20, *part.shape) for part in draw(labels, 100))
    y, found = y[..., None], []
    for least in (2**60, 0):
        model._plans, before = fast.Plans(), (fast.LEAST_WORK, fast.LEAST_TASK, fast.LEAST_FORMED)
        fast.LEAST_WORK = fast.LEAST_TASK = fast.LEAST_FORMED = least
        found.append(1e3 * race({"batch": lambda: model(X, y, Xq)}, 3)["batch"])
        fast.LEAST_WORK, fast.LEAST_TASK, fast.LEAST_FORMED = before
    model._plans = fast.Plans()
    return " / ".join(f"{one:.1f}" for one in found)


def main() -> None:
    """Time every pair, and say how far apart their answers are."""
    torch.set_num_threads(1)
    rows, more = [], ""
    for name, (options, rival) in RIVALS.items():
        labels = name.startswith("logistic")
        model = rf.compile(PROGRAMS[name](**{"steps": STEPS, **options}), features=FEATURES)
        times = measure(model, rival, draw(labels), 20)
        table = next(iter(reversed(model._plans.tables.values())))
        if name == "nearest_neighbour":
            many = measure(model, rival, draw(labels, 5000, 500), 5)
            more = f"at 5,000 supports and 500 queries the ratio is {many.compiled / many.plain:.1f}."
        rows.append({
            "program": name, "steps": model.spec.steps, "numpy ms": round(1e3 * times.plain, 2),
            "compiled ms": round(1e3 * times.compiled, 2), "ratio": round(times.compiled / times.plain, 2),
            "ratio frozen": round(times.frozen / times.plain, 2),
            "instructions": 0 if table is None else sum(len(stretch.table) for stretch in table.stretches),
            "largest difference": f"{times.difference:.1e}",
            **{f"at {few}": str(measure(model, rival, draw(labels, few), 5)) for few in (20, 100)},
            "batch": batch(model, labels),
        })  # fmt: skip
        print(rows[-1], flush=True)
    above = [
        f"- `{row['program']}`: " + WHY[str(row["program"])].format(more=more, instructions=f"{row['instructions']:,}")
        for row in rows
        if float(str(row["ratio"])) > 3
    ]
    settings = {"supports": SUPPORTS, "queries": QUERIES, "features": FEATURES, "steps": STEPS, "threads": 1}
    notes = NOTES.format(above="\n".join(textwrap.fill(one, 120, subsequent_indent="  ") for one in above) or "none.")
    report("compiled_programs", settings | {"times": "processor time, least of 20"}, rows, notes=notes)


if __name__ == "__main__":
    main()
