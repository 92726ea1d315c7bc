"""A compiled softmax CG forward pass against plain torch CG on a stored kernel, both with the kernel included.

Rounding depends on the order of the rows, so errors are those of several random orders, the same for both, against the
exact solution: a direct solve in float64 of the rows as they were rounded to the precision of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch
from harness import race, report

import ridgeformer as rf
from ridgeformer.core.seeds import torch_generator

STEPS, FEATURES, RIDGE, TAU = 20, 64, 0.1, 0.5
ORDERS = 10
"""Random orders of the rows in which errors are measured."""


KERNEL, ALGORITHM = rf.Exponential(TAU), rf.ConjugateGradients(steps=STEPS)


def plain_cg(X: torch.Tensor, y: torch.Tensor, Xq: torch.Tensor) -> torch.Tensor:
    """Conjugate gradients as one would write it, and the prediction."""
    K = torch.exp(X @ X.T / TAU)
    alpha, r, p, rho = torch.zeros_like(y), y, y, y @ y
    for _ in range(STEPS):
        u = K @ p + RIDGE * p
        gamma = rho / (p @ u)
        alpha, r = alpha + gamma * p, r - gamma * u
        rho, previous = r @ r, rho
        p = r + (rho / previous) * p
    return torch.exp(Xq @ X.T / TAU) @ alpha


def exact(X: torch.Tensor, y: torch.Tensor, Xq: torch.Tensor) -> torch.Tensor:
    """Kernel ridge regression by a float64 solve."""
    X, y, Xq = X.double(), y.double(), Xq.double()
    K = torch.exp(X @ X.T / TAU)
    return torch.exp(Xq @ X.T / TAU) @ torch.linalg.solve(K + RIDGE * torch.eye(len(X), dtype=K.dtype), y)


Predictor = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def errors(predict: Predictor, X: torch.Tensor, y: torch.Tensor, Xq: torch.Tensor) -> list[float]:
    """Relative errors against the exact solution for ORDERS random orders of the rows, ascending."""
    truth, found = exact(X, y, Xq), []
    for number in range(ORDERS):
        order = torch.randperm(len(X), generator=torch_generator(0, "order", len(X), number))
        found.append(float((predict(X[order], y[order], Xq).double() - truth).norm() / truth.norm()))
    return sorted(found)


def shown(found: list[float]) -> str:
    """Median, least and largest."""
    return f"{median(found):.1e} ({found[0]:.1e} to {found[-1]:.1e})"


def draw(k: int, dtype: torch.dtype, *tasks: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit rows and random targets."""
    rows = torch.randn(*tasks, k + 10, FEATURES, generator=torch_generator(0, "rows", k), dtype=torch.float64)
    rows = torch.nn.functional.normalize(rows, dim=-1).to(dtype)
    y = torch.randn(*tasks, k, 1, generator=torch_generator(0, "y", k), dtype=torch.float64).to(dtype)
    return rows[..., :k, :], y, rows[..., k:, :]


def main() -> None:
    """Time both for several sizes, and a batch of tasks against one after the other."""
    rows = []
    for dtype in (torch.float64, torch.float32):
        model = rf.compile(KERNEL, ALGORITHM, features=FEATURES, ridge=RIDGE, dtype=dtype)
        for k in (200, 500, 1000, 2000, 4000):
            X, y, Xq = draw(k, dtype)
            runs = {"plain": lambda: plain_cg(X, y[:, 0], Xq), "compiled": lambda: model(X, y, Xq)}  # noqa: B023
            best = race(runs, 20 if k < 2000 else 6)
            plain = errors(plain_cg, X, y[:, 0], Xq)
            compiled = errors(lambda X, y, Xq: model(X, y[:, None], Xq)[:, 0], X, y[:, 0], Xq)  # noqa: B023
            rows.append({
                "dtype": str(dtype).removeprefix("torch."), "k": k, "plain ms": round(1e3 * best["plain"], 2),
                "compiled ms": round(1e3 * best["compiled"], 2), "ratio": round(best["compiled"] / best["plain"], 2),
                "error of plain": shown(plain), "error of compiled": shown(compiled),
            })  # fmt: skip
    settings = {"steps": STEPS, "features": FEATURES, "ridge": RIDGE, "temperature": TAU}
    errors_of = f"against the exact float64 solution, median (least to largest) of {ORDERS} row orders"
    report("compiled_forward", settings | {"errors": errors_of}, rows)

    X, y, Xq = draw(50, torch.float64, 64)
    model = rf.compile(KERNEL, ALGORITHM, features=FEATURES, ridge=RIDGE)
    best = race(
        {"one by one": lambda: [model(X[i], y[i], Xq[i]) for i in range(64)], "batch": lambda: model(X, y, Xq)}, 3
    )
    row = {name: f"{1e3 * seconds:.1f} ms" for name, seconds in best.items()}
    row["ratio"] = f"{best['one by one'] / best['batch']:.1f}"
    report("compiled_batch", {"tasks": 64, "k": 50, "steps": STEPS}, [row])


if __name__ == "__main__":
    main()
