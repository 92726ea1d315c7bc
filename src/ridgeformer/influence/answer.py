"""Which training points made a prediction of a kernel fit or of a network, in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isinf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.datasets import Dataset, Split
from ridgeformer.influence.attacks import PGD
from ridgeformer.influence.exact import influence, leave_group_out
from ridgeformer.influence.flipping import FlippingEps, smallest_flipping_eps
from ridgeformer.kernels import Kernel
from ridgeformer.regime import Architecture, CustomArchitecture, NetworkNTK, ReluNetwork, Training, measure
from ridgeformer.regime.answer import SHORT, choose_ridge, obstacles, set_rate
from ridgeformer.regime.measurement import draw_network
from ridgeformer.regime.tangent_kernel import EmpiricalNTK
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.tuning import choose_attention

__all__ = ["ROWS", "Answer", "Point", "ask", "ask_network", "explain"]


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
    """The training rows that made one prediction, the quality of the fit, and the robustness of the answer.

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
        warning: why the tangent kernel may not describe the network; None if it does, and for a kernel fit.
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
        classes, warning = self.task == "classification", () if self.warning is None else (self.warning,)
        truth = f"is of class {self.truth}" if classes else f"has the target {self.truth}"
        verdict = "" if not classes else (", rightly" if self.predicted == self.truth else ", wrongly")
        error = (
            f"leave-one-out misclassifies {100 * self.leave_one_out_error:.1f} % of the training rows"
            if classes
            else f"the leave-one-out root mean square error is {self.leave_one_out_error:.4g}"
        )
        lines = []
        if self.helpful:
            top, what = self.helpful[0], f"the output of class {self.truth}" if classes else "the prediction"
            lines.append(
                f"Most helpful is row {top.row} ({top.label}): it moves {what} by {top.score:.3g} towards the truth, "
                f"to {self.output:.3g}. The {len(self.helpful)} most helpful at once move it by {self.together:.3g}."
            )
        if self.harmful:
            top = self.harmful[0]
            lines.append(f"Most harmful is row {top.row} ({top.label}): it moves it by {-top.score:.3g} the other way.")
        if lines:
            shown = len(self.helpful) + len(self.harmful)
            lines.append(f"These {shown} points make up {100 * self.share:.0f} % of all influence on this row.")
        return (
            *warning,
            f"Row {self.row} of {self.name} {truth}; {self.model} on {self.training_rows:,} other rows says "
            f"{self.predicted}{verdict}.",
            *lines,
            f"Quality of the fit: {error} (exact, without refits).",
            _robustness(self),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"sentences": self.sentences} | asdict(self)


