"""Draws docs/figures/benchmarks.svg from the tables that the benchmarks wrote: `make figures`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

HERE = Path(__file__).parent
SAME_MODEL = ("ridgeformer", "torch cholesky", "scikit-learn KernelRidge", "linear_operator", "scipy cg", "gpytorch")
"""Rivals that solve the same system; those on centres fit another model and are in the table only."""

STOPPED = 180.0  # seconds after which a run was ended


def table(page: str) -> list[dict[str, str]]:
    """Return the rows of the first table of a benchmark's page, by column."""
    lines = (HERE / "benchmarks" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:] if len(row) == len(cells[0])]


def draw() -> Figure:
    """Return whole fits beside rivals, coverage of intervals, and how well methods find known circuits."""
    figure, (fits, coverage, circuits) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    rows = table("solve_at_scale_rivals")
    for rival in SAME_MODEL:
        mine = [row for row in rows if row["rival"] == rival]
        done = [(int(row["n"]), float(row["seconds"])) for row in mine if row["seconds"] != "-"]
        (line,) = fits.loglog(
            *zip(*done, strict=True), "o-", label=rival, linewidth=3 if rival == "ridgeformer" else 1.3
        )
        ended = [int(row["n"]) for row in mine if row["seconds"] == "-"]
        fits.loglog(ended, [STOPPED] * len(ended), "x", color=line.get_color())
    fits.set(xlabel="rows of MNIST", ylabel="seconds, two cores", title="One fit, to a residual of 1e-6 or better")
    fits.set_xticks(sizes := sorted({int(row["n"]) for row in rows}), [f"{n:,}" for n in sizes], minor=False)
    fits.minorticks_off()
    fits.set_ylim(0.5, 900)
    fits.legend(fontsize=7, loc="upper left", ncols=2)

    found = table("interval_prediction_coverage")
    methods, noises = (list(dict.fromkeys(row[name] for row in found)) for name in ("method", "noise"))
    for number, noise in enumerate(noises):
        mine = {row["method"]: row for row in found if row["noise"] == noise}
        middle = [float(mine[method]["covered"]) for method in methods]
        ends = [[float(end) for end in mine[method]["95 % interval"].split(" to ")] for method in methods]
        off = [abs(end[side] - at) for side in (0, 1) for end, at in zip(ends, middle, strict=True)]
        places = [at + 0.2 * (number - (len(noises) - 1) / 2) for at in range(len(methods))]
        coverage.errorbar(
            places, middle, [off[: len(methods)], off[len(methods) :]], fmt="o", markersize=4, label=noise
        )
    coverage.axhline(0.9, color="0.4", linestyle="--", linewidth=1)
    coverage.set_xticks(range(len(methods)), methods, fontsize=8)
    coverage.set(title="New targets covered by 90 % intervals", ylabel="fraction", ylim=(0.85, 0.95))
    coverage.legend(fontsize=7, title="noise", title_fontsize=7)

    scores = [row for row in table("known_circuits") if row["edges precision"]]
    names = list(dict.fromkeys(row["method"] for row in scores))
    kinds = list(dict.fromkeys(row["circuits"] for row in scores))
    height = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        values = {row["method"]: float(row["edges precision"]) for row in scores if row["circuits"] == kind}
        places = [at + height * (number - (len(kinds) - 1) / 2) for at in range(len(names))]
        circuits.barh(places, [values[name] for name in names], 0.9 * height, label=kind)
    circuits.set_yticks(range(len(names)), names, fontsize=8)
    circuits.set(title="Edges of known circuits found", xlabel="precision, of as many as are true")
    circuits.legend(fontsize=7)
    return figure


def main() -> None:
    """Write the figure."""
    plt.rcParams.update({"svg.hashsalt": "ridgeformer", "axes.grid": True, "grid.alpha": 0.3})
    draw().savefig(HERE / "figures" / "benchmarks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
