"""Compiles every program that ships, draws its answers step by step and writes docs/programs.md: `make figures`."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import torch

import ridgeformer as rf
from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.programs import PROGRAMS

HERE = Path(__file__).parent
STEPS = {
    "nearest_neighbour": 1, "nearest_neighbours": 20, "least_mean_squares": 20, "recursive_least_squares": 4,
    "process_variance": 4, "nystrom_regression": 4,
}  # fmt: skip
HEAD = """\
# Programs

Algorithms written in the [public language](howto/own_algorithm.md), one file each in `src/ridgeformer/programs/`. All of
them are tested on 50 random tasks against plain numpy, step by step, and at convergence against scikit-learn or a direct
solution. In the pictures, lines are what the queries of the compiled network answer after every step, and circles what
the interpreter says without any weight. `python docs/draw_programs.py` draws them; `rf.programs.NAME(steps=...)` makes
the value, and `rf.compile` the network.
"""


def task(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Twenty supports of four features, five queries; targets are labels where a program wants them."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(25, 4, generator=generator, dtype=torch.float64)
    y = rows[:20] @ torch.tensor([2.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    y = y + 0.3 * torch.randn(20, generator=generator, dtype=torch.float64)
    return rows[:20], (y > 0).double() if name.startswith("logistic") else y, rows[20:]


def value(name: str) -> WrittenAlgorithm:
    """The program with the steps of its picture."""
    return PROGRAMS[name](steps=STEPS.get(name, 12))


def draw(name: str) -> plt.Figure:
    """Return the picture of a program."""
    X, y, Xq = task(name)
    program = value(name)
    found = rf.compile(program, features=4).trace(X, y, Xq).f[..., 0]
    plain = program.interpret(X, y, Xq)["f"][..., 0]
    figure, axes = plt.subplots(figsize=(5.2, 2.6), layout="constrained")
    steps = range(1, len(found) + 1)
    for query in range(found.shape[1]):
        (line,) = axes.plot(steps, found[:, query], marker="." if len(found) == 1 else None)
        axes.plot(steps, plain[:, query], "o", mfc="none", ms=4, color=line.get_color(), alpha=0.7)
    axes.set(xlabel="step", ylabel="answers at five queries")
    return figure


def page() -> str:
    """Return the text of the page, from the docstrings of the programs."""
    lines = [HEAD]
    for name, program in sorted(PROGRAMS.items()):
        title, _, text = inspect.cleandoc(program.__doc__ or "").partition("\n")
        options = ", ".join(f"{field.name}={field.default}" for field in fields(program) if field.name != "steps")
        cost = rf.budget(value(name), features=4, primitives="swiglu")
        grows = ", ".join(f"{what} {law}" for what, law in cost.growth.items())
        lines += [
            f"## {name}", "", f"**{title}**{text.rstrip() or ''}", "",
            f"`rf.programs.{name}(steps=..., {options})`" if options else f"`rf.programs.{name}(steps=...)`", "",
            f"As stock SwiGLU units, m features and t steps: {grows}.", "",
            f"![{title}](figures/programs/{name}.svg)", "",
        ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Draw them all."""
    plt.rcParams.update({"svg.hashsalt": "ridgeformer", "axes.grid": True, "grid.alpha": 0.3})
    (HERE / "figures" / "programs").mkdir(exist_ok=True)
    for name in PROGRAMS:
        draw(name).savefig(HERE / "figures" / "programs" / f"{name}.svg", metadata={"Date": None})
        plt.close("all")
    (HERE / "programs.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
