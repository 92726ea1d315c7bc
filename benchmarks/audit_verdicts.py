"""How often the audit's first sentence and advice are wrong: tables of pure noise, and tables whose truth is linear.

Selection, the first sentence and the advice are those of an audit. On noise the whole field takes part, with fewer
settings and trees, which changes how good the methods are and not how they are judged. Where the truth is linear all
settings are tried, and only the kernel, the linear model and the constant take part: others could only keep the kernel
from winning, and the fewer they are, the less a difference must exceed chance. The tables are small, so that every row
is held out once in five splits; `--one-split` holds 30 % out once instead.

Usage: python benchmarks/audit_verdicts.py [--tables 200] [--seed 0] [--one-split]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from harness import report

from ridgeformer.auditing import Settings
from ridgeformer.auditing.advice import advise
from ridgeformer.auditing.answer import name_winner
from ridgeformer.auditing.field import Field, run_field
from ridgeformer.auditing.metrics import measure
from ridgeformer.auditing.run import make_splits
from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import proportion_interval
from ridgeformer.datasets import Dataset

WHOLE = Settings(trees=6, tries=6)
DUEL = Settings(methods=("attention", "constant", "linear"))


def noise(g: np.random.Generator) -> Dataset:
    """Return 200 rows whose target has nothing to do with them."""
    return Dataset("noise", g.standard_normal((200, 5)), g.standard_normal(200))


def noisy_classes(g: np.random.Generator) -> Dataset:
    """Return the same with two classes, one row in eight of the second."""
    return Dataset("classes", g.standard_normal((200, 5)), g.permutation(200) % 8 // 7, "classification", ("a", "b"))


def linear(g: np.random.Generator) -> Dataset:
    """Return 300 rows with a linear truth and noise of a quarter of its spread."""
    X = g.standard_normal((300, 5))
    return Dataset("linear", X, X @ np.array([3.0, -2.0, 1.0, 0.0, 0.0]) + g.standard_normal(300))


def learnt(winner: str, advice: str, field: Field) -> bool:
    """Return whether the audit claims that something was learnt."""
    return not (winner.startswith("Who wins: nobody.") and advice.startswith("nothing was learnt"))


def kernel_wins(winner: str, advice: str, field: Field) -> bool:
    """Return whether the kernel of attention is called better than all others, or better than the linear model."""
    lead = field.compare(field.own, field.of("linear"))
    return "kernel of attention wins" in winner or (lead.significant and lead.lead > 0)


def not_linear(winner: str, advice: str, field: Field) -> bool:
    """Return whether the advice is anything but the linear model."""
    return not advice.startswith("use a linear model")


Says = Callable[[str, str, Field], bool]
QUESTIONS: dict[str, tuple[Callable[[np.random.Generator], Dataset], Says]] = {
    "noise: something was learnt": (noise, learnt),
    "linear truth: the kernel of attention is called better": (linear, kernel_wins),
    "linear truth: the advice is not the linear model": (linear, not_linear),
    "noise, imbalanced classes: something was learnt": (noisy_classes, learnt),
}


def ask(
    make: Callable[[np.random.Generator], Dataset], index: int, seed: int, settings: Settings
) -> tuple[str, str, Field]:
    """Return the first sentence, the advice and the field of one table."""
    dataset = make(numpy_generator(seed, "audit verdicts", make.__name__, index))
    splits, wide = make_splits(dataset, settings)
    field, _ = run_field(splits, settings, wide)
    metrics = {one.key: measure(field, one, dataset.classes) for one in (field.own, field.best)}
    return name_winner(splits[0], field, metrics), advise(splits[0], field, None)[0], field


def count(
    tables: int, seed: int, questions: Sequence[str] = tuple(QUESTIONS), *, one_split: bool = False
) -> list[dict[str, object]]:
    """Return a row for each question: how many tables were called wrongly, with a 95 % interval."""
    rows = []
    said: dict[str, tuple[list[tuple[str, str, Field]], float]] = {}
    for question in questions:
        make, wrong = QUESTIONS[question]
        if make.__name__ not in said:
            begin = time.process_time()
            settings = replace(DUEL if make is linear else WHOLE, **({"few_rows": 0} if one_split else {}))
            found = [ask(make, index, seed, settings) for index in range(tables)]
            said[make.__name__] = found, (time.process_time() - begin) / tables
        answers, seconds = said[make.__name__]
        hits = sum(wrong(*one) for one in answers)
        low, high = proportion_interval(hits, tables)
        rows.append(
            {"wrong if": question, "tables": tables, "times": hits, "95 % interval": f"{low:.3f} to {high:.3f}",
             "processor seconds a table": f"{seconds:.1f}"}
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Count and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one-split", action="store_true")
    parser.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=list(QUESTIONS))
    given = parser.parse_args()
    rows = count(given.tables, given.seed, given.questions, one_split=given.one_split)
    publish(rows, given.seed, given.questions, one_split=given.one_split)


def publish(rows: list[dict[str, object]], seed: int, questions: Sequence[str], *, one_split: bool) -> None:
    """Write the page, with the command that makes it."""
    how = f"`python benchmarks/audit_verdicts.py --seed {seed}{' --one-split' if one_split else ''}"
    if list(questions) != list(QUESTIONS):
        how += " --questions " + " ".join(f'"{question}"' for question in questions)
    report("audit_verdicts", {"seed": seed, "splits": 1 if one_split else 5}, rows, f"{how}`")


if __name__ == "__main__":
    main()
