"""The page of an identification: the answer, families by error, coordinates, symmetries, controls, power, mechanism."""

from __future__ import annotations

from ridgeformer.core.words import count, number
from ridgeformer.identification import Identification
from ridgeformer.identification.verdict import THRESHOLDS, Coordinate
from ridgeformer.views.figures import GREY, PALETTE, bars, broken, curve, draw, log_axis
from ridgeformer.views.parts import Page, Part, Picture, Section, Table

__all__ = ["identification_page"]

SMALLEST = 1e-16
SHOWN = 20


def identification_page(found: Identification) -> Page:
    """Return the page; sections about controls and layers are left out where these were not examined."""
    sections = [_families(found), _coordinates(found), _signatures(found)]
    if found.nulls or found.control is not None:
        sections.append(_controls(found))
    if found.power:
        sections.append(_power(found))
    if found.mechanism is not None and any(found.mechanism.tests.values()):
        sections.append(_mechanism(found))
    sections.append(_published(found))
    return Page(
        "Which algorithm does this model run?",
        f"{count(found.candidates, 'candidate')} on {count(found.tasks.count, 'task')} of "
        f"{count(found.tasks.features, 'feature')}; half of the tasks to fit candidates, half to judge them",
        found.sentences,
        tuple(section for section in sections if section.parts),
        colophon=f"seed {found.seed}, {found.seconds:.1f} s",
    )


def _best_of_families(found: Identification) -> list[tuple[str, str, float, bool, str]]:
    """Return (family, candidate, error, excluded, parameters) of the best candidate of every family, best first."""
    rows: dict[str, tuple[str, str, float, bool, str]] = {}
    best = found.verdict.best
    if best is not None:
        rows[best.family.name] = (best.family.title, best.title, found.verdict.unexplained, False, _values(best.values))
    for one in sorted(found.verdict.coordinates, key=lambda one: one.error):
        family = one.candidate.family
        if family.name not in rows:
            rows[family.name] = (
                family.title,
                one.candidate.title,
                one.error,
                one.excluded,
                _values(one.candidate.values),
            )
    return sorted(rows.values(), key=lambda row: row[2])


