"""The finite ReLU tangent kernel: closed form against autodiff, and how fast, and how truly, neurons are streamed."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import torch
from harness import race, report
from torch.func import jacrev, vmap

from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import load, unit_rows
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import (
    LinearisedAttention,
    finite_relu_ntk,
    finite_relu_ntks,
    kernel_distances,
    relu_ntk_of_weights,
)

N, WIDTH, FEATURES = 500, 1024, 784
STREAMED = 2_000_000


def gaussian_rows(n: int, d: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Unit rows without structure: a Gram matrix of full rank, the worst case for the stream."""
    rows = torch.randn(n, d, generator=torch_generator(0, "rows", n, d), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1).to(dtype)


def by_jacobian(X: torch.Tensor, W: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Per-row Jacobians by torch.func and their Gram matrix."""

    def output(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (weights @ x).relu() @ a / len(a) ** 0.5

    J = vmap(jacrev(output), in_dims=(None, 0))(W, X).flatten(1)
    return J @ J.T


def closed_form() -> None:
    """Race the closed form against autodiff, both from the same weights."""
    rows = []
    for dtype in (torch.float32, torch.float64):
        X = gaussian_rows(N, FEATURES, dtype)
        W = torch.randn(WIDTH, FEATURES, generator=torch_generator(0, "weights"), dtype=torch.float64).to(dtype)
        a = torch.randint(0, 2, (WIDTH,), generator=torch_generator(0, "signs")).to(dtype) * 2 - 1
        runs = {"autodiff": lambda: by_jacobian(X, W, a), "closed form": lambda: relu_ntk_of_weights(X, W)}  # noqa: B023
        best = race(runs, 3)
        gap = float((relu_ntk_of_weights(X, W) - by_jacobian(X, W, a)).abs().max())
        rows.append({
            "dtype": str(dtype).removeprefix("torch."), "vmap(jacrev) s": round(best["autodiff"], 2),
            "closed form ms": round(1e3 * best["closed form"], 1),
            "times faster": round(best["autodiff"] / best["closed form"]), "largest difference": f"{gap:.0e}",
        })  # fmt: skip
    report("finite_ntk_closed_form", {"n": N, "width": WIDTH, "d": FEATURES}, rows)


def streaming() -> None:
    """Neurons a second, by wall clock and by processor time, for several n and ranks."""
    cases = {
        "digits": torch.from_numpy(unit_rows(load("digits", limit=200).X)),
        **{f"full rank, n = {n}": gaussian_rows(n, FEATURES) for n in (50, 100, 200, 400)},
    }
    rows = []
    for name, X in cases.items():
        for threads in (1, 2):
            best, busy = float("inf"), float("inf")
            for repeat in range(3):
                generator = torch_generator(repeat, "stream")
                begin, begin_busy = time.perf_counter(), time.process_time()
                finite_relu_ntk(X, STREAMED, generator, threads=threads)
                best = min(best, time.perf_counter() - begin)
                busy = min(busy, time.process_time() - begin_busy)
            rows.append({
                "rows": name, "n": len(X), "threads": threads, "neurons/s": f"{STREAMED / best:,.0f}",
                "neurons/s of processor time": f"{STREAMED / busy:,.0f}",
                "10^9 neurons, minutes": round(1e9 * best / STREAMED / 60, 1),
            })  # fmt: skip
    report("finite_ntk_streaming", {"width": STREAMED, "best of": 3}, rows)


def convergence(decades: int, data: str, n: int, threads: int) -> None:
    """Distance to the infinite-width limit of one growing network, on attention features and on raw rows.

    One stream serves every decade, so the whole curve costs what its last point does. Times sqrt(m) the average entry
    must stay level. The whitened distance is at a ridge equal to the mean diagonal of the limit.
    """
    raw = torch.from_numpy(unit_rows(load(data, limit=n).X)).double()
    widths = [10**k for k in range(2, decades + 1)]
    rows, slopes = [], {}
    for name, X in {"attention": LinearisedAttention(raw)(raw), "raw": raw}.items():
        limit, errors, begin = ReluNTK()(X), [], time.perf_counter()
        ridge = float(limit.diagonal().mean())
        for width, K in finite_relu_ntks(X, widths, torch_generator(0, "convergence"), threads=threads):
            away, seconds = kernel_distances(K, limit, ridge=ridge), time.perf_counter() - begin
            errors.append(away.frobenius)
            rows.append({
                "rows": name, "width": f"{width:,}", "average entry": f"{away.frobenius:.2e}",
                "times sqrt(m)": f"{away.frobenius * width**0.5:.2f}", "multiplicative": f"{away.multiplicative:.2e}",
                "additive, over 1/4": f"{4 * away.additive:.2e}", "ridge-whitened": f"{away.whitened:.2e}",
                "seconds from the start": f"{seconds:,.1f}",
            })  # fmt: skip
            print(f"{name}, {rows[-1]}", file=sys.stderr, flush=True)
        slopes[name] = f"{np.polyfit(np.log(widths), np.log(errors), 1)[0]:.2f}"
    page = "finite_ntk_convergence" if decades < 9 else "finite_ntk_billion"
    command = f"`python benchmarks/finite_ntk.py {decades} --convergence --data {data} --rows {n} --threads {threads}`"
    settings = {"data": data, "n": n, "threads": threads, **{f"slope of {name} rows": s for name, s in slopes.items()}}
    report(page, settings, rows, how=f"{command}; one network that grows, one run")
    if page == "finite_ntk_billion":
        summarise(rows)


def summarise(rows: list[dict[str, str]]) -> None:
    """Write what docs/what_settles_it.md shows: every third decade, attention beside raw rows."""
    kept = ("average entry", "multiplicative", "additive, over 1/4", "ridge-whitened")
    lines = [f"| rows | width | {' | '.join(kept)} |", f"|{'---|' * (len(kept) + 2)}"]
    lines += [
        f"| {row['rows']} | {row['width']} | {' | '.join(row[name] for name in kept)} |"
        for row in rows
        if row["width"].count(",") * 4 + 1 == len(row["width"])  # 1,000, 1,000,000, ...
    ]
    place = Path(__file__).parents[1] / "docs" / "benchmarks" / "finite_ntk_billion_summary.txt"
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("decades", type=int, nargs="?", default=7, help="largest width is 10^decades; 9 is a billion")
    parser.add_argument("--convergence", action="store_true", help="the curve against width alone")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if not options.convergence:
        closed_form()
        streaming()
    convergence(options.decades, options.data, options.rows, options.threads)
