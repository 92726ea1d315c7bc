"""How well the baselines find 64 known circuits: nodes, edges, probes and patches, on either half of the family.

Usage: python benchmarks/known_circuits.py [SEED]

Every circuit adds a line to benchmarks/results/known_circuits_SEED.jsonl and is not run again, so that a run can be cut
short and resumed; lines of other sources than today's are left out.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import torch
from harness import report

import ridgeformer
from ridgeformer.circuits import (
    METHODS,
    CircuitAnswer,
    Graded,
    Recipe,
    Score,
    family,
    make,
    mean_score,
    probe_directions,
    score,
)

FIGURES = ("nodes auc", "nodes precision", "edges auc", "edges precision", "probe", "patch")
TRUE, FALSE = "least effect of patching a true edge", "largest effect of patching a false edge"


def main() -> None:
    """Let every baseline answer every circuit once; the table is written after each."""
    torch.set_num_threads(1)
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    path = Path(__file__).parent / "results" / f"known_circuits_{seed}.jsonl"
    path.parent.mkdir(exist_ok=True)
    sources, found = _sources(), dict[str, dict[str, Any]]()
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        if record["sources"] == sources:
            found[record["circuit"]] = record
    path.write_text("".join(json.dumps(record) + "\n" for record in found.values()))
    recipes = sorted(family(seed), key=lambda recipe: (recipe.algorithm == "cg", recipe.steps, recipe.hidden))
    for recipe in recipes:  # the dearest last
        if recipe.name not in found:
            found[recipe.name] = {"circuit": recipe.name, "hidden": recipe.hidden, "sources": sources} | _tried(recipe)
            with path.open("a") as file:
                file.write(json.dumps(found[recipe.name]) + "\n")
            _write(list(found.values()), seed, len(recipes))
    _write(list(found.values()), seed, len(recipes))


def _sources() -> str:
    """Return a digest of the sources that circuits, truth and scores come from."""
    root, digest = Path(ridgeformer.__file__).parent, sha256()
    for room in ("circuits", "export", "compiler", "language"):
        for path in sorted((root / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _tried(recipe: Recipe) -> dict[str, Any]:
    """Return the scores of every baseline on one circuit, and what they took."""
    known, effects = make(recipe), {TRUE: 1e30, FALSE: 0.0}
    scores, seconds = dict[str, Score](), dict[str, float]()
    for name, method in METHODS.items():
        begin = time.process_time()
        answer = method(known)
        seconds[name] = time.process_time() - begin
        if name == "activation patching":
            for edge, effect in answer.edges.items():
                verdict = known.truth.edges[edge]
                if verdict is not None:
                    key = TRUE if verdict else FALSE
                    effects[key] = (min if verdict else max)(effects[key], effect)
            answer = replace(answer, threshold=None)  # precision and recall like the others'
        scores[name] = score(known, answer)
    for name, direction in probe_directions(known).items():
        scores[f"{name} direction"] = score(known, CircuitAnswer(probe=direction, patch=direction))
    sizes = {
        "layers": known.export.model.cfg.n_layers,
        "nodes": len(known.truth.nodes),
        "pairs": len(known.truth.edges),
    }
    return sizes | {
        "scores": {name: asdict(found) for name, found in scores.items()},
        "seconds": seconds,
        "effects": effects,
    }


def _write(records: list[dict[str, Any]], seed: int, count: int) -> None:
    """Write the table of the circuits so far."""
    rows, largest = list[dict[str, object]](), max(records, key=lambda record: record["pairs"])
    for hidden, gated in product((False, True), (False, True)):
        part = [r for r in records if r["hidden"] is hidden and ("-vanilla-" not in r["circuit"]) is gated]
        for name in dict.fromkeys(name for record in part for name in record["scores"]):
            means = mean_score([_score(record["scores"][name]) for record in part if name in record["scores"]])
            shown = {figure: "" if means[figure] is None else f"{means[figure]:.3f}" for figure in FIGURES}
            kind = f"{'hidden' if hidden else 'plain'}, {'gated' if gated else 'attention'}"
            rows.append({"circuits": kind, "method": name, **shown})
    settings: dict[str, object] = {"circuits": f"{len(records)} of {count}", "seed": seed}
    settings |= {"precision": "of as many as true", "hidden": "rotated and distracted"}
    settings |= {"largest": f"{largest['circuit']} ({largest['nodes']:,} nodes, {largest['pairs']:,} pairs)"}
    for name in METHODS:
        settings[f"processor seconds of {name}"] = f"{sum(record['seconds'][name] for record in records):.0f}"
    settings[TRUE] = f"{min(record['effects'][TRUE] for record in records):.1e}"
    settings[FALSE] = f"{max(record['effects'][FALSE] for record in records):.1e}"
    report("known_circuits", settings, rows, f"`python benchmarks/known_circuits.py {seed}`; one thread")


def _score(found: dict[str, Any]) -> Score:
    graded = {part: found[part] and Graded(**found[part]) for part in ("nodes", "edges")}
    return Score(**{**found, **graded})


if __name__ == "__main__":
    main()
