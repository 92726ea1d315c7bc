"""The page of the malleability study: flip rates beside their controls, result cards, and what decides the gap."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ridgeformer.core.statistics import mean_interval, rate_interval
from ridgeformer.influence.malleable import FLIPS, FLIPS_AFTER_ADVERSARIAL_TRAINING
from ridgeformer.studies.result_cards import ResultCard, cards_section, make_card
from ridgeformer.studies.task import as_json
from ridgeformer.views import PALETTE, Page, Picture, Section, Table, styled

__all__ = ["gaps", "make_cards", "make_page"]

Rows = list[dict[str, Any]]

STANDS_FOR = {"digits": "mnist"}
"""Small data in place of the published ones; the cards say so."""

POINT = (
    "data", "classes", "rows", "test_rows", "attack", "eps", "units", "clip", "preprocessing", "ridge", "kernel",
    "width", "context", "score", "rounds",
)  # fmt: skip
CHOICES = ("eps", "units", "clip", "preprocessing", "ridge", "kernel", "width", "context", "score")


def make_page(rows: Rows, means: Rows) -> Page:
    """Return the page; the centre is the point from which most others differ in one choice."""
    centre = _centre(rows)
    first = rows[0]
    return Page(
        "Malleability: do attacked training points change the sign of their influence?",
        f"{', '.join(sorted({row['data'] for row in rows}))}; {first['rows']:,} training rows, {first['test_rows']:,} "
        f"queries, the top tenth attacked, {len({row['seed'] for row in rows})} seeds",
        _answer(rows, centre),
        (
            cards_section("The published tables", make_cards(rows, centre), _stand_ins(rows)),
            Section("Flip rates beside their companions", _COMPANIONS, _companions(rows, means)),
            Section("No attack at all: the network drawn again", _NULL, pictures=(_null_picture(means, centre),)),
            Section("Which choices decide the gap", _ABLATION, _ablation(rows, centre)),
        ),
    )


_COMPANIONS = (
    "Per cent of the attacked points whose influence, averaged over queries, changed sign. Beside the attack: random "
    "signs of the same size; nothing but the network's initialisation drawn again; the same attack aimed at the "
    "influence itself. Then the attack's flips over all training points and over single pairs of point and query, "
    "Spearman's rank correlation and the overlap of the top sets. eps is given in the units of the attack and of unit "
    "rows, the ridge over tr(K)/n. Brackets are 95 % intervals: Student's t over seeds, and no narrower than the exact "
    "interval of all attacked points counted together.",
)
_NULL = (
    "The kernel of a network of finite width is a random draw. What changes sign when it is drawn again, with nobody "
    "attacking, is sampling noise of the kernel; a flip rate at or below it is no evidence of malleability.",
)
_ABLATION = (
    "Attention's flips minus ReLU's, in percentage points, paired by seed, with one choice changed at a time. The gap "
    "of the null is the same difference with no attack at all.",
)


def _stand_ins(rows: Rows) -> list[str]:
    """Return a warning for every dataset that stands in for a published one."""
    return [
        f"{name} stands in for {STANDS_FOR[name]} here: these verdicts are about the protocol on {name}, and no "
        f"reproduction of the published number."
        for name in sorted({row["data"] for row in rows} & STANDS_FOR.keys())
    ]


def make_cards(rows: Rows, centre: Mapping[str, Any]) -> list[ResultCard]:
    """Return a card for every published number that was measured, and one for every published gap."""
    cards: list[ResultCard] = []
    for point in _points(rows):
        if any(point[name] != centre[name] for name in CHOICES):
            continue
        published = _published(point)
        if published is None:
            continue
        source = STANDS_FOR.get(point["data"], point["data"])
        table = f"flips, {source}, {_classes(point)}, {point['attack'].upper()}"
        table += f", after adversarial training, rounds: {point['rounds']}" if point["rounds"] else ""
        choices = {"data": point["data"]} | {name: str(point[name]) for name in ("rows", *CHOICES)}
        drawn = {model: _values(rows, point, model, "attack_flips_top") for model in ("relu", "attention")}
        for (model, values), number in zip(drawn.items(), published, strict=True):
            percent = [100 * value for value in values]
            interval = partial(_percent_interval, cases=_attacked(rows, point))
            cards.append(make_card(table, f"{model}, %", number, percent, choices, neutral=None, interval=interval))
        gap = [100 * (a - r) for r, a in zip(*drawn.values(), strict=True)]
        cards.append(make_card(table, "attention - relu", published[1] - published[0], gap, choices))
    return cards


def gaps(rows: Rows, point: Mapping[str, Any], column: str) -> tuple[float, float | None, float | None]:
    """Return the mean over seeds of attention minus ReLU in percentage points, and its interval."""
    pairs = zip(_values(rows, point, "attention", column), _values(rows, point, "relu", column), strict=True)
    drawn = np.array([100 * (a - r) for a, r in pairs], dtype=np.float64)
    return float(drawn.mean()) if drawn.size else float("nan"), *mean_interval(drawn)


def _answer(rows: Rows, centre: Mapping[str, Any]) -> tuple[str, ...]:
    attack, null = gaps(rows, centre, "attack_flips_top"), gaps(rows, centre, "redrawn_flips_top")
    rates = {
        (name, model): 100 * float(np.mean(_values(rows, centre, model, f"{name}_flips_top")))
        for name in ("attack", "noise", "redrawn", "adaptive") for model in ("attention", "relu")
    }  # fmt: skip
    departures = _departures(rows, centre)
    unlike = [name for name, point in departures if _sign(gaps(rows, point, "attack_flips_top")) != _sign(attack)]
    return (
        f"{centre['attack'].upper()} of eps {centre['eps']:g} ({centre['units']} units) changed the sign of "
        f"{rates['attack', 'attention']:.0f} % of attention's top influences and of {rates['attack', 'relu']:.0f} % of "
        f"ReLU's: a gap of {_show(attack)} points. Random signs of the same size: "
        f"{rates['noise', 'attention']:.0f} % and {rates['noise', 'relu']:.0f} %; the attack aimed at the influence "
        f"itself: {rates['adaptive', 'attention']:.0f} % and {rates['adaptive', 'relu']:.0f} %.",
        f"With no attack, only the network of width {centre['width']:,} drawn again, it is "
        f"{rates['redrawn', 'attention']:.0f} % and {rates['redrawn', 'relu']:.0f} %: a gap of {_show(null)} points "
        "that is sampling noise of the kernel, not malleability.",
        f"Of {len(departures)} departures from these choices {len(unlike)} leave the sign of the gap open or turn it "
        f"round: {'; '.join(unlike) or 'none'}.",
        *(_clipped(rows, point) for name, point in departures if name == "clip range"),
    )


def _clipped(rows: Rows, point: Mapping[str, Any]) -> str:
    """Say what is left when no moved entry may leave the range of the data."""
    rate = {
        (name, model): f"{100 * float(np.mean(_values(rows, point, model, f'{name}_flips_top'))):.0f} %"
        for name in ("attack", "noise") for model in ("attention", "relu")
    }  # fmt: skip
    return (
        f"With moved rows clipped to the data's range, the attack flips {rate['attack', 'attention']} of attention's "
        f"and {rate['attack', 'relu']} of ReLU's top influences, random signs {rate['noise', 'attention']} and "
        f"{rate['noise', 'relu']}."
    )


def _companions(rows: Rows, means: Rows) -> Table:
    head = (
        "task", "attack", "eps (unit rows)", "clip", "kernel", "ridge", "model", "attacked", "random signs",
        "drawn again", "adaptive", "all points", "pairs", "Spearman", "overlap",
    )  # fmt: skip
    body = []
    for row in means:
        scale = row["length"] if row["units"] == "pixel" else 1.0
        kernel = row["kernel"] if row["kernel"] == "infinite" else f"{row['kernel']}, {row['width']}"
        body.append(
            (
                f"{row['data']}, {_classes(row)}", _attack(row),
                f"{row['eps']:g} {row['units']} ({row['eps'] / scale:.2g})", row["clip"], kernel, f"{row['ridge']:g}",
                row["model"],
                *(_rate(rows, row, f"{name}_flips_top") for name in ("attack", "noise", "redrawn", "adaptive")),
                _rate(rows, row, "attack_flips_all"), _rate(rows, row, "attack_pair_flips_top"),
                f"{row['attack_spearman']:.2f}", f"{row['attack_overlap']:.2f}",
            )
        )  # fmt: skip
    return Table(head, tuple(body))


def _null_picture(means: Rows, centre: Mapping[str, Any]) -> Picture:
    figure = go.Figure()
    fixed = [name for name in POINT if name not in ("width", "ridge")]
    drawn = [row for row in means if all(row[name] == centre[name] for name in fixed)]
    ridges = sorted({row["ridge"] for row in drawn})
    for model, dash in (("attention", "solid"), ("relu", "dot")):
        for ridge, colour in zip(ridges, PALETTE * len(ridges), strict=False):
            curve = sorted(
                (row for row in drawn if (row["model"], row["ridge"]) == (model, ridge)), key=lambda row: row["width"]
            )
            figure.add_scatter(
                x=[row["width"] for row in curve], y=[100 * row["redrawn_flips_top"] for row in curve],
                name=f"{model}, ridge {ridge:g}", mode="lines+markers", line={"color": colour, "dash": dash},
            )  # fmt: skip
    figure.update_xaxes(title="width of the network", type="log")
    figure.update_yaxes(title="% of the top points that changed sign", rangemode="tozero")
    caption = "Solid attention, dotted ReLU, without any attack: what a wide enough network or a larger ridge removes."
    return Picture(styled(figure), caption, "Flips by another initialisation against width, for several ridges.")


def _ablation(rows: Rows, centre: Mapping[str, Any]) -> Table:
    listed = [("as chosen", centre), *_departures(rows, centre)]
    body = tuple(
        (
            name,
            _show(gaps(rows, point, "attack_flips_top")),
            _show(gaps(rows, point, "attack_pair_flips_top")),
            _show(gaps(rows, point, "redrawn_flips_top")),
            _show(gaps(rows, point, "adaptive_flips_top")),
            {1: "attention more", -1: "ReLU more", 0: "open"}[_sign(gaps(rows, point, "attack_flips_top"))],
        )
        for name, point in listed
    )
    return Table(("changed", "gap", "gap over pairs", "gap of the null", "gap, adaptive", "says"), body)


def _departures(rows: Rows, centre: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the points that differ from the centre in one choice or in the classes, with that as their name."""
    found = []
    for point in _points(rows):
        unlike = [name for name in POINT if point[name] != centre[name]]
        if len(unlike) == 1:
            found.append((f"{unlike[0]} {point[unlike[0]]}", point))
    return found


