"""The audit in plain words: a few sentences made from the numbers, for someone who reads nothing else."""

from __future__ import annotations

from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.compiled import Compiled
from ridgeformer.auditing.convergence import TARGET, Convergence
from ridgeformer.auditing.field import FEW_ROWS, Field, Scored
from ridgeformer.auditing.kernel_regime import SMALL_ERROR, KernelRegime
from ridgeformer.auditing.malleability import Malleable
from ridgeformer.auditing.metrics import Metrics
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.words import number, one_part_in, percent, rate, show_score
from ridgeformer.datasets import Split
from ridgeformer.regime.answer import RegimeAnswer, influence_supported
from ridgeformer.regime.spectra import Spectra

__all__ = ["answer", "compare_in_words", "name_winner", "trained"]

SMALLEST_SHOWN = 5e-4
"""Differences of R² below this would be rounded to nothing, and are shown with an exponent."""


def answer(
    data: Split,
    field: Field,
    metrics: dict[str, Metrics],
    certified: Certified,
    spectra: Spectra,
    convergence: Convergence,
    compiled: tuple[Compiled, ...],
    regime: KernelRegime | Skipped,
    malleability: Malleable | Skipped,
    advice: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the sentences of the answer, most important first; the last says what to do."""
    return (
        name_winner(data, field, metrics),
        _trust(certified),
        _transformers(compiled),
        _size(spectra, convergence),
        _explanations(data, regime, malleability),
        f"What to do: {'; '.join(advice)}.",
    )


def compare_in_words(field: Field, one: Scored, other: Scored) -> str:
    """Return by how much one method is better or worse than another, with the interval and the evidence."""
    found = field.compare(one, other)
    points = field.task == "classification"
    unit, form = (100, "+.1f") if points else (1, "+.3f")
    if not points and 0 < abs(found.lead) < SMALLEST_SHOWN:
        form = "+.1e"
    what = " points" if points else " of R²"
    ends = (
        ""
        if found.low is None or found.high is None
        else f" (95 % interval {unit * found.low:{form}} to {unit * found.high:{form}}, all comparisons together)"
    )
    text = f"{unit * found.lead:{form}}{what}{ends}"
    if points and not field.balanced:
        text += (
            f"; it is right on {found.wins:,} rows where the other is wrong, and wrong on {found.losses:,} where the "
        )
        text += f"other is right (exact p = {found.p:.2g})"
    return text


def name_winner(data: Split, field: Field, metrics: dict[str, Metrics]) -> str:
    """Return the first sentence: who wins, by how much and with which interval, also when it is not us."""
    own, best, task = field.own, field.best, field.task
    ours = "regression with the kernel of attention"
    most = max(one.rows for one in field.scored)
    if own.rows < most:
        ours += f" (fitted to {own.rows:,} of the {most:,} training rows)"
    if not field.learnt:
        constant = field.of("constant")
        found = best if best is not constant else max(field.others, key=lambda one: one.test_score, default=own)
        why = compare_in_words(field, found, constant)
        said = "nobody" if len(field.rows) >= FEW_ROWS else "too few rows to tell"
        return (
            f"Who wins: {said}. On {_rows(field)} no method is better than a constant "
            f"({show_score(constant.test_score, task)}) beyond chance: {found.spoken} {found.reaches} "
            f"{show_score(found.test_score, task)}, {why}"
            + ("." if found is own else f"; {ours} reaches {show_score(own.test_score, task)}.")
        )
    others = [one for one in field.scored if one is not own]
    rival = max(others, key=lambda one: one.test_score)
    if best is own and field.unbeaten == (own,):
        lead = f"{ours} wins with {_score(own, field, metrics)} on {_rows(field)}, ahead of {rival.spoken}"
        return f"Who wins: {lead} ({show_score(rival.test_score, task)}): {compare_in_words(field, own, rival)}."
    if own in field.unbeaten:
        lead = f"no method is clearly better than {ours}, which reaches {_score(own, field, metrics)} on {_rows(field)}"
        return (
            f"Who wins: {lead}; {rival.spoken} {rival.reaches} {show_score(rival.test_score, task)}: "
            f"{compare_in_words(field, own, rival)}."
        )
    return (
        f"Who wins: {best.spoken}, with {_score(best, field, metrics)} on {_rows(field)}; {ours} reaches only "
        f"{_score(own, field, metrics)}: {compare_in_words(field, own, best)}."
    )


def _rows(field: Field) -> str:
    rows = f"{len(field.rows):,} held-out rows"
    return rows if field.splits == 1 else f"{rows} (each held out once, in {field.splits} splits)"


def _score(one: Scored, field: Field, metrics: dict[str, Metrics]) -> str:
    found = metrics[one.key]
    if field.task == "regression":
        return f"{show_score(one.test_score, 'regression')} (root mean square error {number(found.rmse or 0.0)})"
    if not field.balanced:
        return f"{100 * one.test_score:.1f} % right"
    rare = min((cls for cls in found.classes if cls.rows), key=lambda cls: cls.rows)
    called = f", {rare.found} of {rare.called} rows called it being right" if rare.called else ""
    return (
        f"a balanced accuracy of {100 * one.test_score:.1f} % (of {rare.rows} rows of the rare class {rare.name} it "
        f"finds {rare.found}{called})"
    )


def _trust(certified: Certified) -> str:
    size = certified.worst_bound / certified.typical_output if certified.typical_output > 0 else 0.0
    words = (
        f"How exact: it is proved that rounding moves no held-out prediction by more than {one_part_in(size)} of its "
        "usual size"
    )
    if certified.safe_decisions is None:
        return words + "."
    if certified.safe_decisions == 1.0:
        return words + ", so it changes no predicted class."
    return words + f"; that settles the predicted class for {100 * certified.safe_decisions:.1f} % of the rows."


def _transformers(compiled: tuple[Compiled, ...]) -> str:
    for model in compiled:
        if not model.certificate.holds:
            return f"As a transformer: compiled for {model.attention} attention. {model.certificate.verdict} See below."
    last = compiled[-1]
    if last.supports == last.training_rows:
        rows = f"all {last.supports:,} training rows of the fit"
    else:
        rows = (
            f"{last.supports:,} of the {last.training_rows:,} training rows; its answers are those of ridge regression "
            f"on these, up to {percent(last.from_fit or 0.0)} of a typical output away from the fit to all of them"
        )
    return (
        f"As a transformer: one of {last.budget.sublayers} layers, whose weights hold temperature, ridge and a bound "
        f"on the rows' lengths but no row and no target, reads {rows}. {last.certificate.verdict}"
    )


def _size(spectra: Spectra, convergence: Convergence) -> str:
    curve, slow = convergence.curves[0], convergence.curves[-1]
    steps = curve.steps_to_target
    most = len(curve.errors) - 1
    deep = f"{steps} rounds of layers bring" if steps is not None else f"more than {most} rounds of layers would bring"
    plain = str(slow.steps_to_target) if slow.steps_to_target is not None else f"more than {len(slow.errors) - 1}"
    rate = "" if convergence.bound_holds else " The theory's bound on the rounds is VIOLATED."
    return (
        f"How large: {deep} the error to {100 * TARGET:g} % (plain gradient descent: {plain}); a model that stored the "
        f"kernel's features would need {spectra.measured_10:,} of them for 10 %, and attention need not store "
        f"any.{rate}"
    )


def _explanations(data: Split, regime: KernelRegime | Skipped, malleability: Malleable | Skipped) -> str:
    return f"Explanations: {_describes(data, regime)}; {_robustness(malleability)}."


def trained(answer: RegimeAnswer) -> bool:
    """Return whether a network was trained to a small error, so that it says something about trained networks."""
    error = answer.measured.train_error
    return error is not None and error <= SMALL_ERROR


def _describes(data: Split, regime: KernelRegime | Skipped) -> str:
    if isinstance(regime, Skipped):
        return "whether they carry over to a trained network could not be measured here"
    last = regime.of("mlp-attn")
    good = sum(influence_supported(answer.measured) for answer in last)
    width = f"a trained network of {last[0].measured.width:,} neurons behind attention"
    short = [answer for answer in last if not trained(answer)]
    if short:
        worst = max(answer.measured.train_error or 0.0 for answer in short)
        left = (
            f"{percent(worst)} of its training rows wrong" if data.classes else f"{number(worst)} of the variance left"
        )
        return (
            f"whether they carry over to {width} is open: training did not reach a small error in {len(short)} of "
            f"{len(last)} draws (up to {left})"
        )
    if good == len(last):
        return f"they carry over to {width}"
    return f"they do not carry over to {width}" + (f" ({good} of {len(last)} draws)" if good else "")


def _robustness(malleability: Malleable | Skipped) -> str:
    if isinstance(malleability, Skipped):
        return "their robustness could not be measured here"
    model, size = malleability.models[0], malleability.sizes[0]
    found = {name: malleability.of(model, size, name) for name in ("adaptive", "noise")}
    cases = malleability.moved * malleability.queries
    shares = {name: rate(round(flips.mean * cases), cases) for name, flips in found.items() if flips is not None}
    return (
        f"with the most influential rows moved by {100 * size:.0f} % of a typical value, a targeted attack flips the "
        f"sign of {shares['adaptive']} of their influences and random noise of the same size flips {shares['noise']}"
    )
