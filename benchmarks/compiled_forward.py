"""A compiled softmax CG forward pass against plain torch CG on a stored kernel, both with the kernel included."""

from __future__ import annotations

import torch
from harness import race, report

import ridgeformer as rf
from ridgeformer.seeds import torch_generator

STEPS, FEATURES, RIDGE, TAU = 20, 64, 0.1, 0.5


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
        model = rf.compile("softmax", features=FEATURES, ridge=RIDGE, steps=STEPS, temperature=TAU, dtype=dtype)
        for k in (200, 500, 1000, 2000, 4000):
            X, y, Xq = draw(k, dtype)
            runs = {"plain": lambda: plain_cg(X, y[:, 0], Xq), "compiled": lambda: model(X, y, Xq)}  # noqa: B023
            best = race(runs, 20 if k < 2000 else 6)
            plain, order = plain_cg(X, y[:, 0], Xq), torch.randperm(k, generator=torch_generator(0, "order", k))
            gap = float((plain - model(X, y, Xq)[:, 0]).norm() / plain.norm())
            control = float((plain - plain_cg(X[order], y[order, 0], Xq)).norm() / plain.norm())
            rows.append({
                "dtype": str(dtype).removeprefix("torch."), "k": k, "plain ms": round(1e3 * best["plain"], 2),
                "compiled ms": round(1e3 * best["compiled"], 2), "ratio": round(best["compiled"] / best["plain"], 2),
                "difference": f"{gap:.0e}", "plain, rows permuted": f"{control:.0e}",
            })  # fmt: skip
    report("compiled_forward", {"steps": STEPS, "features": FEATURES, "ridge": RIDGE, "temperature": TAU}, rows)

    X, y, Xq = draw(50, torch.float64, 64)
    model = rf.compile("softmax", features=FEATURES, ridge=RIDGE, steps=STEPS, temperature=TAU)
    best = race(
        {"one by one": lambda: [model(X[i], y[i], Xq[i]) for i in range(64)], "batch": lambda: model(X, y, Xq)}, 3
    )
    row = {name: f"{1e3 * seconds:.1f} ms" for name, seconds in best.items()}
    row["ratio"] = f"{best['one by one'] / best['batch']:.1f}"
    report("compiled_batch", {"tasks": 64, "k": 50, "steps": STEPS}, [row])


if __name__ == "__main__":
    main()