def _values(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


def _families(found: Identification) -> Section:
    rows = _best_of_families(found)
    if not rows:
        return Section("The error of each family")
    shown = rows[:SHOWN]
    labels = [broken(row[1], 30) for row in reversed(shown)]
    values = [max(row[2], SMALLEST) for row in reversed(shown)]
    colours = [GREY if row[3] else PALETTE[0] for row in reversed(shown)]
    figure = draw(
        [bars(values, labels, "unexplained", colours)],
        log_axis("fraction of the predictions left unexplained", values),
        {"title": "", "automargin": True},
        height=120 + 34 * len(shown),
        showlegend=False,
    )
    picture = Picture(
        figure,
        "What to see: blue families are not excluded, grey ones are. Bars at rounding level are exact matches.",
        "; ".join(f"{row[1]} {row[2]:.2g}" for row in shown[:5]),
        "families",
    )
    table = Table.of(
        {"best of its family": "", "unexplained": ".2g", "excluded": "", "fitted parameters": ""},
        [(row[1], row[2], "yes" if row[3] else "no", row[4]) for row in rows],
        "families",
    )
    return Section("The error of each family", [picture, table])


def _coordinates(found: Identification) -> Section:
    nearest: dict[str, Coordinate] = {}
    for one in sorted(found.verdict.coordinates, key=lambda one: one.error):
        nearest.setdefault(one.candidate.family.name, one)
    chosen = [one for one in nearest.values() if one.distance**2 > THRESHOLDS.same][:SHOWN]
    if not chosen:
        return Section("Where the model lies between candidates")
    clip = 1.0
    labels = [broken(one.candidate.title, 30) for one in reversed(chosen)]

    def clipped(values: list[float]) -> list[float]:
        return [min(max(value, -clip), clip) for value in values]

    values = clipped([one.value for one in reversed(chosen)])
    ends = (clipped([one.low for one in reversed(chosen)]), clipped([one.high for one in reversed(chosen)]))
    points = bars(values, labels, "coordinate", "rgba(0,0,0,0)", whiskers=ends)
    points |= {"type": "scatter", "mode": "markers", "marker": {"color": PALETTE[0], "size": 8}}
    points.pop("orientation")
    limits = [
        curve(
            [side, side],
            [labels[0], labels[-1]],
            "limits of exclusion",
            PALETTE[1],
            dash="dash",
            width=1.5,
            showlegend=False,
        )
        for side in (-THRESHOLDS.coordinate, THRESHOLDS.coordinate)
    ]
    figure = draw(
        [points, *limits],
        {"title": "coordinate: 0 at the nearest candidate, -1 at this one", "range": [-1.05, 1.05]},
        {"title": "", "automargin": True},
        height=130 + 34 * len(chosen),
        showlegend=False,
    )
    picture = Picture(
        figure,
        "What to see: a candidate is excluded if its whole interval (99 %, over tasks) lies between the dashed "
        "lines. An interval outside of them means that the model is between or beside candidates. Values are cut at 1.",
        "; ".join(f"{one.candidate.title} {one.value:.2f}" for one in chosen[:5]),
        "coordinates",
    )
    return Section("Where the model lies between candidates", [picture])


def _signatures(found: Identification) -> Section:
    meaning = {
        "additivity": "f(y1 + y2) = f(y1) + f(y2): linear smoothers; conjugate gradients stopped early break it",
        "homogeneity": "f(2 y) = 2 f(y)",
        "linearity": "predictions linear in the query: linear models; kernel averages break it",
        "rotation": "rotated rows, same predictions; a fixed preconditioner breaks it",
        "scale": "doubled rows, same predictions; fixed step sizes break it",
        "duplicates": "doubled supports, same predictions; sums over supports break it",
        "order": "supports in another order, same predictions; one pass over them breaks it",
    }
    rows = [(name, getattr(found.signatures, name), text) for name, text in meaning.items()]
    parts: list[Part] = [
        "Relative violations, which need no candidate. Empty: the model could not be run on the changed tasks."
    ]
    return Section(
        "Symmetries", [*parts, Table.of({"symmetry": "", "violation": ".2g", "what it means": ""}, rows, "symmetries")]
    )


def _controls(found: Identification) -> Section:
    rows = [(one.kind, one.answer, "yes" if one.same else "no") for one in found.nulls]
    parts: list[Part] = []
    if rows:
        parts += [
            "Models that do not run this algorithm, put through the same test.",
            Table.of({"null model": "", "answer": "", "same answer": ""}, rows, "nulls"),
        ]
    if found.control is not None:
        word = "recognised" if found.control.passed else "NOT recognised: the test has no power here"
        parts.append(
            f"Positive control, {found.control.kind} with the noise of the model: {word} ({found.control.answer})."
        )
    return Section("Controls", parts)


def _power(found: Identification) -> Section:
    first, *rest = found.power
    noises = sorted({one.noise for one in rest if one.noise is not None})
    traces = []
    for noise, colour in zip(noises, PALETTE, strict=False):
        chosen = sorted((one for one in rest if one.noise == noise), key=lambda one: one.tasks)
        traces.append(
            curve(
                [one.tasks for one in chosen],
                [one.power for one in chosen],
                f"output noise {noise:.0%}",
                colour,
                markers=True,
            )
        )
    parts: list[Part] = [
        f"The nearest candidate was replayed with the model's residuals and all were fitted again: the answer "
        f"came out again in {first.same} of {first.replays} replays."
    ]
    if traces:
        figure = draw(
            traces, "tasks in the held-out half", {"title": "fraction with the same answer", "range": [-0.05, 1.05]}
        )
        parts.append(
            Picture(
                figure,
                "What to see: how many tasks the answer needs at which output noise; few replays each.",
                "Power against tasks",
                "power",
            )
        )
    return Section("Power", parts)


def _mechanism(found: Identification) -> Section:
    assert found.mechanism is not None
    traces, rows = [], []
    for (name, tests), colour in zip(found.mechanism.tests.items(), PALETTE, strict=False):
        driven = [one for one in tests if one.driving and one.concordance is not None]
        if driven:
            point = curve([one.probe for one in driven], [one.concordance or 0.0 for one in driven], name, colour)
            labels = [f"{one.state}, step {one.step}" for one in driven]
            traces.append(point | {"mode": "markers", "marker": {"size": 10, "color": colour}, "text": labels})
        rows += [
            (
                name,
                one.step,
                one.state,
                one.probe,
                one.baseline,
                one.twin,
                one.concordance,
                one.effect,
                one.control,
                one.verdict,
            )
            for one in tests
        ]
    columns = {
        "hypothesis": "",
        "step": "",
        "state": "",
        "probe R²": ".3f",
        "from input": ".3f",
        "untrained twin": ".3f",
        "concordance": ".3f",
        "effect": ".2g",
        "random direction": ".2g",
        "verdict": "",
    }
    parts: list[Part] = [
        "Each state of a hypothesis is decoded from the stream (probe) and then moved there (patch); the change of the "
        "predictions is compared with that of the algorithm continued from the moved state. A pass takes R² 0.95 and "
        "a concordance of 0.9, or no effect where none is predicted."
    ]
    if traces:
        figure = draw(
            traces,
            {"title": "probe: held-out R²", "range": [-0.05, 1.05]},
            {"title": "patch: concordance", "range": [-1.05, 1.1]},
            hovermode="closest",
        )
        parts.append(
            Picture(
                figure,
                "What to see: an algorithm that is run has its states in the upper right corner. Points "
                "on the right and low are decodable but not used.",
                "Probe against patch",
                "mechanism",
            )
        )
    return Section("Inside", [*parts, Table.of(columns, rows, "mechanism")])


def _published(found: Identification) -> Section:
    rows = [(one.score, one.candidate, one.value) for one in found.similarities]
    if not rows:
        return Section("Published scores")
    text = (
        "The best match by published similarity scores, for comparison. These name an algorithm whatever the model is."
    )
    return Section(
        "Published scores", [text, Table.of({"score": "", "best match": "", "similarity": ".4f"}, rows, "published")]
    )
