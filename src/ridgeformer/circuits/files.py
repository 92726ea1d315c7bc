"""A family of known circuits in a directory, and answers in a file: plain JSON and safetensors, no code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ridgeformer.circuits.methods import CircuitAnswer
from ridgeformer.circuits.recipes import KnownCircuit, Recipe, family, make
from ridgeformer.circuits.truth import INPUT, OUTPUT, Question, Truth
from ridgeformer.core.errors import DataFileError, RidgeformerError
from ridgeformer.core.reading import explained, read_regular
from ridgeformer.export import FACTS, load_export

__all__ = ["load_answers", "load_circuit", "load_names", "save_answers", "save_family"]

FORMAT, ANSWERS = "ridgeformer known circuits", "ridgeformer circuit answers"
INDEX, TRUTH, CARD = "index.json", "truth.json", "README.md"
MOST_BYTES = 2**27

SECTION = """
## A known circuit
This model belongs to a family for testing interpretability methods: {hidden}. `truth.json` has its ground truth.
`nodes` says of every head and gated sublayer whether replacing its output by that on other data changes predictions;
`edges` lists the pairs for which replacing it in what the second reads, and there alone, does. `null` nodes and
`unscored_edges` are left open: their output is the same on all data, or belongs to a Newton iteration, which repairs
itself. {counts}

