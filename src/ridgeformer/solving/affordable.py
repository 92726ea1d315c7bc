"""What a solve would cost on this machine, timed on a sample of the very rows, and what to do when it is too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

import torch

from ridgeformer.algorithms import Centres, MixedConjugateGradients
from ridgeformer.core.products import product
from ridgeformer.core.seeds import torch_generator
from ridgeformer.solving.centre_products import CentreProducts
from ridgeformer.solving.engines import build_engine
from ridgeformer.solving.normal_equations import gram_rows
from ridgeformer.solving.plan import Plan, choose_plan
from ridgeformer.solving.preconditioners.pivoted_cholesky import default_block
from ridgeformer.solving.system import RidgeSystem

__all__ = ["BUDGET", "within_budget"]

BUDGET = 120.0
"""Seconds that `solve` may take unless told, where it has a choice."""

EXACT_ROWS = 60_000
"""Up to this many rows all of them are used, whatever it costs, unless a budget was given."""

STEPS = 60
"""Steps of preconditioned conjugate gradients that are assumed: pictures take 45 to 90."""

RESIDUALS = 8
"""Steps that the float64 residuals take as long as."""

CENTRE_PASSES = 16
"""Steps that a fit on centres takes as long as: eight or nine of them, and three passes in float64."""

SAMPLE, SAMPLED_CENTRES = 8192, 1024
"""Rows and centres that products are timed with."""

SHARE = 0.5
"""Part of the budget that a fit on centres is planned for: steps are not known beforehand."""

LEAST, MOST = 256, 16_384
"""Centres at least and at most."""


def within_budget(system: RidgeSystem, plan: Plan, budget: float | None, seed: int) -> Plan:
    """Return the plan if conjugate gradients can follow it in time, else a fit on as many centres as there is time for.

    One product with K and one with columns of it are timed on some of the rows. Plans that do not iterate, and ones for
    few rows without a budget, are returned as they are.
    """
    n, seconds = system.n, BUDGET if budget is None else budget
    if not isinstance(plan.algorithm, MixedConjugateGradients) or (budget is None and n <= EXACT_ROWS):
        return plan
    rows = system.X[torch.randperm(n, generator=torch_generator(seed, "timing"))[: min(SAMPLE, n)]]
    exact = (STEPS + RESIDUALS) * _product_seconds(system, plan, rows) * (n / len(rows)) ** 2
    rank, block = plan.rank, plan.block or default_block(n)
    exact += 2 * n * (rank**2 + block * (2 * rank + block)) * _flop_seconds(system, getattr(torch, plan.working))
    if exact <= seconds:
        say = f"about {exact:,.0f} s of {seconds:,.0f} s for all rows, timed on {len(rows):,} of them"
        return replace(plan, reasons=(*plan.reasons, say))
    count = _centres(system, rows, SHARE * seconds)
    say = (
        f"all rows would take about {exact:,.0f} s and {seconds:,.0f} s may be used, so the fit is one on {count:,} "
        "centres; a larger budget or algorithm='mixed_pcg' takes all rows"
    )
    chosen = choose_plan(system, Centres(count=min(count, n)))
    return replace(chosen, reasons=(*chosen.reasons, say))


def _product_seconds(system: RidgeSystem, plan: Plan, rows: torch.Tensor) -> float:
    engine = build_engine(plan.engine, system.kernel, rows, getattr(torch, plan.working))
    V = torch.ones(len(rows), system.outputs, dtype=torch.float64, device=rows.device)
    return _least_time(lambda: engine.matmat(V))


def _centres(system: RidgeSystem, rows: torch.Tensor, seconds: float) -> int:
    """Return the largest power of two of centres whose fit takes so long at most."""
    Z = rows[: min(SAMPLED_CENTRES, len(rows))].to(torch.float64)
    products = CentreProducts(system.kernel, rows, Z)
    P = torch.ones(len(Z), system.outputs, dtype=torch.float64, device=Z.device)
    a_column = _least_time(lambda: products.normal(P, torch.float32)) / len(Z) * system.n / len(rows)
    flop = _flop_seconds(system, torch.float64)
    count, best = LEAST, LEAST
    while count <= min(MOST, system.n // 4):
        # the sampled Gram matrix, its lower half, and a few factorisations and solves of its size
        cost = CENTRE_PASSES * a_column * count + flop * count**2 * (gram_rows(system.n, count) + 4 * count)
        best, count = (count if cost <= seconds else best), (2 * count if cost <= seconds else MOST + 1)
    return best


def _flop_seconds(system: RidgeSystem, dtype: torch.dtype) -> float:
    """Return what one of two operations of a multiplication and an addition takes in a matrix product."""
    square = torch.ones(SAMPLED_CENTRES, SAMPLED_CENTRES, dtype=dtype, device=system.X.device)
    return _least_time(lambda: product(square, square)) / (2 * SAMPLED_CENTRES**3)


def _least_time(work: Callable[[], object]) -> float:
    """Return the shorter of two times: the first pays for what is compiled and allocated."""
    least = inf
    for _ in range(2):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return least
