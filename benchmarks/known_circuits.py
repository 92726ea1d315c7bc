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
    Answer,
    Interventions,
    KnownCircuit,
    Score,
    family,
    make,
    mean_score,
    probe_directions,
    score,
)

MOST_PAIRS = 1_700
"""Edges of larger circuits are not patched one by one; their nodes are."""

FIGURES = ("nodes auc", "nodes precision", "edges auc", "edges precision", "edges recall")


def main() -> None:
    """Let every baseline answer every circuit once."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    recipes = family(seed)
    graded: dict[tuple[str, bool], list[Score]] = {}
    directed: dict[tuple[str, bool], list[Score]] = {}
    seconds = dict.fromkeys(METHODS, 0.0)
    checked = {"least effect of a true edge": 1e30, "largest effect of a false edge": 0.0}
    for recipe in recipes:
        known = make(recipe)
        for name, method in METHODS.items():
            begin = time.process_time()
            answer = _nodes_patched(known) if _too_many(name, known) else method(known)
            seconds[name] += time.process_time() - begin
            if name == "activation patching":  # precision and recall like the others', not at its own threshold
                for edge, verdict in known.truth.edges.items():
                    key = "least effect of a true edge" if verdict else "largest effect of a false edge"
                    if verdict is not None and edge in answer.edges:
                        checked[key] = (min if verdict else max)(checked[key], answer.edges[edge])
                answer = replace(answer, threshold=None)
            graded.setdefault((name, recipe.hidden), []).append(score(known, answer))
        for name, direction in probe_directions(known).items():
            found = score(known, Answer(probe=direction, patch=direction))
            directed.setdefault((f"{name} direction", recipe.hidden), []).append(found)
        print(f"{recipe.name:<60}{len(known.truth.edges):>7} pairs", flush=True)
    rows = []
    for (name, hidden), scores in graded.items():
        means = mean_score(scores)
        figures = {figure: f"{means[figure]:.3f}" for figure in FIGURES}
        graphs = sum(one.edges is not None for one in scores)
        rows.append({"method": name, "half": _half(hidden), "edges of": graphs, **figures, "probe": "", "patch": ""})
    for (name, hidden), scores in directed.items():
        means = mean_score(scores)
        figures = {figure: f"{means[figure]:.3f}" for figure in ("probe", "patch")}
        rows.append({"method": name, "half": _half(hidden), "edges of": "", **dict.fromkeys(FIGURES, ""), **figures})
    rows.sort(key=lambda row: row["half"])
    settings = {"circuits": len(recipes), "seed": seed, "precision and recall": "of as many as there are in truth"}
    settings |= {f"processor seconds of {name}": f"{value:.0f}" for name, value in seconds.items()}
    settings |= {name: f"{value:.1e}" for name, value in checked.items()}
    report("known_circuits", settings, rows, "`python benchmarks/known_circuits.py`; one thread")


def _too_many(method: str, known: KnownCircuit) -> bool:
    return method == "activation patching" and len(known.truth.edges) > MOST_PAIRS


def _nodes_patched(known: KnownCircuit) -> Answer:
    shown = Interventions(known, 1000, 1001)
    return Answer({node: shown.moved(found) for node, found in shown.replaced().items()})


def _half(hidden: bool) -> str:
    return "rotated, distracted" if hidden else "plain"


if __name__ == "__main__":
    main()
