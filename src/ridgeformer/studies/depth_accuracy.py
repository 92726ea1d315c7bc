"""Depth against accuracy: the error of compiled transformers after every step, under the bound for that step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ridgeformer import bounds
from ridgeformer.algorithms import Richardson
from ridgeformer.compiler.certificate.certification import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.specification import ATTENTIONS
from ridgeformer.studies.compiled_problem import KERNELS, compilable, problem_with_condition_number
from ridgeformer.studies.study import Preset, Study, product

__all__ = ["STUDY", "depth_exponent", "measure", "reached_depths", "sufficient_depths"]

Rows: TypeAlias = Sequence[Mapping[str, Any]]

SUPPORTS, FEATURES = 60, 48
ENOUGH = 1e-3  # the relative error that counts as solved, where depths are compared
SHOWN = 48  # steps kept of a run at most, closer together at the beginning


def measure(
    attention: str, algorithm: str, kappa: float, decay: str, dtype: str, steps: int, seed: int
) -> list[dict[str, Any]]:
    """Return a row for the steps of one run: its relative error and the bound, rounding included.

    The error is in the norm in which the method contracts: the A-norm, or the D-norm of vanilla attention. `depth` is
    the first step at which it is below `ENOUGH`, None if there is none.

    Example:
        >>> rows = measure("linear", "cg", 10.0, "log", "float64", 4, seed=0)
        >>> [row["error"] < row["bound"] for row in rows]
        [True, True, True, True]
    """
    problem = problem_with_condition_number(attention, SUPPORTS, FEATURES, kappa, decay, seed)
    chosen = compilable(algorithm, steps, problem.extremes)
    if isinstance(chosen, Richardson) and ATTENTIONS[attention].divides:  # else the sink fixes the step
        chosen = replace(chosen, step_size=2 / sum(problem.extremes))
    model = compile(
        KERNELS[attention], chosen, attention=attention, features=FEATURES, ridge=problem.ridge, dtype=dtype
    )
    evidence = gather(model, problem.X, problem.y, problem.X[:1])[0]
    promise = promise_of(evidence)
    error, bound = promise.measured[:, 0].tolist(), promise.bound[:, 0].tolist()
    depth = next((step for step, value in enumerate(error, start=1) if value <= ENOUGH), None)
    kept = np.unique(np.geomspace(1, steps, SHOWN).round().astype(int)).tolist()
    facts = {"condition": evidence.problem.kappa, "depth": depth, "met": promise.met}
    return [{"step": step, "error": error[step - 1], "bound": bound[step - 1], **facts} for step in kept]


def _grid(kappas: list[float], decays: list[str], steps: int, descent: list[float]) -> list[dict[str, Any]]:
    """Return the points: gradient descent needs more steps, and gets fewer condition numbers."""
    common: dict[str, list[Any]] = {"decay": decays, "dtype": ["float64", "float32"]}
    fast = [("linear", "cg"), ("linear", "pcg"), ("linear", "chebyshev"), ("softmax", "cg"), ("softmax", "chebyshev"),
            ("imitation", "cg")]  # fmt: skip
    slow = [("linear", "richardson"), ("softmax", "richardson"), ("vanilla", "richardson")]
    return [
        {"attention": attention, "algorithm": algorithm, **point}
        for pairs, chosen, depth in ((fast, kappas, steps), (slow, descent, 4 * steps))
        for attention, algorithm in pairs
        for point in product(kappa=chosen, **common, steps=[depth])
    ] + product(attention=["linear"], algorithm=["neumann"], kappa=[1.9], **common, steps=[steps])


def depth_exponent(means: Rows, algorithm: str) -> float | None:
    """Return the exponent p of depth ~ kappa^p for linear attention, from the two extremes; None without two."""
    found = [row for row in reached_depths(means) if (row["attention"], row["algorithm"]) == ("linear", algorithm)]
    if len(found) < 2:
        return None
    first, last = found[0], found[-1]
    return float(np.log(last["depth"] / first["depth"]) / np.log(last["kappa"] / first["kappa"]))


def reached_depths(means: Rows) -> list[Mapping[str, Any]]:
    """Return one row for every method and condition number at which the depth was reached."""
    chosen = [row for row in means if row["decay"] == "log" and row["dtype"] == "float64" and row["step"] == 1]
    return [row for row in chosen if row["depth"] is not None and row["kappa"] >= 2]


def sufficient_depths(kappas: Iterable[float]) -> dict[str, list[int]]:
    """Return the steps that suffice for every right-hand side at these condition numbers, by method."""
    methods = {"conjugate gradients": bounds.cg_steps, "gradient descent": bounds.richardson_steps}
    values = [float(kappa) for kappa in kappas]
    return {method: [steps(kappa, ENOUGH) for kappa in values] for method, steps in methods.items()}


STUDY = Study(
    name="depth-accuracy",
    version=2,
    what="The error of compiled transformers after every step, under the bound for that step.",
    function="ridgeformer.studies.depth_accuracy:measure",
    presets={
        "quick": Preset(_grid([10.0, 100.0, 1000.0], ["log"], 60, [10.0, 50.0]), seeds=3),
        "default": Preset(_grid([1e1, 1e2, 1e3, 1e4], ["log", "linear", "power"], 100, [1e1, 1e2]), seeds=5),
        "paper": Preset(_grid([1e1, 1e2, 1e3, 1e4, 1e5], ["log", "linear", "power"], 900, [1e1, 1e2, 1e3]), seeds=20),
    },
    within=("step",),
    seconds=600.0,
    memory=4 << 30,
)
