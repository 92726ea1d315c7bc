"""The command lines of the README and the docs, and the files that their readers are told to bring."""

import re
import shlex
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)

NETWORK = """from torch import nn

def {name}(d, c, m):
    return nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c))
"""

MODEL = """import ridgeformer as rf

def factory():
    return rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=2), features=5, ridge=0.5)
"""


def documented(document):
    """Return the commands of a page in their order: in fences of any language, then indented ones."""
    text = document.read_text()
    fenced = [line for _, block in FENCE.findall(text) for line in block.splitlines()]
    lines = [*fenced, *(line.strip() for line in FENCE.sub("", text).splitlines() if line.startswith("    "))]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("ridgeformer ")]


def make_yours(folder):
    """Write the modules, tables and scores that the pages call yours."""
    modules = {"mynet": NETWORK.format(name="net"), "mymodule": NETWORK.format(name="factory"), "mymodel": MODEL}
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    draw = np.random.default_rng(0)
    X = draw.normal(size=(80, 3))
    for name, columns in (("houses", "area,age,price"), ("table", "area,age,price"), ("new", "area,age")):
        rows = [",".join(f"{value:.4f}" for value in row[: columns.count(",") + 1]) for row in X]
        (folder / f"{name}.csv").write_text("\n".join([columns, *rows]) + "\n")
    features, labels = draw.normal(size=(30, 4)), draw.integers(0, 2, 30)
    np.save(folder / "scores.npy", draw.normal(size=(20, 10)))
    np.savez(folder / "features.npz", train=features[:20], query=features[20:])
    np.savez(folder / "labels.npz", train=labels[:20], query=labels[20:])
