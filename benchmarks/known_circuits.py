"""How well the baselines find 64 known circuits: nodes, edges, probes and patches, on either half of the family.

Usage: python benchmarks/known_circuits.py [SEED]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from harness import report

from ridgeformer.circuits import (
    METHODS,
    CircuitAnswer,
    KnownCircuit,
    PatchedRuns,
    Score,
    family,
    make,
    mean_score,
    probe_directions,
    score,
)

MOST_PAIRS = 1_000
"""Edges of larger circuits are not patched one by one; their nodes are."""

FIGURES = ("nodes auc", "nodes precision", "edges auc", "edges precision", "probe", "patch")
TRUE, FALSE = "least effect of patching a true edge", "largest effect of patching a false edge"


def main() -> None:
    """Let every baseline answer every circuit once; the table is written after each, so that a run can be cut short."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    half = len(family(seed)) // 2
    order = [recipe for pair in zip(family(seed)[:half], family(seed)[half:], strict=True) for recipe in pair]
    order.sort(key=lambda recipe: recipe.algorithm == "cg")  # the dearest last
    graded: dict[tuple[str, bool], list[Score]] = {}
    directed: dict[tuple[str, bool], list[Score]] = {}
    seconds, checked = dict.fromkeys(METHODS, 0.0), {TRUE: 1e30, FALSE: 0.0}
    for number, recipe in enumerate(order, start=1):
        known = make(recipe)
        for name, method in METHODS.items():
            begin = time.process_time()
            answer = _nodes_patched(known) if _too_many(name, known) else method(known)
            seconds[name] += time.process_time() - begin
            if name == "activation patching":
                for edge, effect in answer.edges.items():
                    verdict = known.truth.edges[edge]
                    if verdict is not None:
                        key = TRUE if verdict else FALSE
                        checked[key] = (min if verdict else max)(checked[key], effect)
                answer = replace(answer, threshold=None)  # precision and recall like the others'
            graded.setdefault((name, recipe.hidden), []).append(score(known, answer))
        for name, direction in probe_directions(known).items():
            found = score(known, CircuitAnswer(probe=direction, patch=direction))
            directed.setdefault((f"{name} direction", recipe.hidden), []).append(found)
        settings = {"circuits": f"{number} of {len(order)}", "seed": seed, "precision and recall": "of as many as true"}
        settings |= {f"processor seconds of {name}": f"{value:.0f}" for name, value in seconds.items()}
        settings |= {name: f"{value:.1e}" for name, value in checked.items()}
        if number >= 2:
            report(
                "known_circuits", settings, _rows(graded, directed), "`python benchmarks/known_circuits.py`; one thread"
            )


def _rows(
    graded: dict[tuple[str, bool], list[Score]], directed: dict[tuple[str, bool], list[Score]]
) -> list[dict[str, object]]:
    """Return the table, the plain half first."""
    rows: list[dict[str, object]] = []
    for (name, hidden), scores in (graded | directed).items():
        means, shown = mean_score(scores), dict.fromkeys(FIGURES, "")
        shown |= {figure: f"{means[figure]:.3f}" for figure in FIGURES if means[figure] is not None}
        edges = sum(one.edges is not None for one in scores)
        rows.append({"method": name, "half": _half(hidden), "edges of": edges or "", **shown})
    return sorted(rows, key=lambda row: str(row["half"]))


def _too_many(method: str, known: KnownCircuit) -> bool:
    return method == "activation patching" and len(known.truth.edges) > MOST_PAIRS


def _nodes_patched(known: KnownCircuit) -> CircuitAnswer:
    shown = PatchedRuns(known, 1000, 1001)
    return CircuitAnswer({node: shown.moved(found) for node, found in shown.replaced().items()})


def _half(hidden: bool) -> str:
    return "rotated, distracted" if hidden else "plain"


if __name__ == "__main__":
    main()
