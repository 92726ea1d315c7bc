"""Depth against accuracy: the error of compiled transformers after every step, under the bound for that step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ridgeformer import bounds
from ridgeformer.algorithms import resolve
from ridgeformer.compiler.certificate.certify import promise_of
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.compile import compile
from ridgeformer.studies.compiled_problem import kernel_of, pose_with_condition_number
from ridgeformer.studies.study import Preset, Study, product
from ridgeformer.views import PALETTE, Page, Picture, Section, Table, styled

__all__ = ["STUDY", "make_page", "measure"]

SUPPORTS, FEATURES = 60, 48
ENOUGH = 1e-3
"""The relative error that counts as solved, where depths are compared."""

SHOWN = 48
"""Steps kept of a run at most, closer together at the beginning."""


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
    posed = pose_with_condition_number(attention, SUPPORTS, FEATURES, kappa, decay, seed)
    chosen = resolve(
        "cg" if algorithm == "pcg" else algorithm,
        steps=steps,
        preconditioner="jacobi" if algorithm == "pcg" else None,
        spectrum=posed.ends if algorithm == "chebyshev" else None,
        step_size=2 / sum(posed.ends) if algorithm == "richardson" and attention != "vanilla" else None,
    )
    kernel = kernel_of(attention)
    model = compile(kernel, chosen, attention=attention, features=FEATURES, ridge=posed.ridge, dtype=dtype)
    evidence = gather(model, posed.X, posed.y, posed.X[:1])[0]
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


def make_page(rows: list[dict[str, Any]], means: list[dict[str, Any]]) -> Page:
    """Return the page: errors under their bounds, and the depth that each method needs."""
    points = {
        (row["attention"], row["algorithm"], row["kappa"], row["decay"], row["dtype"], row["seed"]) for row in rows
    }
    broken = sum(not row["error"] <= row["bound"] for row in rows)
    verdict = "at every step" if not broken else f"but for {broken} of {len(rows):,} steps"
    answer = (
        f"{len(points):,} compiled transformers ran; the error of each stayed below its bound {verdict}.",
        *(
            f"With {method} the depth that linear attention needs grew like the condition number to the power "
            f"{power:.2f}; the steps that suffice grow like the power {theory}."
            for method, algorithm, theory in (
                ("conjugate gradients", "cg", "1/2"),
                ("gradient descent", "richardson", "1"),
            )
            if (power := _power(means, algorithm)) is not None
        ),
    )
    return Page(
        "Depth and accuracy of compiled transformers",
        f"{SUPPORTS} supports, {FEATURES} features, {max(row['seed'] for row in rows) + 1} seeds",
        answer,
        (
            Section(
                "Every step under its bound",
                ("Lines are measured means over seeds, dashed lines the bounds: the theory's rate plus what rounding "
                 "can leave. The spectrum falls geometrically.",),
                pictures=tuple(_error_picture(means, attention) for attention in ("linear", "softmax")),
            ),
            Section(
                "The depth a problem needs",
                (f"The first step with a relative error below {ENOUGH:g}, with 95 % intervals over seeds.",),
                pictures=(_depth_picture(means),),
            ),
            Section("Precision", ("Error after the last step, mean over seeds and spectra.",), _precision(means)),
        ),
    )  # fmt: skip


def _error_picture(means: list[dict[str, Any]], attention: str) -> Picture:
    figure = go.Figure()
    chosen = [
        row for row in means if row["attention"] == attention and row["decay"] == "log" and row["dtype"] == "float64"
    ]
    shades = ("solid", "dot", "longdash", "dashdot", "longdashdot")
    kappas = dict(zip(_unique(chosen, "kappa"), shades * 2, strict=False))
    for algorithm, colour in zip(_unique(chosen, "algorithm"), PALETTE, strict=False):
        for kappa, shade in kappas.items():
            curve = [row for row in chosen if row["algorithm"] == algorithm and row["kappa"] == kappa]
            if not curve:
                continue
            steps, name = [row["step"] for row in curve], f"{algorithm}, condition number {kappa:g}"
            errors = [max(row["error"], 1e-16) for row in curve]
            figure.add_scatter(x=steps, y=errors, name=name, mode="lines", line={"color": colour, "dash": shade})
            figure.add_scatter(
                x=steps, y=[row["bound"] for row in curve], name=f"bound, {name}", mode="lines", opacity=0.45,
                showlegend=False, line={"color": colour, "dash": "dash", "width": 1},
            )  # fmt: skip
    figure.update_xaxes(title="step (one block of layers)", type="log")
    figure.update_yaxes(title="relative error", type="log", exponentformat="power", range=[-16, 0.5])
    caption = f"{attention.capitalize()} attention. A line that turns flat has reached the precision of the numbers."
    return Picture(styled(figure), caption, f"Error against step for {attention} attention, each line below its bound.")


def _depth_picture(means: list[dict[str, Any]]) -> Picture:
    figure = go.Figure()
    chosen = _depths(means)
    pairs = dict.fromkeys((row["attention"], row["algorithm"]) for row in chosen)
    for number, (attention, algorithm) in enumerate(pairs):
        curve = [row for row in chosen if (row["attention"], row["algorithm"]) == (attention, algorithm)]
        spread = {
            "array": [(row["depth_high"] or row["depth"]) - row["depth"] for row in curve],
            "arrayminus": [row["depth"] - (row["depth_low"] or row["depth"]) for row in curve],
        }
        figure.add_scatter(
            x=[row["condition"] for row in curve], y=[row["depth"] for row in curve], name=f"{attention}, {algorithm}",
            mode="lines+markers", error_y=spread, line_color=PALETTE[number % len(PALETTE)],
        )  # fmt: skip
    kappas = np.geomspace(2, max((row["kappa"] for row in chosen), default=10.0), 40)
    for name, steps, colour in (
        ("bound, conjugate gradients", bounds.cg_steps, PALETTE[0]),
        ("bound, gradient descent", bounds.richardson_steps, PALETTE[1]),
    ):
        depths = [steps(kappa, ENOUGH) for kappa in kappas.tolist()]
        figure.add_scatter(x=kappas, y=depths, name=name, mode="lines", line={"color": colour, "dash": "dash"})
    figure.update_xaxes(title="condition number", type="log")
    figure.update_yaxes(title="steps needed", type="log")
    caption = (
        "Dashed: the steps that suffice for every right-hand side, with the best step size for gradient descent. The "
        "networks find a safe step in context, which may be several times smaller."
    )
    return Picture(styled(figure), caption, "Steps needed against the condition number, with the theory's curves.")


def _power(means: list[dict[str, Any]], algorithm: str) -> float | None:
    """Return the exponent p of depth ~ kappa^p for linear attention, from the two ends; None without two."""
    curve = [row for row in _depths(means) if (row["attention"], row["algorithm"]) == ("linear", algorithm)]
    if len(curve) < 2:
        return None
    first, last = curve[0], curve[-1]
    return float(np.log(last["depth"] / first["depth"]) / np.log(last["kappa"] / first["kappa"]))


def _depths(means: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for every method and condition number at which the depth was reached."""
    chosen = [row for row in means if row["decay"] == "log" and row["dtype"] == "float64" and row["step"] == 1]
    return [row for row in chosen if row["depth"] is not None and row["kappa"] >= 2]


def _precision(means: list[dict[str, Any]]) -> Table:
    last = [row for row in means if row["step"] == row["steps"]]
    rows = []
    for attention, algorithm in dict.fromkeys((row["attention"], row["algorithm"]) for row in last):
        for kappa in _unique(
            [row for row in last if (row["attention"], row["algorithm"]) == (attention, algorithm)], "kappa"
        ):
            cells = [
                [
                    r["error"]
                    for r in last
                    if (r["attention"], r["algorithm"], r["kappa"], r["dtype"]) == (attention, algorithm, kappa, t)
                ]
                for t in ("float64", "float32")
            ]
            rows.append(
                (attention, algorithm, f"{kappa:g}", *(f"{np.mean(found):.1e}" if found else "" for found in cells))
            )
    return Table(("attention", "method", "condition number", "float64", "float32"), tuple(rows))


def _unique(rows: Iterable[dict[str, Any]], name: str) -> list[Any]:
    return sorted({row[name] for row in rows})


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
    page=make_page,
)
