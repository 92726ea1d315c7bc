"""Pages of the studies of networks and their kernels: condition numbers, distance to the kernel, loss surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from ridgeformer.studies.condition_numbers import PUBLISHED, STAND_IN, nearest_joint_reading, times_away
from ridgeformer.studies.condition_numbers import make_cards as condition_cards
from ridgeformer.studies.ntk_distance import MODELS, SETTINGS
from ridgeformer.studies.ntk_distance import make_cards as distance_cards
from ridgeformer.studies.result_cards import CardVerdict, ResultCard
from ridgeformer.views.figures import PALETTE, draw, heat_map
from ridgeformer.views.parts import Page, Picture, Section, Table
from ridgeformer.views.study_pages.shared import Rows, cards_section, distinct, mean_curve, picture, seeds_of, where

__all__ = ["condition_numbers_page", "loss_surface_page", "ntk_distance_page"]


CLAIM = (
    "The claim is that the distance falls with width for ReLU and rises for attention. The source leaves the training "
    "and the predictor open, so every interpretation has its card."
)


def condition_numbers_page(rows: Rows, means: Rows) -> Page:
    """Return the page: for each dataset the interpretation nearest to the published number, then all of them."""
    cards = condition_cards(rows)
    names = list(dict.fromkeys(row["data"] for row in rows))
    by_data = {name: [card for card in cards if card.row.startswith(f"{name}, ")] for name in names}
    answer = [_nearest(name, by_data[name]) for name in names]
    if joint := nearest_joint_reading(cards):
        (of, rows_used, truncation), distance, reproduced, total = joint
        answer.append(
            f"The one interpretation nearest to both numbers is kappa of {of} with {rows_used} rows cut at "
            f"{truncation}, within a factor of {exp(distance):.2g}; {reproduced} of {total} interpretations reproduce "
            "both."
        )
    columns = {"data": "", "rows": ",", "preparation": "", "truncation": "", "directions": ".4g", "kappa": ".3g"}
    body = []
    for row in means:
        low, high = row["kappa_low"], row["kappa_high"]
        interval = "" if low is None else f"{max(1.0, low):.3g} to {high:.3g}"
        body.append((*(row[name] for name in columns), interval))
    head = {name.replace("kappa", "kappa of X X'"): form for name, form in columns.items()} | {"95 % interval": ""}
    return Page.of(
        "Condition numbers, under every interpretation",
        f"{', '.join(names)}; {max(row['seeds'] for row in means)} samples of each size",
        answer,
        *(
            cards_section(f"{name}: every interpretation, the nearest first", sorted(by_data[name], key=times_away))
            for name in names
        ),
        Section.of(
            "Number of directions", "Means over samples; no entry where the number is not finite.", Table.of(head, body)
        ),
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


def ntk_distance_page(rows: Rows, means: Rows) -> Page:
    """Return the page: the verdict on the claim, its cards, and the other quantities that change with width."""
    cards = distance_cards(rows)
    dead, diverged = (sum(bool(row[name]) for row in rows) for name in ("dead", "diverged"))
    widths, answer = distinct(rows, "width"), []
    for name in MODELS.values():
        found = [card.verdict for card in cards if f", {name}: ln" in card.row]
        same = found.count(CardVerdict.REPRODUCED) + found.count(CardVerdict.SAME_DIRECTION)
        opposite = found.count(CardVerdict.OPPOSITE)
        answer.append(
            f"{name}: under {same} of {len(found)} interpretations the distance changes with width in the published "
            f"direction, under {opposite} in the opposite one; {len(found) - same - opposite} leave it open."
        )
    return Page.of(
        "Distance to the kernel predictor against width",
        f"{', '.join(distinct(rows, 'data'))}; widths {widths[0]:,} to {widths[-1]:,}; {seeds_of(rows)}",
        (*answer, f"{len(rows):,} networks were trained; {dead} are dead, {diverged} diverged."),
        cards_section("Result cards", cards, (CLAIM,)),
        Section.of(
            "Distances",
            "Means over seeds with 95 % intervals (Student's t).",
            *(_distances(means, data) for data in distinct(rows, "data")),
        ),
        Section.of(
            "Movement of kernel and weights",
            "Kernel at initialisation against its limit (average entry and ridge-whitened), and the changes by "
            "training. A distance that rises while kernel and weights stay put is not the kernel regime lost.",
            _movement(means),
        ),
    )


def _distances(means: Rows, data: str) -> Picture:
    traces = []
    for setting, colour in zip(SETTINGS, PALETTE, strict=True):
        for model, dash in (("relu", "dot"), ("mlp-attn", "solid")):
            found = [row for row in where(means, data=data, setting=setting, model=model) if row["distance"]]
            name = f"{MODELS[model]}, {setting}"
            traces.append(mean_curve(found, "width", "distance", name, colour, dash=dash, markers=True))
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
    body = []
    for row in sorted(means, key=lambda r: (r["data"], r["model"], order.index(r["setting"]), r["width"])):
        relative = row[f"{SETTINGS[row['setting']].compared_with}_relative"]
        which = row["data"], MODELS[row["model"]], row["setting"], row["width"]
        body.append((*which, row["distance"], relative, *(row[name] for name in values)))
    return Table.of({"data": "", "network": "", "setting": "", "width": ","} | dict.fromkeys(names, ".3g"), body)


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
    return Page.of(
        "The loss surface around trained weights",
        f"{first['data']}; {first['rows']:,} training rows, width {first['width']:,}, {first['loss']}, "
        f"{first['epochs']} epochs, {seeds_of(rows)}",
        tuple(answer),
        Section.of(
            "Two directions",
            "The training loss, mean over seeds, where the weights w are moved by a |w| u + b |w| v. "
            "Directions are orthonormal and not scaled neuron by neuron: random ones, or the two of largest "
            "curvature.",
            *(_contours(surface, kind, model) for (kind, model), surface in surfaces.items()),
        ),
        Section.of("Second derivative of the loss at the trained weights", curvatures),
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
