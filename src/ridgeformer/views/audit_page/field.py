"""The field on the page of an audit: who wins, what kind of errors are made, what drives them, how to repeat it."""

from __future__ import annotations

from functools import partial
from html import escape

from ridgeformer.auditing import Audit
from ridgeformer.auditing.answer import compare_in_words
from ridgeformer.auditing.drivers import Dependence
from ridgeformer.auditing.field import TUNED_ROWS
from ridgeformer.auditing.rivals import CENTRES
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import count, listed, number, percent, show_score
from ridgeformer.views.figures import GREY, PALETTE, Figure, bars, broken, curve, draw
from ridgeformer.views.parts import Form, Fragment, Part, Picture, Section, Strip, Table, thumbnail

__all__ = ["drivers_section", "errors_section", "fits_figure", "fits_section", "labels_section", "reproduce_section"]

MOST_CLASSES, MOST_BARS, MOST_SUSPECTS = 12, 15, 12


# -- who wins --------------------------------------------------------------------------------------


def fits_section(audit: Audit) -> Section:
    """Return the section on all methods and on the certificate."""
    certified, field = audit.certified, audit.field
    safe = certified.safe_decisions
    decisions = "" if safe is None else f" For {100 * safe:.1f} % of the rows this settles the predicted class."
    score = partial(show_score, task=field.task)
    columns: dict[str, Form] = {"method": "", "what it is": "", "held out": score, "training": score}
    columns |= {"training rows": ",", "chosen": "", "settings tried": ","}
    columns |= {"against the kernel of attention": ""}
    rows = [
        (
            f"{one.name} (on the edge of its grid)" if one.on_edge else one.name, one.what, one.test_score,
            one.train_score, one.rows, _choice(one.choices[0]), one.tried,
            "" if one is field.own else compare_in_words(field, one, field.own).partition(";")[0],
        )
        for one in field.scored
    ]  # fmt: skip
    rows_used = (
        f"In {field.splits} splits every row was held out once." if field.splits > 1 else "One part was held out."
    )
    counts = "Classes are imbalanced, so each counts alike: scores are balanced accuracies." if field.balanced else ""
    return Section(
        "Who wins",
        (
            f"{rows_used} {counts} Every method was tuned by one rule and one budget on the training rows: the same "
            f"folds, the same loss, and at most {audit.settings.tries} settings, first on a grid, then beyond its edge "
            "where the choice lies on it, else around the choice. Held-out rows played no part. Features were encoded "
            "alike for all, with statistics of the training rows.",
            *_rows_used(audit),
            Picture(
                fits_figure(audit),
                _fits_caption(audit),
                "Bars: the score of each method on held-out rows, with 95 % intervals.",
                "fits",
            ),
            Table.of(columns, rows, "fits"),
            f"The certificate: {certified.fit.advice} On held-out rows the prediction is proved to be within "
            f"{certified.worst_bound:.1e} of the exact solution's, where outputs have the typical size "
            f"{certified.typical_output:.2g}.{decisions} This says nothing about noise in the data, only that the "
            "numbers are those of the method.",
        ),
        anchor="fit",
    )


def _rows_used(audit: Audit) -> list[str]:
    """Say which methods saw which rows, one line each where not all saw the same."""
    if audit.wide is None:
        return []
    field, every = audit.field, len(audit.wide.X)
    sampled = [one.spoken for one in field.scored if one.rows < every]
    others = [one.spoken for one in field.scored if one.rows == every and one.key != "centres"]
    lines = [
        f"Fitted to a sample of {field.own.rows:,} training rows, because a direct solution takes the cube of their "
        f"number: {listed(sampled)}.",
        f"Fitted to all {every:,} training rows: {listed(others)}.",
    ]
    if any(one.key == "centres" for one in field.scored):
        lines.append(
            f"{field.of('centres').name}: all {every:,} rows too, with coefficients on {CENTRES:,} of them only."
        )
    if every > TUNED_ROWS:
        lines.append(
            f"Settings of the methods fitted to all rows were chosen on {TUNED_ROWS:,} of them. The held-out rows, "
            f"{len(field.rows):,}, are the same for all."
        )
    return lines


