"""All leave-one-out influences against one Cholesky factorisation of the same matrix, and against refits."""

from __future__ import annotations

import torch
from harness import race, report

from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import leave_one_out
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

N, QUERIES, FEATURES, RIDGE, TAU, REFITS = 5000, 500, 64, 0.1, 0.5, 3


def draw(n: int, purpose: str) -> torch.Tensor:
    """Unit rows."""
    rows = torch.randn(n, FEATURES, generator=torch_generator(0, purpose), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


def main() -> None:
    """Time all n x q influences, kernel included; a refit leaves out one row and predicts every query."""
    X, Xq, kernel = draw(N, "rows"), draw(QUERIES, "queries"), Exponential(TAU)
    y = torch.randn(N, generator=torch_generator(0, "y"), dtype=torch.float64)
    A, cross = kernel(X).diagonal_scatter(kernel.diag(X) + RIDGE), kernel(Xq, X)

    def refit(i: int) -> torch.Tensor:
        """As one would write it, with the kernel at hand: Cholesky of A without row i, and the predictions."""
        keep = torch.arange(N) != i
        factor = torch.linalg.cholesky(A[keep][:, keep])
        return cross[:, keep] @ torch.cholesky_solve(y[keep, None], factor)[:, 0]

    def every_influence() -> torch.Tensor:
        """One direct fit, and everything from its factor."""
        return leave_one_out(solve(kernel, X, y, RIDGE, algorithm="direct"), Xq)

    runs = {
        "cholesky": lambda: torch.linalg.cholesky(A),
        "all n x q": every_influence,
        f"{REFITS} refits": lambda: [refit(i) for i in range(REFITS)],
    }
    best = race(runs, 3)
    found, full = every_influence(), cross @ torch.linalg.solve(A, y)
    gap = max(float((found[i] - (full - refit(i))).norm() / found[i].norm()) for i in range(REFITS))
    every = best[f"{REFITS} refits"] / REFITS * N
    row = {
        "cholesky s": round(best["cholesky"], 2),
        "all n x q s": round(best["all n x q"], 2),
        "over cholesky": round(best["all n x q"] / best["cholesky"], 2),
        "limit": 3,
        f"n refits s (from {REFITS})": round(every),
        "refits over ours": round(every / best["all n x q"]),
        "at least": 500,
        "difference": f"{gap:.0e}",
    }
    settings = {"n": N, "queries": QUERIES, "features": FEATURES, "ridge": RIDGE, "temperature": TAU}
    report("leave_one_out", settings, [row])


if __name__ == "__main__":
    main()