def _points(rows: Rows) -> list[dict[str, Any]]:
    return list({as_json([row[name] for name in POINT]): {name: row[name] for name in POINT} for row in rows}.values())


def _centre(rows: Rows) -> dict[str, Any]:
    """Return the point with the most neighbours that differ from it in one choice."""
    points = _points(rows)

    def neighbours(point: Mapping[str, Any]) -> int:
        return sum(sum(other[name] != point[name] for name in POINT) == 1 for other in points)

    return max(points, key=neighbours)


def _values(rows: Rows, point: Mapping[str, Any], model: str, column: str) -> list[float]:
    chosen = [row for row in rows if row["model"] == model and all(row[name] == point[name] for name in POINT)]
    ordered = sorted(chosen, key=lambda row: row["seed"])
    return [float(row[column]) for row in ordered if row[column] is not None]


def _published(point: Mapping[str, Any]) -> tuple[float, float] | None:
    source = STANDS_FOR.get(point["data"], point["data"])
    if point["rounds"]:
        return (
            FLIPS_AFTER_ADVERSARIAL_TRAINING.get(source)
            if (point["classes"], point["attack"]) == ("all", "pgd")
            else None
        )
    return FLIPS.get((source, point["classes"]), {}).get(point["attack"])


def _attack(point: Mapping[str, Any]) -> str:
    return point["attack"] + (f", adversarial training, {point['rounds']} rounds" if point["rounds"] else "")


