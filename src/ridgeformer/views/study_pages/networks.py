"""Pages of the studies of networks and their kernels: condition numbers, distance to the kernel, loss surfaces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp

from ridgeformer.studies.condition_numbers import PUBLISHED, STAND_IN, nearest_joint_reading, times_away
from ridgeformer.studies.condition_numbers import make_cards as condition_cards
from ridgeformer.studies.ntk_distance import MODELS, SETTINGS
from ridgeformer.studies.ntk_distance import make_cards as distance_cards
from ridgeformer.studies.result_cards import CardVerdict, ResultCard
from ridgeformer.views.figures import PALETTE, draw, heat_map
from ridgeformer.views.parts import Page, Picture, Table
from ridgeformer.views.study_pages.shared import (
    Rows,
    cards_section,
    distinct,
    mean_curve,
    page,
    picture,
    section,
    seeds_of,
    where,
)

__all__ = ["condition_numbers_page", "loss_surface_page", "ntk_distance_page"]


def condition_numbers_page(rows: Rows, means: Rows) -> Page:
    """Return the page: for each dataset the interpretation nearest to the published number, then all of them."""
    cards = condition_cards(rows)
    names = list(dict.fromkeys(row["data"] for row in rows))
    by_data = {name: [card for card in cards if card.row.startswith(f"{name}, ")] for name in names}
    columns = {
        "data": "",
        "rows": ",",
        "preparation": "",
        "truncation": "",
        "directions": ".4g",
        "kappa of X X'": ".3g",
        "95 % interval": "",
    }
    table = Table.of(
        columns,
        [
            (
                row["data"],
                row["rows"],
                row["preparation"],
                row["truncation"],
                row["directions"],
                row["kappa"],
                "" if row["kappa_low"] is None else f"{max(1.0, row['kappa_low']):.3g} to {row['kappa_high']:.3g}",
            )
            for row in means
        ],
    )
    return page(
        "Condition numbers, under every interpretation",
        f"{', '.join(names)}; {max(row['seeds'] for row in means)} samples of each size",
        (*(_nearest(name, by_data[name]) for name in names), *_nearest_to_all(cards)),
        *(
            cards_section(f"{name}: every interpretation, the nearest first", sorted(by_data[name], key=times_away))
            for name in names
        ),
        section("Number of directions", "Means over samples; no entry where the number is not finite.", table),
    )


def _nearest(name: str, cards: Sequence[ResultCard]) -> str:
    nearest = min(cards, key=times_away)
    found = [card.ours for card in cards if card.ours]
    near = sum(card.verdict is CardVerdict.REPRODUCED for card in cards)
    whose = "published" if name in PUBLISHED else f"published for {STAND_IN}"
    return (
        f"{name}: {whose} is {nearest.published:.2g}. The whole interval of {near} of {len(cards)} interpretations "
        f"lies within a tenth of it; all run from {min(found):.2g} to {max(found):.2g}. The nearest mean is kappa of "
        f"{nearest.row.removeprefix(f'{name}, ')} with {nearest.choices['rows']} rows cut at "
        f"{nearest.choices['truncation']}: {nearest.ours:.3g}."
    )


def _nearest_to_all(cards: Sequence[ResultCard]) -> tuple[str, ...]:
    joint = nearest_joint_reading(cards)
    if joint is None:
        return ()
    (of, rows, truncation), distance, reproduced, total = joint
    return (
        f"The one interpretation nearest to both numbers is kappa of {of} with {rows} rows cut at {truncation}, within "
        f"a factor of {exp(distance):.2g}; {reproduced} of {total} interpretations reproduce both.",
    )


def ntk_distance_page(rows: Rows, means: Rows) -> Page:
    """Return the page: the verdict on the claim, its cards, and the other quantities that change with width."""
    cards = distance_cards(rows)
    dead, diverged = (sum(bool(row[name]) for row in rows) for name in ("dead", "diverged"))
    widths = distinct(rows, "width")
    return page(
        "Distance to the kernel predictor against width",
        f"{', '.join(distinct(rows, 'data'))}; widths {widths[0]:,} to {widths[-1]:,}; {seeds_of(rows)}",
        (*_directions(cards), f"{len(rows):,} networks were trained; {dead} are dead, {diverged} diverged."),
        cards_section(
            "Result cards",
            cards,
            (
                "The claim is that the distance falls with width for ReLU and rises for attention. The source "
                "leaves the training and the predictor open, so every interpretation has its card.",
            ),
        ),
        section(
            "Distances",
            "Means over seeds with 95 % intervals (Student's t).",
            *(_distances(means, data) for data in distinct(rows, "data")),
        ),
        section(
            "Movement of kernel and weights",
            "Kernel at initialisation against its limit (average entry and ridge-whitened), and the changes by "
            "training. A distance that rises while kernel and weights stay put is not the kernel regime lost.",
            _movement(means),
        ),
    )


def _directions(cards: Sequence[ResultCard]) -> Iterable[str]:
    """Yield for each network the number of interpretations under which its direction came out as published."""
    for name in MODELS.values():
        found = [card.verdict for card in cards if f", {name}: ln" in card.row]
        same = found.count(CardVerdict.REPRODUCED) + found.count(CardVerdict.SAME_DIRECTION)
        opposite = found.count(CardVerdict.OPPOSITE)
        yield (
            f"{name}: under {same} of {len(found)} interpretations the distance changes with width in the published "
            f"direction, under {opposite} in the opposite one; {len(found) - same - opposite} leave it open."
        )


def _distances(means: Rows, data: str) -> Picture:
    traces = [
        mean_curve(
            [row for row in where(means, data=data, setting=setting, model=model) if row["distance"]],
            "width",
            "distance",
            f"{MODELS[model]}, {setting}",
            colour,
            dash=dash,
            markers=True,
        )
        for setting, colour in zip(SETTINGS, PALETTE, strict=True)
        for model, dash in (("relu", "dot"), ("mlp-attn", "solid"))
    ]
    return picture(
        traces,
        {"title": "width m", "type": "log"},
        {"title": "distance of test outputs", "type": "log"},
        f"{data}. Solid: attention, dotted: ReLU; one colour an interpretation.",
        f"Distance to the kernel predictor against width on {data}.",
    )


def _movement(means: Rows) -> Table:
    values = ("frobenius_start", "whitened_start", "kernel_drift", "weight_movement", "test_error")
    names = ("distance", "relative", "average entry", "whitened", "kernel drift", "weight movement", "test error")
    order = list(SETTINGS)
    return Table.of(
        {"data": "", "network": "", "setting": "", "width": ","} | dict.fromkeys(names, ".3g"),
        [
            (
                row["data"],
                MODELS[row["model"]],
                row["setting"],
                row["width"],
                row["distance"],
                row[f"{SETTINGS[row['setting']].compared_with}_relative"],
                *(row[name] for name in values),
            )
            for row in sorted(means, key=lambda r: (r["data"], r["model"], order.index(r["setting"]), r["width"]))
        ],
    )


def loss_surface_page(rows: Rows, means: Rows) -> Page:
    """Return the page: a contour plot for each model and kind of directions, and the curvatures."""
    first, kinds, models = rows[0], distinct(rows, "directions"), list(dict.fromkeys(row["model"] for row in rows))
    surfaces = {(kind, model): where(means, directions=kind, model=model) for kind in kinds for model in models}
    reach = max(row["a"] for row in means)
    answer = []
    for kind in kinds:
        rises = [
            f"{model} from {where(surfaces[kind, model], a=0, b=0)[0]['height']:.3g} at the trained weights to "
            f"{max(row['height'] for row in surfaces[kind, model]):.3g}"
            for model in models
        ]
        answer.append(
            f"In {kind} directions, up to {reach:g} times the length of the weights, the loss rises: "
            f"{'; '.join(rises)}."
        )
    curvatures = Table.of(
        {"directions": "", "model": "", "in a": ".3g", "in b": ".3g"},
        [(*which, surface[0]["bend_a"], surface[0]["bend_b"]) for which, surface in surfaces.items()],
    )
    return page(
        "The loss surface around trained weights",
        f"{first['data']}; {first['rows']:,} training rows, width {first['width']:,}, {first['loss']}, "
        f"{first['epochs']} epochs, {seeds_of(rows)}",
        tuple(answer),
        section(
            "Two directions",
            "The training loss, mean over seeds, where the weights w are moved by a |w| u + b |w| v. "
            "Directions are orthonormal and not scaled neuron by neuron: random ones, or the two of largest "
            "curvature.",
            *(_contours(surface, kind, model) for (kind, model), surface in surfaces.items()),
        ),
        section("Second derivative of the loss at the trained weights", curvatures),
    )


def _contours(surface: Rows, kind: str, model: str) -> Picture:
    a, b = (distinct(surface, name) for name in ("a", "b"))
    height = {(row["a"], row["b"]): row["height"] for row in surface}
    trace = heat_map([[height[i, j] for i in a] for j in b], "training loss", signed=False, kind="contour", x=a, y=b)
    return Picture(
        draw([trace], "a", {"title": "b", "scaleanchor": "x"}),
        f"{model}, {kind} directions.",
        f"Contours of the training loss of {model} in {kind} directions.",
    )
