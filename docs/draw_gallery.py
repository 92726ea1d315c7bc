"""Runs every example, keeps its figure under docs/figures/gallery and writes docs/gallery.md: `make figures`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
ORDER = (
    "watch_cg", "open_in_lens", "average_or_ridge", "depth_by_solver", "width_needed", "failing_certificate", "interval_band", "ridge_path",
    "influence_of_one_digit", "attention_cubes", "kernel_limit",
)  # fmt: skip
"""From what one should see first to what one asks last."""


def load(name: str) -> dict[str, Any]:
    """Return the names an example defines, its `draw` and its docstring among them."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


def page() -> str:
    """Return the gallery's text, from the examples' own docstrings."""
    lines = [
        "# Gallery",
        "",
        "Each figure is drawn by the script under it; `make figures` runs it in full, the tests in a small version. Every script",
        "is self-contained: `python examples/watch_cg.py` writes `watch_cg.svg`.",
        "",
    ]
    for name in ORDER:
        title, _, text = load(name)["__doc__"].strip().partition("\n")
        title, text = title.rstrip("."), text.strip()
        lines += [f"## {title}", "", text, "", f"![{title}](figures/gallery/{name}.svg)", ""]
        lines += [
            f'??? example "examples/{name}.py"',
            "",
            "    ```{.python}",
            f'    --8<-- "examples/{name}.py"',
            "    ```",
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    """Draw them all."""
    plt.rcParams.update({"svg.hashsalt": "ridgeformer", "axes.grid": True, "grid.alpha": 0.3})
    for name in ORDER:
        load(name)["draw"]().savefig(HERE / "figures" / "gallery" / f"{name}.svg", metadata={"Date": None})
        plt.close("all")
        print(name)
    (HERE / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
