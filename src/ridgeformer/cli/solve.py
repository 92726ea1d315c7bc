"""`ridgeformer solve`: one certified fit of one dataset."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from ridgeformer.datasets import Split
    from ridgeformer.solving import Fit, Nystrom, PivotedCholesky

__all__ = ["solve"]

KERNELS = ("dot_product", "exponential", "gaussian", "gram_power", "relu_ntk", "relu_ntk_both")
ALGORITHMS = (
    "auto", "direct", "mixed_direct", "mixed_pcg", "nystrom",
    "richardson", "neumann", "chebyshev", "heavy_ball", "nesterov", "cg", "pcg",
)  # fmt: skip
PRECONDITIONERS = ("identity", "jacobi", "nystrom", "pivoted", "rounded")
ENGINES = ("auto", "triangle", "stored", "tiles", "attention", "fused", "features", "dask")


def solve(
    data: ui.Data,
    kernel: Annotated[str, ui.one_of("kernel", KERNELS)] = "exponential",
    temperature: Annotated[str, typer.Option(help="A number, or auto: the mean squared row length.")] = "auto",
    order: Annotated[int, typer.Option(help="Order of gram_power; 3 is linearised attention.")] = 3,
    ridge: Annotated[float, typer.Option(help="Regularisation, > 0.")] = 1.0,
    algorithm: Annotated[str, ui.one_of("algorithm", ALGORITHMS)] = "auto",
    preconditioner: Annotated[
        str | None, ui.one_of("preconditioner", PRECONDITIONERS, "For cg, pcg and mixed_pcg: ")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Rank of the Nystrom or pivoted preconditioner.")] = None,
    engine: Annotated[str | None, ui.one_of("engine", ENGINES, "How to form products with K: ")] = None,
    centres: Annotated[
        str | None, typer.Option(help="For nystrom: how many centres, or auto: doubled while that pays.")
    ] = None,
    explain: Annotated[bool, typer.Option(help="Print the plan and the reasons for it.")] = False,
    tol: Annotated[float | None, typer.Option(help="Relative residual to reach.")] = None,
    steps: Annotated[int | None, typer.Option(help="Largest number of steps.", min=1)] = None,
    precision: Annotated[ui.Precision, typer.Option(help="Precision of the solve.")] = ui.Precision.float64,
    target: ui.Target = None,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: ui.MaxRows = 10_000,
    seed: ui.Seed = 0,
    workers: ui.Workers = 0,
    scheduler: ui.Scheduler = None,
    json: ui.Json = False,
) -> None:
    """Solve kernel ridge regression on a dataset; report the held-out score and proved error bounds.

    Example: ridgeformer solve digits --kernel exponential --temperature 0.25 --ridge 0.01 --algorithm pcg
    """
    with importing():
        import torch

        from ridgeformer import datasets
        from ridgeformer.algorithms import resolve
        from ridgeformer.kernels import build_kernel
        from ridgeformer.solving import Status
        from ridgeformer.solving import solve as run_solve

    dataset = datasets.load(data, target=target)
    split = datasets.Split.of(dataset, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    rows = split.X.to(getattr(torch, precision.value))
    tau = temperature if temperature == "auto" else _number(temperature)
    begin = time.perf_counter()
    with ui.progress_bar(json) as progress, _cluster(workers, scheduler, engine) as chosen:

        def watch(step: int, alpha: Tensor, residual: Tensor) -> None:
            progress(0, None, f"step {step}, relative residual {float(residual.max()):.1e}")

        progress(0, None, f"solving for {len(rows):,} rows")
        fit = run_solve(
            build_kernel(kernel, rows, temperature=tau, order=order),
            rows,
            split.y,
            ridge,
            algorithm=resolve(
                algorithm,
                steps=steps,
                preconditioner=_preconditioner(preconditioner, rank),
                count=ui.centre_count(centres),
            ),
            tol=tol,
            engine=chosen,
            seed=seed,
            callback=watch,
            progress=ui.with_time_left(progress),
        )
    facts = _facts(split, fit, ridge, time.perf_counter() - begin)
    ui.print_json(facts) if json else _show(facts)
    if explain and not json:
        ui.out().print(f"\n  {fit.plan}".replace("\n-", "\n  -"), markup=False, soft_wrap=True)
    if fit.status not in (Status.CONVERGED, Status.SUBSET):
        raise typer.Exit(1)


@contextmanager
def _cluster(workers: int, scheduler: str | None, engine: str | None) -> Iterator[str | None]:
    """Yield the engine to use: dask while a cluster is connected, otherwise the given one."""
    if workers and scheduler:
        raise InputError("--workers starts a cluster and --scheduler joins one: give one of them.")
    if not workers and scheduler is None:
        yield engine
        return
    if engine not in (None, "dask"):
        raise InputError(f"--engine {engine} works on this machine: leave it out, or --workers and --scheduler.")
    from ridgeformer.studies.runners import DaskCluster

    with closing(DaskCluster(workers=workers, scheduler=scheduler)) as cluster, cluster.client.as_current():
        yield "dask"


def _preconditioner(name: str | None, rank: int | None) -> str | Nystrom | PivotedCholesky | None:
    from ridgeformer.solving import Nystrom, PivotedCholesky

    if rank is None:
        return name
    if name == "pivoted":
        return PivotedCholesky(rank)
    if name not in (None, "nystrom"):
        raise InputError(f"--rank belongs to a low-rank preconditioner, not to {name!r}: leave one of them out.")
    return Nystrom(rank)


def _number(text: str) -> float:
    from ridgeformer.core.checks import positive

    try:
        return positive(text, "temperature", "logits are divided by it")
    except InputError as error:
        raise InputError(f"{error} Give a number, or auto.") from None


def _facts(data: Split, fit: Fit, ridge: float, seconds: float) -> dict[str, Any]:
    answer = fit.answer(data.Xt)
    outputs = answer.values.double()
    return {
        "data": data.dataset.name,
        "notes": list(data.notes),
        "task": data.dataset.task,
        "kernel": fit.kernel.name,
        "algorithm": fit.algorithm.name,
        "status": fit.status.value,
        "advice": fit.advice,
        "steps": fit.steps,
        "relative_residual": fit.relative_residual,
        "held_out_score": data.score(outputs),
        "largest_prediction_bound": float(answer.bound[answer.answered].max()) if bool(answer.answered.any()) else None,
        "held_out_rows": len(answer.answered),
        "rows_without_prediction": (~answer.answered).nonzero()[:, 0].tolist(),
        "rows_outside_the_training_rows": answer.extrapolated.nonzero()[:, 0].tolist(),
        "coefficient_bound": float(fit.alpha_bound.max()),
        "condition_number": fit.spectrum.kappa,
        "preconditioned": fit.spectrum.preconditioned,
        "log_scale": fit.log_scale,
        "ridge": ridge,
        "rescaled_ridge": fit.ridge,
        "seconds": seconds,
        "plan": None if fit.plan is None else {**asdict(fit.plan), "algorithm": fit.algorithm.name},
        "fit_error": None if fit.fit_error is None else float(fit.fit_error.max()),
        "doublings": [{"centres": one.centres, "left_out_error": float(one.left_out.max())} for one in fit.doublings],
    }


def _show(facts: dict[str, Any]) -> None:
    from ridgeformer.core.words import show_score

    console = ui.out()
    console.print()
    console.print(facts["advice"], style="bold", markup=False)
    what = "condition number of the preconditioned system" if facts["preconditioned"] else "condition number"
    bound, count = facts["largest_prediction_bound"], facts["held_out_rows"]
    lines = {
        "held-out score": show_score(facts["held_out_score"], facts["task"]),
        "error of any held-out prediction": "no row has a prediction"
        if bound is None
        else f"at most {bound:.1e} (proved)",
        "error of the coefficients": f"at most {facts['coefficient_bound']:.1e} (proved)",
        "steps": f"{facts['steps']} ({facts['algorithm']}), {facts['seconds']:.2f} s",
        f"{what}, about": f"{facts['condition_number']:.1e}",
    }
    if missing := facts["rows_without_prediction"]:
        lines["held-out rows beyond the logit range"] = f"{len(missing)} of {count}, not predicted"
    if outside := facts["rows_outside_the_training_rows"]:
        lines["held-out rows outside the training rows"] = f"{len(outside)} of {count}, extrapolated"
    if facts["log_scale"]:
        lines["kernel rescaled by"] = f"e^-{facts['log_scale']:.4g}, to stay in range; predictions are unaffected"
    ui.print_facts(lines, 52)
    ui.print_notes(facts["notes"], "  ")
