"""Which training points made one prediction, and how easily such answers are turned around."""

from __future__ import annotations

import plotly.graph_objects as go

from ridgeformer.auditing import Audit
from ridgeformer.auditing.malleability import CONTROLS, Malleable
from ridgeformer.auditing.skipped import Skipped
from ridgeformer.influence import Answer
from ridgeformer.influence.answer import Point
from ridgeformer.views.figures import PALETTE, Figure, broken, styled
from ridgeformer.views.parts import Facts, Part, Picture, Section, Strip, Table, Thumbnail, thumbnail

__all__ = ["flips_figure", "influence_section"]

COLOURS = {"noise": "#9aa5b8", "redrawn": PALETTE[4], "attacked": PALETTE[1], "adaptive": PALETTE[3]}


def influence_section(audit: Audit) -> Section:
    """Return the section on influence and malleability."""
    return Section(
        "Influence and malleability", parts=(*_one_prediction(audit), *_malleability(audit)), anchor="influence"
    )


def _one_prediction(audit: Audit) -> list[Part]:
    answer = audit.attribution
    if isinstance(answer, Skipped):
        return [f"Influence on one prediction was not measured: {answer.reason}"]
    hardest = "whose own class leads least" if answer.task == "classification" else "with the largest error"
    parts: list[Part] = [
        f"Which training points made one prediction? Row {answer.row} is the held-out row {hardest}. A point's score "
        "is what the prediction loses if the fit is made without it, exactly and without fitting again.",
        Facts(answer.sentences),
    ]
    if audit.data.dataset.image_shape is not None:
        parts.append(_strip(audit, answer))
    return [*parts, _points_table(answer)]


def _strip(audit: Audit, answer: Answer) -> Strip:
    def image(point: Point, mark: str) -> Thumbnail:
        return thumbnail(
            audit.data.dataset, point.row, f"{mark}: {point.label}", f"row {point.row}, {point.score:+.3f}", mark
        )

    note = f"row {answer.row}, predicted {answer.predicted}"
    asked = thumbnail(audit.data.dataset, answer.row, f"asked: {answer.truth}", note, "asked")
    helps = [image(point, "helps") for point in answer.helpful]
    harms = [image(point, "harms") for point in answer.harmful]
    right = "rightly" if answer.truth == answer.predicted else "wrongly"
    return Strip(
        (asked, *helps, *harms),
        f"What to see: the row asked about ({answer.truth}, {right} predicted {answer.predicted}), then the training "
        f"rows that help most and those that harm most. Together these {len(helps) + len(harms)} make up "
        f"{100 * answer.share:.0f} % of all influence on it.",
        "influence",
    )


def _points_table(answer: Answer) -> Table:
    sides = (("helps", answer.helpful), ("harms", answer.harmful))
    rows = tuple((side, str(p.row), p.label, f"{p.score:+.4f}") for side, points in sides for p in points)
    values = tuple((side, p.row, p.label, p.score) for side, points in sides for p in points)
    return Table(("", "training row", "label", "score"), rows, values, "influence")


def _malleability(audit: Audit) -> list[Part]:
    found = audit.malleability
    if isinstance(found, Skipped):
        return [f"Malleability was not measured: {found.reason}"]
    return [
        f"Can such an answer be turned around? The {found.moved} most influential of {found.rows} training rows are "
        f"moved a little, every feature by at most a fraction of its typical size ({found.typical:.3g} as the kernel "
        f"sees it), and the influences on {found.queries} held-out rows are computed again. A flip is an influence "
        "that changes its sign. Two controls stand beside the attacks: random noise of the same size, and for networks "
        "no attack at all but other random weights. A flip rate no larger than its controls says "
        "nothing about the attack.",
        Picture(flips_figure(found), _flips_caption(found),
                "Bars: share of influences that change sign, by model, for two controls and two attacks.",
                "malleability"),
        _flips_table(found),
    ]  # fmt: skip


def flips_figure(found: Malleable) -> Figure:
    """Return the flip rates at the first size as grouped bars; whiskers reach over all draws."""
    figure, size = go.Figure(), found.sizes[0]
    for control, words in CONTROLS.items():
        flips = [one for model in found.models if (one := found.of(model, size, control))]
        means = [100 * one.mean for one in flips]
        whiskers = len(flips[0].shares) > 1 and {
            "type": "data", "symmetric": False, "color": "#7a8496",
            "array": [100 * max(one.shares) - mean for one, mean in zip(flips, means, strict=True)],
            "arrayminus": [mean - 100 * min(one.shares) for one, mean in zip(flips, means, strict=True)],
        }  # fmt: skip
        names = [broken(one.model) for one in flips]
        look = {"marker_color": COLOURS[control], "error_x": whiskers or None}
        figure.add_bar(x=means, y=names, orientation="h", name=words, **look)
    figure.update_xaxes(title="changes of sign, %", range=[0, 101])
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(barmode="group", hovermode="y unified")
    return styled(figure)


def _flips_caption(found: Malleable) -> str:
    size = found.sizes[0]
    parts = []
    for model in found.models:
        chance, attack = (
            max((one for name in names if (one := found.of(model, size, name))), key=lambda one: one.mean)
            for names in (("noise", "redrawn"), ("attacked", "adaptive"))
        )
        more = "more than" if min(attack.shares) > max(chance.shares) else "not clearly more than"
        parts.append(f"{model} {100 * attack.mean:.0f} %, {more} by chance ({100 * chance.mean:.0f} %)")
    draws = len(found.flips[0].shares)
    over = (
        f"Means over {draws} draws; whiskers reach over all of them." if draws > 1 else "One draw: take it as a hint."
    )
    return (
        f"What to see: influences turned around by the stronger attack of size {100 * size:.0f} % of a typical "
        f"feature: {'; '.join(parts)}. {over}"
    )


def _flips_table(found: Malleable) -> Table:
    head = ("influences of", "size of the move", *CONTROLS.values())
    keys = [(model, size) for model in found.models for size in found.sizes]
    table = [(model, size, [found.of(model, size, control) for control in CONTROLS]) for model, size in keys]
    rows = tuple(
        (model, f"{100 * size:.0f} %", *("" if one is None else f"{100 * one.mean:.0f} %" for one in ones))
        for model, size, ones in table
    )
    values = tuple((model, size, *(None if one is None else one.mean for one in ones)) for model, size, ones in table)
    return Table(head, rows, values, "malleability")