def _choice(choice: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in choice.items())


def fits_figure(audit: Audit) -> Figure:
    """Return the held-out scores as bars, the certified fit on top."""
    fits, task = audit.fits[::-1], audit.field.task
    scale = 100 if task == "classification" else 1
    ends = tuple([scale * fit.interval[end] for fit in fits] for end in (0, 1))
    trace = bars(
        [scale * fit.test_score for fit in fits],
        [broken(fit.name, 18) for fit in fits],
        "held-out score",
        [PALETTE[0] if fit is audit.field.own else GREY for fit in fits],
        whiskers=(ends[0], ends[1]),
        text=[show_score(fit.test_score, task) for fit in fits],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
    )
    what = "balanced accuracy" if audit.field.balanced else "accuracy"
    unit = f"held-out {what}, %" if scale == 100 else "R² on held-out rows"
    y = {"automargin": True, "tickfont": {"size": 11}}
    return draw([trace], unit, y, height=60 * len(fits) + 80, showlegend=False, hovermode="closest")


def _fits_caption(audit: Audit) -> str:
    field = audit.field
    names = [one.name for one in field.unbeaten]
    verdict = f"no method is significantly better than {listed(names)}" if names else ""
    return (
        f"What to see: {field.best.name} has the highest score, {show_score(field.best.test_score, field.task)}, and "
        f"{verdict}. Whiskers are 95 % intervals of each score; differences are tested row by row, which is sharper."
    )


# -- errors ----------------------------------------------------------------------------------------


def errors_section(audit: Audit) -> Section:
    """Return the section on the errors of the certified fit and of the best method."""
    field, target = audit.field, audit.data.dataset.target
    shown = [(field.of(key).name, found) for key, found in audit.metrics.items()]
    if field.task == "regression":
        columns: dict[str, Form] = {"method": "", "R²": ".3f"}
        columns |= {f"root mean square error of {target}": number, f"mean absolute error of {target}": number}
        table = Table.of(columns, [(name, one.r2, one.rmse, one.mae) for name, one in shown], "errors")
        own = shown[0][1]
        said = f"Predictions of {target} are off by {number(own.mae or 0.0)} on average, in its own unit."
        return Section("What errors are made", (said, table), anchor="errors")
    names = ("accuracy", "balanced accuracy", "area under the ROC curve", "calibration error")
    rows = [(name, one.accuracy, one.balanced_accuracy, one.auc, one.calibration_error) for name, one in shown]
    own = shown[0][1]
    by_class = [(cls.name, cls.rows, cls.recall, cls.precision) for cls in own.classes]
    parts: list[Part] = [
        "Balanced accuracy is the mean over classes of the fraction found. The calibration error is the mean distance "
        "between the probability given and the fraction right; least-squares outputs are no calibrated probabilities.",
        Table.of({"method": "", **dict.fromkeys(names, _score)}, rows, "metrics"),
        "Of the kernel of attention, class by class: how many of its rows are found (recall), and how many of the rows "
        "called it are right (precision).",
        Table.of({"class": "", "held-out rows": ",", "recall": percent, "precision": percent}, by_class, "classes"),
    ]
    if len(own.classes) <= MOST_CLASSES:
        heads = {"class": "", **{f"called {cls.name}": "," for cls in own.classes}}
        confusion = [(cls.name, *row) for cls, row in zip(own.classes, own.confusion, strict=True)]
        parts.append(Table.of(heads, confusion, "confusion"))
    return Section("What errors are made", parts, anchor="errors")


def _score(value: float) -> str:
    return f"{value:.3f}"


# -- drivers ---------------------------------------------------------------------------------------


