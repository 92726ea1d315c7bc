"""The page of an influence answer: the sentences, the points, and their images."""

from __future__ import annotations

from ridgeformer.core.words import count, number
from ridgeformer.datasets import Dataset
from ridgeformer.influence.answer import Answer
from ridgeformer.views.parts import Page, Part, Section, Strip, Table, thumbnail

__all__ = ["influence_page", "influence_strip", "influence_table"]


def influence_page(answer: Answer, dataset: Dataset) -> Page:
    """Return the page; images are shown where the rows of the dataset are images."""
    parts: list[Part] = [] if dataset.image_shape is None else [influence_strip(answer, dataset)]
    return Page(
        f"What made the prediction at row {answer.row} of {answer.name}",
        f"{answer.model}, {count(answer.training_rows, 'training row')}, ridge {number(answer.ridge)}",
        answer.sentences,
        (Section("The points", [*parts, influence_table(answer)]), Section("What was done to the data", answer.notes)),
    )


def influence_table(answer: Answer) -> Table:
    """Return the most helpful and the most harmful training rows with their scores."""
    sides = (("helps", answer.helpful), ("harms", answer.harmful))
    rows = [(side, point.row, point.label, point.score) for side, points in sides for point in points]
    return Table.of({"": "", "training row": "", "label": "", "score": "+.4f"}, rows, "influence")


def influence_strip(answer: Answer, dataset: Dataset) -> Strip:
    """Return the explained row, then the training rows that help and harm its prediction most."""
    note = f"row {answer.row}, predicted {answer.predicted}"
    images = [thumbnail(dataset, answer.row, f"explained: {answer.truth}", note, "asked")]
    for mark, points in (("helps", answer.helpful), ("harms", answer.harmful)):
        for point in points:
            note = f"row {point.row}, {point.score:+.3f}"
            images.append(thumbnail(dataset, point.row, f"{mark}: {point.label}", note, mark))
    right = "correctly" if answer.truth == answer.predicted else "wrongly"
    return Strip(
        tuple(images),
        f"What to see: the explained row ({answer.truth}, {right} predicted {answer.predicted}), then the training "
        f"rows that help most and those that harm most. These {len(images) - 1} make up {100 * answer.share:.0f} % of "
        "all influence on it.",
        "influence",
    )