def ask(
    dataset: Dataset, row: int, *, max_rows: int = 2000, preprocessing: str = "auto", seed: int = 0, points: int = 5
) -> Answer:
    """Say which training rows made the prediction at one row of a dataset, under the kernel fit of an audit.

    The row is set aside before the others are sampled, split and scaled, and before temperature and ridge are chosen.

    Of a regression with several outputs the first is explained. `points` rows are named on either side.

    Example:
        >>> from ridgeformer import datasets
        >>> answer = ask(datasets.load("wine"), 7)
        >>> answer.predicted == answer.truth, answer.helpful[0].score > 0 > answer.harmful[0].score
        (True, True)
    """
    count = whole(points, "points", 1)
    split = Split.of(dataset, held_out=row, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    kernel, ridge = choose_attention(split, seed=seed)
    fit = solve(kernel, split.X, split.y, ridge, algorithm="direct")
    return explain(split, fit, -1, count, temperature=kernel.temperature)


def explain(
    split: Split,
    fit: Fit,
    place: int,
    points: int = 5,
    *,
    query: Tensor | None = None,
    temperature: float | None = None,
    model: str = "a kernel ridge regression",
    robustness: bool = True,
    attack: PGD | None = None,
) -> Answer:
    """Say which training rows of a split made the prediction at one held-out row.

    `place` is the position of the row among the held-out rows, `query` (1, d) what the kernel sees of it, by default
    the row itself. `robustness` searches for the smallest move that flips the sign of the strongest influence, by
    `attack`, of any size.
    """
    place = place % len(split.Xt)
    if split.labels is not None and split.labels_t is not None:
        data, own = split.dataset.name, split.labels_t[place]
        if len(split.labels.unique()) < 2:
            raise InputError(
                f"the training rows of {data} are all of one class: add rows of another class, or predict another "
                "column."
            )
        if not bool((split.labels == own).any()):
            raise InputError(
                f"row {split.rows_t[place]} of {data} is of class {split.classes[int(own)]}, and no training row has "
                "this class: add rows of that class, or ask about another row."
            )
    query = split.Xt[place : place + 1] if query is None else query
    found = influence(fit, query)
    output = 0 if split.labels_t is None else int(split.labels_t[place])
    towards = split.labels is not None or float(split.yt[place, 0]) >= float(found.predictions[0, 0])
    direction = 1.0 if towards else -1.0
    scores = direction * found.leave_one_out[:, 0, output]
    order = scores.argsort(descending=True, stable=True)
    helpful, harmful = order[:points], order.flip(0)[:points]
    helpful, harmful = helpful[scores[helpful] > 0], harmful[scores[harmful] < 0]
    strongest, total = int(scores.abs().argmax()), float(scores.abs().sum())
    flipping = None
    if robustness:
        flipping = smallest_flipping_eps(fit, query, attack or PGD(START), index=strongest, output=output)

    def name(places: Tensor) -> tuple[Point, ...]:
        return tuple(
            Point(int(split.rows[i]), split.describe_target(i, train=True), float(scores[i])) for i in places.tolist()
        )

    return Answer(
        name=split.dataset.name,
        task=split.task,
        model=model,
        row=int(split.rows_t[place]),
        truth=split.describe_target(place),
        predicted=split.describe_outputs(found.predictions[0]),
        output=float(found.predictions[0, output] + split.mean[output]),
        training_rows=len(scores),
        temperature=temperature,
        ridge=fit.ridge,
        helpful=name(helpful),
        harmful=name(harmful),
        share=float(scores[torch.cat([helpful, harmful])].abs().sum()) / total if total else 0.0,
        together=direction * float(leave_group_out(fit, query, helpful)[0, output]) if len(helpful) else 0.0,
        leave_one_out_error=float(found.residual.square().mean().sqrt())
        if split.labels is None
        else split.error(split.y - found.residual, train=True),
        strongest=int(split.rows[strongest]),
        flipping=flipping,
        unit=_unit(split.dataset.X[split.rows[strongest]], fit.X[strongest]),
        notes=split.notes,
    )


def _unit(given: NDArray[np.float64], prepared: Tensor) -> float | None:
    """Return the factor by which a row was divided as a whole; None if it was changed otherwise."""
    raw, size = torch.from_numpy(given), float(prepared.norm())
    factor = float(raw.norm()) / size if size > 0 else 0.0
    return factor if factor > 0 and raw.shape == prepared.shape and torch.allclose(factor * prepared, raw) else None


def _robustness(answer: Answer) -> str:
    found = answer.flipping
    if found is None:
        return "Robustness: not searched for, because this network's kernel has no derivative here."
    if found.found == 0:
        return "Robustness: no training row has any influence on this row, so there is no sign to keep."
    point = f"the sign of the strongest influence, row {answer.strongest}'s,"
    measure = "eps is the largest change of one feature as the kernel sees it"
    if answer.unit is not None:
        measure += f"; 1 there is {answer.unit:.3g} in the units of the data"
    if found.certified:
        kept = f"is proved to stay while that row moves by eps = {found.certified:.2g} at most"
    else:
        kept = f"stayed under every attack tried up to eps = {found.kept:.2g}, which proves nothing"
    flips = "no attack tried changed it" if isinf(found.found) else f"an attack changes it at eps = {found.found:.2g}"
    return f"Robustness: {point} {kept}; {flips} ({measure})."


ROWS = 300
"""Rows used at most unless told: a tangent kernel takes a gradient a row and output."""


def ask_network(
    dataset: Dataset,
    row: int,
    architecture: Architecture | CustomArchitecture,
    *,
    model: str = "",
    width: int = 1024,
    training: Training = SHORT,
    rate: float | None = None,
    max_rows: int = ROWS,
    preprocessing: str = "auto",
    seed: int = 0,
    points: int = 5,
) -> Answer:
    """Say which training points made the prediction at one row, by the tangent kernel of a network trained on them.

    The network is drawn and trained, and influences are those of ridge regression with its kernel at the trained
    weights; the ridge is the largest that predicts nearly best, leaving one row out. They are about the network as
    far as it is a kernel machine. That is measured as in `answer_regime`; where it is not so, `Answer.warning` says
    why, and stands first in the answer. A network that is no plain ReLU layer has no robustness line: its kernel is
    computed, not differentiated.

    `CustomArchitecture(factory)` is a network of your own. 0 epochs of training is the network as drawn; the rate is
    chosen from the network unless it is given or Adam's. Other arguments as for `ask`.

    Example:
        >>> from ridgeformer import datasets
        >>> found = ask_network(datasets.load("wine"), 7, Architecture("relu", scale=1.0), width=256)
        >>> found.helpful[0].score > 0, found.warning is None or found.sentences[0] == found.warning
        (True, True)
    """
    count, width = whole(points, "points", 1), whole(width, "width", 1)
    split = Split.of(dataset, held_out=row, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    built = draw_network(split, architecture, width, seed, torch.float64)
    training = set_rate(training, rate, built, split, seed)
    measured = measure(
        split, architecture, training, width=width, seed=seed, ridge=lambda K: choose_ridge(K, split.y)[0], built=built
    )
    if measured.diverged:
        raise InputError(f"training diverged at rate {float(training.rate):.3g}: give a smaller rate.")
    trained = built.model
    kernel: Kernel = NetworkNTK(trained.weights) if isinstance(trained, ReluNetwork) else EmpiricalNTK(trained)
    seen, query = built.features(split.X), built.features(split.Xt[-1:])
    with torch.no_grad():
        alive, outputs = float(kernel.diagonal(seen).mean()) > 0, trained(query)[0].double()
    if not alive:
        raise InputError(
            "the network is dead: no output has a gradient at any training row, so no point has influence."
        )
    name = f"the tangent kernel of {model or getattr(architecture, 'name', 'your network')} of width {width:,}"
    fit, smooth = solve(kernel, seen, split.y, measured.ridge, algorithm="direct"), isinstance(kernel, NetworkNTK)
    while not fit.converged and fit.ridge < float(kernel.diagonal(seen).mean()):
        fit = solve(kernel, seen, split.y, 10 * fit.ridge, algorithm="direct")
    answer = explain(split, fit, -1, count, query=query, model=name, robustness=smooth)
    notes = [f"The network had {training}.", f"The network itself says {split.describe_outputs(outputs)}."]
    if fit.ridge > measured.ridge:
        raised = f"The ridge is {fit.ridge:.2g}: at {measured.ridge:.2g}, which predicts nearly best, float64 does not"
        notes.append(f"{raised} determine influences.")
    warning = None
    if why := obstacles(measured):
        warning = (
            f"Warning: on these data the network is not the kernel machine that its tangent kernel describes, because "
            f"{' and '.join(why)}. What follows is true of the kernel, and may not be of the network."
        )
    return replace(answer, warning=warning, notes=(*notes, *answer.notes))