def drivers_section(audit: Audit) -> Section:
    """Return the section on the columns that matter."""
    found = audit.drivers
    if isinstance(found, Skipped):
        return Section("What drives it", (f"Not measured: {found.reason}",), anchor="drivers")
    unit = 100 if audit.field.task == "classification" else 1
    what = "points of accuracy" if unit == 100 else "R²"
    top = found.drivers[:MOST_BARS][::-1]
    ends = ([unit * (one.low if one.low is not None else one.loss) for one in top],
            [unit * (one.high if one.high is not None else one.loss) for one in top])  # fmt: skip
    trace = bars([unit * one.loss for one in top], [broken(one.name, 18) for one in top], "loss", whiskers=ends)
    sure = [one.name for one in found.drivers if one.low is not None and one.low > 0]
    said = f"{count(len(sure), 'column')} of {len(found.drivers)} matter beyond chance"
    first = found.drivers[0]
    y = {"automargin": True, "tickfont": {"size": 11}}
    columns: dict[str, Form] = {"column": "", f"{what} lost": ".3f", "from": ".3f", "to": ".3f"}
    rows = [(one.name, unit * one.loss, unit * (one.low or 0.0), unit * (one.high or 0.0)) for one in found.drivers]
    return Section(
        "What drives it",
        (
            "Each column of the held-out rows was shuffled five times; what the score of the certified fit loses is "
            "the column's importance. Columns that say the same share it.",
            Picture(
                draw([trace], f"{what} lost", y, height=32 * len(top) + 110, showlegend=False, hovermode="closest"),
                f"What to see: {said} (95 % interval above 0). Without {first.name} the score loses "
                f"{unit * first.loss:.3g} {what}.",
                "Bars: what the score loses when each column is shuffled, with 95 % intervals.",
                "drivers",
            ),
            *(_dependence(one, number_of) for number_of, one in enumerate(found.dependence, 1)),
            Table.of(columns, rows, "drivers"),
        ),
        anchor="drivers",
    )


def _dependence(one: Dependence, number_of: int) -> Picture:
    values = one.values if one.numeric else [broken(str(value), 18) for value in one.values]
    low, high = min(one.effect), max(one.effect)
    return Picture(
        draw(
            [curve(values, one.effect, one.output, markers=True)],
            one.name,
            {"title": broken(f"mean prediction of {one.output}", 30), "automargin": True},
            height=320,
            showlegend=False,
        ),
        f"What to see: as {one.name} alone changes, the mean prediction of {one.output} goes from {number(low)} to "
        f"{number(high)}. It is what the fit does, not what would happen if someone changed {one.name}.",
        f"Mean prediction of {one.output} against {one.name}.",
        f"dependence_{number_of}",
    )


# -- labels and repetition -------------------------------------------------------------------------


def labels_section(audit: Audit) -> Section:
    """Return the section on training rows whose target the others contradict."""
    found, dataset = audit.suspects, audit.data.dataset
    if isinstance(found, Skipped):
        return Section("Labels to check", (f"Not measured: {found.reason}",), anchor="labels")
    parts: list[Part] = [*found.sentences]
    if found.points:
        columns: dict[str, Form] = {"row": "", "it says": "", "the others say": "", "by": ".3g"}
        if dataset.image_shape is not None:
            worst = found.points[:MOST_SUSPECTS]
            images = tuple(
                thumbnail(dataset, one.row, f"row {one.row}", f"{one.label}, or {one.predicted}?") for one in worst
            )
            caption = f"What to see: the {len(images)} rows contradicted most, with their label and the one predicted."
            parts.append(Strip(images, caption, "suspects"))
        rows = [(f"row {one.row}", one.label, one.predicted, one.margin) for one in found.points]
        parts.append(Table.of(columns, rows, "suspects"))
        parts.append("A contradicted label may be right and only unusual: look at the row before changing it.")
    return Section("Labels to check", parts, anchor="labels")


def reproduce_section(audit: Audit) -> Section:
    """Return the section with the lines that reproduce the score."""
    style = "overflow-x:auto;font:12px/1.5 ui-monospace,monospace;padding:.8em;border:1px solid var(--line)"
    code = f'<pre tabindex="0" role="region" aria-label="Code" style="{style}">{escape(audit.snippet)}</pre>'
    return Section(
        "Repeat it",
        (
            f"These lines load the data, hold out the same rows, fit the same scikit-learn pipeline and print "
            f"{audit.field.own.test_score:.6f}, the score of the kernel of attention above.",
            Fragment(code),
        ),
        anchor="repeat",
    )
