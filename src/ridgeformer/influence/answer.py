"""Which training points made a prediction, in words: the answer to a user's question about one row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isinf
from typing import Any

import torch
from torch import Tensor

from ridgeformer.auditing.fits import certified_fit
from ridgeformer.auditing.settings import Settings
from ridgeformer.core.checks import whole
from ridgeformer.datasets import Dataset
from ridgeformer.influence.attacks import PGD
from ridgeformer.influence.exact import RidgeFit, fit
from ridgeformer.influence.flipping import FlippingEps, smallest_flipping_eps
from ridgeformer.influence.group import group_influence
from ridgeformer.influence.influence import Influence
from ridgeformer.influence.posing import Posed, pose_row

__all__ = ["Answer", "Asked", "Point", "ask", "describe"]

START = 1e-3
"""Where the search for a flipping eps begins; it doubles from there."""


@dataclass(frozen=True)
class Point:
    """A training point: its row in the dataset, its label or target, and what it adds towards the truth."""

    row: int
    label: str
    score: float


@dataclass(frozen=True)
class Answer:
    """What made the prediction at one row, how good the fit is, how firm the first answer stands.

    A score is what the prediction loses without the point: of the output of the row's own class, or, for regression,
    of the way towards the true value. Positive helps, negative harms.

    Attributes:
        name, task: of the dataset.
        model: what was fitted, in words.
        row: the row asked about.
        truth, predicted: its label or target, and what the fit says.
        output: the output asked about, as predicted.
        training_rows: how many.
        temperature, ridge: of the certified fit.
        helpful, harmful: the points of largest and of smallest score, the strongest first.
        share: what the points shown make up of the sum of all absolute scores.
        together: what the prediction loses without all of `helpful` at once; not the sum of their scores.
        leave_one_out_error: share of training rows that the fit without them gets wrong, or root mean square error.
        strongest: the row of largest absolute score, which `flipping` is about.
        flipping: how far that row must move before its influence changes sign; None if that was not searched for.
        unit: how many units of the data one unit of eps is; None if every feature was scaled by itself.
        notes: what was done to the data.
        warning: why the kernel may not speak for the model, if it may not; None for a kernel fit.
    """

    name: str
    task: str
    model: str
    row: int
    truth: str
    predicted: str
    output: float
    training_rows: int
    temperature: float | None
    ridge: float
    helpful: tuple[Point, ...]
    harmful: tuple[Point, ...]
    share: float
    together: float
    leave_one_out_error: float
    strongest: int
    flipping: FlippingEps | None
    unit: float | None
    notes: tuple[str, ...]
    warning: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in words."""
        return _sentences(self)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"sentences": self.sentences} | asdict(self)


def ask(dataset: Dataset, row: Any, settings: Settings | None = None, *, points: Any = 5) -> Answer:
    """Say which training points made the prediction at one row of a dataset, under the certified kernel fit.

    Kernel and ridge are those an audit chooses. The row asked about is held out of the fit.

    Args:
        dataset: classes, or a regression, of whose outputs the first is explained.
        row: the number of a row of the dataset.
        settings: of the audit.
        points: how many to name on either side.

    Raises:
        InputError: no such row, one class only, a singular system, ...

    Example:
        >>> from ridgeformer import datasets
        >>> answer = ask(datasets.load("wine"), 7)
        >>> answer.predicted == answer.truth, answer.helpful[0].score > 0 > answer.harmful[0].score
        (True, True)
    """
    settings, count = settings or Settings(), whole(points, "points", 1)
    posed = pose_row(dataset, row, settings)
    certified = certified_fit(posed.data, settings)
    fitted = fit(certified.solution.kernel, posed.data.X, posed.data.y, certified.solution.ridge)
    query = posed.data.Xt[posed.place : posed.place + 1]
    return describe(Asked(posed, fitted, query, certified.fit.temperature, "a kernel ridge regression"), count)


@dataclass(frozen=True, eq=False)
class Asked:
    """A question that is ready: the row held out, the fit to the others, and the row as the fit sees it."""

    posed: Posed
    fitted: RidgeFit
    query: Tensor
    temperature: float | None
    model: str


def describe(asked: Asked, count: int, *, firm: bool = True) -> Answer:
    """Return the answer that a fit gives, `count` points on either side; `firm` searches for the flipping eps."""
    posed, fitted, query = asked.posed, asked.fitted, asked.query
    found, output = fitted.influence(query), _output(posed)
    direction = _direction(posed, found, output)
    scores = direction * found.leave_one_out[:, 0, output]
    helpful, harmful = _ends(scores, count)
    strongest = int(scores.abs().argmax())
    return Answer(
        name=posed.data.dataset.name,
        task=posed.data.dataset.task,
        model=asked.model,
        row=posed.row,
        truth=posed.truth,
        predicted=posed.said(found.predictions[0]),
        output=float(found.predictions[0, output] + posed.data.mean[output]),
        training_rows=len(scores),
        temperature=asked.temperature,
        ridge=fitted.system.ridge,
        helpful=_points(posed, scores, helpful),
        harmful=_points(posed, scores, harmful),
        share=_shown(scores, torch.cat([helpful, harmful])),
        together=_together(fitted, query, helpful, output, direction),
        leave_one_out_error=_leave_one_out_error(posed, found),
        strongest=int(posed.numbers[strongest]),
        flipping=_flipping(asked, strongest, output) if firm else None,
        unit=_unit(asked, strongest),
        notes=posed.data.notes,
    )