def _classes(point: Mapping[str, Any]) -> str:
    return "all classes" if point["classes"] == "all" else point["classes"].replace(",", " v ")


def _sign(gap: tuple[float, float | None, float | None]) -> int:
    """Return the sign of a gap whose interval excludes zero, else 0."""
    low, high = gap[1], gap[2]
    if low is None or high is None:
        return 0
    return int(low > 0) - int(high < 0)


def _show(gap: tuple[float, float | None, float | None]) -> str:
    if gap[0] != gap[0]:
        return "none"
    return f"{gap[0]:+.0f}" + ("" if gap[1] is None or gap[2] is None else f" [{gap[1]:+.0f}, {gap[2]:+.0f}]")


def _rate(rows: Rows, row: Mapping[str, Any], column: str) -> str:
    if row[column] is None:
        return "none"
    cases = {"flips_all": row["rows"], "pair_flips_top": _attacked(rows, row) * row["test_rows"]}
    drawn = _values(rows, row, row["model"], column)
    low, high = rate_interval(drawn, cases.get(column.removeprefix("attack_"), _attacked(rows, row)))
    return f"{100 * row[column]:.0f}" + ("" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]")


def _attacked(rows: Rows, point: Mapping[str, Any]) -> int:
    """Return how many training points were attacked, the same in every draw."""
    return int(next(row["attacked"] for row in rows if all(row[name] == point[name] for name in POINT)))


def _percent_interval(percent: NDArray[np.float64], cases: int) -> tuple[float | None, float | None]:
    low, high = rate_interval(percent / 100, cases)
    return (None, None) if low is None or high is None else (100 * low, 100 * high)