Data: {supports} supports of {features} features, 0.5 to 1 long, standard normal targets, {queries} queries; from
Python, `ridgeformer.circuits.load_circuit(DIR, NAME).task(seed)`.
"""


def save_family(
    directory: str | Path, seed: int = 0, told: Callable[[str], None] = lambda line: None, limit: int | None = None
) -> Path:
    """Make the circuits of a seed and write them: a directory each, and `index.json`.

    Args:
        directory: Where they go.
        seed: Of the family.
        told: Is told the name of every circuit that was written.
        limit: Make the first ones only.

    Raises:
        RidgeformerError: the directory cannot be written to.
    """
    directory, sums = Path(directory), dict[str, str]()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for recipe in family(seed)[:limit]:
            known, place = make(recipe), directory / recipe.name
            known.export.save(place)
            (place / CARD).write_text((place / CARD).read_text(encoding="utf-8") + _section(known), encoding="utf-8")
            facts = {"format": FORMAT, **known.facts(), "export": _checksum(place / FACTS)}
            (place / TRUTH).write_text(json.dumps(facts) + "\n", encoding="utf-8")
            sums[recipe.name] = _checksum(place / TRUTH)
            told(recipe.name)
        index = {"format": FORMAT, "version": version("ridgeformer"), "seed": seed, "circuits": sums}
        (directory / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        why = error.strerror or error
        raise RidgeformerError(f"cannot write circuits into {directory} ({why}): choose another directory.") from None
    return directory


def _section(known: KnownCircuit) -> str:
    recipe, truth, facts = known.recipe, known.truth, known.facts()
    yes, sent = sum(found is True for found in truth.nodes.values()), len(facts["edges"])
    hidden = "neither rotated nor distracted"
    if recipe.hidden:
        hidden = (
            f"its stream is rotated, and {recipe.decoys} decoy heads beside every attention sublayer, decoy layers "
        )
        hidden += "and dead channels carry data that never reach the prediction"
    counts = f"{yes} of {len(truth.nodes)} nodes and {sent:,} of {len(truth.edges):,} pairs carry data to it."
    data = {key: facts["data"][key] for key in ("supports", "queries")}
    return SECTION.format(hidden=hidden, counts=counts, features=recipe.features, **data)


def load_names(directory: str | Path) -> tuple[str, ...]:
    """Return the names of the circuits in a directory."""
    return tuple(_index(Path(directory)))


def load_circuit(directory: str | Path, name: str) -> KnownCircuit:
    """Return one circuit of a directory that `save_family` wrote.

    Raises:
        DataFileError: missing, damaged, edited or foreign files; nothing in them is ever run as code.
    """
    place, sums = Path(directory) / name, _index(Path(directory))
    if name not in sums:
        raise DataFileError(f"{directory} has no circuit {name!r}: it has {len(sums)}, such as {next(iter(sums))!r}.")
    for file, expected in ((place / TRUTH, sums[name]), (place / FACTS, None)):
        if expected is None:
            expected = facts["export"]
        if _checksum(file) != expected:
            raise DataFileError(f"{file} is not the file that was saved: it was damaged or edited: make it again.")
        if file.name == TRUTH:
            with explained(file, "cannot be read as the truth of a circuit", "make the circuits again"):
                facts: Any = json.loads(read_regular(file, MOST_BYTES))
                recipe, truth = Recipe(**facts["recipe"]), _truth(facts)
    return KnownCircuit(recipe, load_export(place), truth)


def _truth(facts: dict[str, Any]) -> Truth:
    """Return the truth that a file describes; pairs that it does not list carry nothing."""
    yes, unscored = ({tuple(edge) for edge in facts[key]} for key in ("edges", "unscored_edges"))
    order = [INPUT, *facts["nodes"], OUTPUT]
    edges: dict[tuple[str, str], bool | None] = {}
    for place, target in enumerate(order):
        for source in order[:place]:
            if _sublayer(source) != _sublayer(target):
                edges[source, target] = None if (source, target) in unscored else (source, target) in yes
    asked = facts["question"]
    return Truth(facts["nodes"], edges, None if asked is None else Question(**asked))


def _sublayer(node: str) -> str:
    """Return what nodes of one sublayer have in common: heads of a layer do not read each other."""
    return node.partition(".H")[0] + ".H" if ".H" in node else node


def _index(directory: Path) -> dict[str, str]:
    """Return the circuits of a directory, with the checksums of their truths."""
    path = directory / INDEX
    if not path.exists():
        raise DataFileError(f"{directory} has no {INDEX}: give a directory made by `ridgeformer circuits make`.")
    with explained(path, "cannot be read as an index of circuits", "make the circuits again"):
        index: Any = json.loads(read_regular(path, MOST_BYTES))
        if not isinstance(index, dict) or index.get("format") != FORMAT or not index["circuits"]:
            raise DataFileError(f"{path} does not list {FORMAT}: give a directory made by `ridgeformer circuits make`.")
        names = index["circuits"]
        if any(Path(name).name != name for name in names):
            raise DataFileError(f"{path} names a circuit outside its directory: make the circuits again.")
        return {str(name): str(value) for name, value in names.items()}


def _checksum(path: Path) -> str:
    return hashlib.sha256(read_regular(path, MOST_BYTES)).hexdigest()


# -- answers ---------------------------------------------------------------------------------------


def save_answers(path: str | Path, answers: Mapping[str, CircuitAnswer], method: str = "") -> Path:
    """Write answers as JSON: circuit to nodes, edges, threshold, probe and patch, whichever there are."""
    path = Path(path)
    circuits = {}
    for name, answer in answers.items():
        edges = [[source, target, value] for (source, target), value in answer.edges.items()]
        given: dict[str, Any] = {"nodes": answer.nodes, "edges": edges, "threshold": answer.threshold}
        given |= {"probe": answer.probe, "patch": answer.patch}
        circuits[name] = {key: value for key, value in given.items() if value not in ({}, [], None)}
    try:
        path.write_text(
            json.dumps({"format": ANSWERS, "method": method, "circuits": circuits}) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise RidgeformerError(f"cannot write {path} ({error.strerror or error}): choose another place.") from None
    return path


def load_answers(path: str | Path) -> dict[str, CircuitAnswer]:
    """Return the answers of a file.

    Raises:
        DataFileError: the file is not one.
    """
    path = Path(path)
    with explained(path, "cannot be read as answers", "see the page on known circuits for the format"):
        found: Any = json.loads(read_regular(path, MOST_BYTES))
        if not isinstance(found, dict) or found.get("format") != ANSWERS:
            raise DataFileError(f'{path} does not hold answers: its "format" should be "{ANSWERS}".')
        return dict(_answers(found["circuits"]))


def _answers(circuits: dict[str, Any]) -> Iterator[tuple[str, CircuitAnswer]]:
    for name, given in circuits.items():
        odd = set(given) - {"nodes", "edges", "threshold", "probe", "patch"}
        if odd:
            raise DataFileError(
                f"the answer to {name} has {sorted(odd)[0]!r}; nodes, edges, threshold, probe and patch were expected."
            )
        threshold = given.get("threshold")
        directions = (given.get(key) for key in ("probe", "patch"))
        yield (
            name,
            CircuitAnswer(
                {str(node): float(value) for node, value in given.get("nodes", {}).items()},
                {(str(source), str(target)): float(value) for source, target, value in given.get("edges", [])},
                None if threshold is None else float(threshold),
                *(None if part is None else tuple(float(value) for value in part) for part in directions),
            ),
        )