def _flipping(asked: Asked, strongest: int, output: int) -> FlippingEps:
    system = asked.fitted.system
    return smallest_flipping_eps(
        system.kernel, system.X, asked.fitted.y, asked.query, system.ridge, PGD(START), index=strongest, output=output
    )


def _output(posed: Posed) -> int:
    """Return the output asked about: that of the row's own class, or the first."""
    labels = posed.data.labels_t
    return 0 if labels is None else int(labels[posed.place])


def _direction(posed: Posed, found: Influence, output: int) -> float:
    """Return +1 where raising the output goes towards the truth, else -1."""
    if posed.data.labels is not None:
        return 1.0
    return 1.0 if float(posed.data.yt[posed.place, output]) >= float(found.predictions[0, output]) else -1.0


def _ends(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    order = scores.argsort(descending=True, stable=True)
    helpful, harmful = order[:count], order.flip(0)[:count]
    return helpful[scores[helpful] > 0], harmful[scores[harmful] < 0]


def _points(posed: Posed, scores: Tensor, places: Tensor) -> tuple[Point, ...]:
    return tuple(Point(int(posed.numbers[i]), _label(posed, i), float(scores[i])) for i in places.tolist())


def _shown(scores: Tensor, places: Tensor) -> float:
    total = float(scores.abs().sum())
    return float(scores[places].abs().sum()) / total if total else 0.0


def _label(posed: Posed, place: int) -> str:
    data = posed.data
    if data.labels is not None:
        return data.dataset.classes[int(data.labels[place])]
    return f"{float(data.y[place, 0] + data.mean[0]):.4g}"


def _together(fitted: RidgeFit, query: Tensor, group: Tensor, output: int, direction: float) -> float:
    return direction * float(group_influence(fitted, query, group)[0, output]) if len(group) else 0.0


def _leave_one_out_error(posed: Posed, found: Influence) -> float:
    left_out = posed.data.y - found.residual
    if posed.data.labels is not None:
        return 1 - posed.data.score(left_out, train=True)
    return float(found.residual.square().mean().sqrt())


def _unit(asked: Asked, place: int) -> float | None:
    """Return by how much a training row was divided as a whole; None if it was not."""
    raw, prepared = torch.from_numpy(asked.posed.source[place]), asked.fitted.system.X[place]
    factor = float(raw.norm() / prepared.norm()) if float(prepared.norm()) > 0 else 0.0
    return factor if factor > 0 and torch.allclose(factor * prepared, raw) else None


def _sentences(answer: Answer) -> tuple[str, ...]:
    classes = answer.task == "classification"
    what = f"the output of class {answer.truth}" if classes else "the prediction"
    is_class = f"is of class {answer.truth}" if classes else f"has the target {answer.truth}"
    verdict = "" if not classes else (", rightly" if answer.predicted == answer.truth else ", wrongly")
    error = (
        f"{100 * answer.leave_one_out_error:.1f} % of the training rows are put into a wrong class"
        if classes
        else f"the root mean square error is {answer.leave_one_out_error:.4g}"
    )
    return (
        *(() if answer.warning is None else (answer.warning,)),
        f"Row {answer.row} of {answer.name} {is_class}; {answer.model} on {answer.training_rows:,} other "
        f"rows says {answer.predicted}{verdict}.",
        *_ends_in_words(answer, what),
        f"How good the fit is: by fits without them, {error} (leave-one-out, exact).",
        _robustness(answer),
    )


def _ends_in_words(answer: Answer, what: str) -> list[str]:
    lines = []
    if answer.helpful:
        top = answer.helpful[0]
        lines.append(
            f"Most helpful is row {top.row} ({top.label}): it moves {what} by {top.score:.3g} towards the truth, to "
            f"{answer.output:.3g}. The {len(answer.helpful)} most helpful at once move it by {answer.together:.3g}."
        )
    if answer.harmful:
        top = answer.harmful[0]
        lines.append(f"Most harmful is row {top.row} ({top.label}): it moves it by {-top.score:.3g} the other way.")
    shown = len(answer.helpful) + len(answer.harmful)
    if not shown:
        return []
    lines.append(f"These {shown} points make up {100 * answer.share:.0f} % of all influence on this row.")
    return lines


def _robustness(answer: Answer) -> str:
    found = answer.flipping
    if found is None:
        return "How firm that is: not searched for, because nothing was moved through this network's kernel."
    if found.found == 0:
        return "How firm that is: no training point has any influence on this row, so there is no sign to keep."
    point = f"the sign of the strongest influence, row {answer.strongest}'s,"
    measure = "eps is the largest change of one feature as the kernel sees it"
    if answer.unit is not None:
        measure += f"; 1 there is {answer.unit:.3g} in the units of the data"
    if found.certified:
        kept = f"is certain to stay while that row moves by eps = {found.certified:.2g} at most"
    else:
        kept = f"stayed under every attack tried up to eps = {found.kept:.2g}, which proves nothing"
    flips = "no attack tried changed it" if isinf(found.found) else f"an attack changes it at eps = {found.found:.2g}"
    return f"How firm that is: {point} {kept}; {flips} ({measure})."
