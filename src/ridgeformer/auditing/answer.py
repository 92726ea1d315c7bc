"""The audit in plain words: five sentences made from the numbers, for someone who reads nothing else."""

from __future__ import annotations

from ridgeformer.auditing.compiled import Compiled
from ridgeformer.auditing.convergence import TARGET, Convergence
from ridgeformer.auditing.fits import Certified, Scored
from ridgeformer.auditing.kernel_regime import KernelRegime
from ridgeformer.auditing.malleability import Malleable
from ridgeformer.auditing.settings import Skipped
from ridgeformer.core.statistics import Paired
from ridgeformer.core.words import one_part_in, show_score
from ridgeformer.datasets import Split
from ridgeformer.regime.answer import influence_supported
from ridgeformer.regime.spectra import Spectra

__all__ = ["answer", "best_baseline", "describe_comparison"]


def best_baseline(baselines: tuple[Scored, ...]) -> Scored:
    """Return the baseline with the best score on the held-out rows."""
    return max(baselines, key=lambda fit: fit.test_score)


def describe_comparison(found: Paired, task: str) -> str:
    """Return the evidence for one method against another on the same rows: counts for classes, else an interval.

    Example:
        >>> describe_comparison(Paired(0.01, 0.0, 0.02, wins=4, losses=0, p=0.125), "classification")
        'it is right on 4 rows where the other is wrong, and wrong on 0 where the other is right (exact p = 0.12)'
    """
    if task == "classification":
        return (
            f"it is right on {found.wins:,} rows where the other is wrong, and wrong on {found.losses:,} where the "
            f"other is right (exact p = {found.p:.2g})"
        )
    ends = "" if found.low is None else f", 95 % interval {found.low:+.3f} to {found.high:+.3f}"
    return f"R² differs by {found.lead:+.3f}{ends}"


def answer(
    data: Split,
    certified: Certified,
    baselines: tuple[Scored, ...],
    spectra: Spectra,
    convergence: Convergence,
    compiled: tuple[Compiled, ...],
    regime: KernelRegime | Skipped,
    malleability: Malleable | Skipped,
) -> tuple[str, ...]:
    """Return the five sentences of the answer, most important first."""
    return (
        _quality(data, certified, baselines),
        _trust(certified),
        _transformers(compiled),
        _size(spectra, convergence),
        _explanations(regime, malleability),
    )


def _quality(data: Split, certified: Certified, baselines: tuple[Scored, ...]) -> str:
    task, best = data.dataset.task, best_baseline(baselines)
    own, other = (show_score(fit.test_score, task) for fit in (certified.scored, best))
    found = certified.scored.compare(best)
    if found.significant:
        compare = "better than" if found.lead > 0 else "WORSE than"
    else:
        compare = "statistically no different from"
    rows = f"{len(data.Xt):,} held-out rows"
    did = f"gets {own} of {rows} right" if task == "classification" else f"reaches {own} on {rows}"
    return (
        f"How good: regression with the kernel of attention {did}, {compare} the best simpler method ({best.name}, "
        f"{other}): {describe_comparison(found, task)}."
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
    return (
        f"As a transformer: one of {last.budget.sublayers} layers, whose weights know nothing of the data, reads "
        f"{last.supports} labelled rows. {last.certificate.verdict}"
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


def _explanations(regime: KernelRegime | Skipped, malleability: Malleable | Skipped) -> str:
    return f"Explanations: {_describes(regime)}; {_robustness(malleability)}."


def _describes(regime: KernelRegime | Skipped) -> str:
    if isinstance(regime, Skipped):
        return "whether they carry over to a trained network could not be measured here"
    last = regime.of("mlp-attn")
    good = sum(influence_supported(answer.measured) for answer in last)
    width = f"a trained network of {last[0].measured.width:,} neurons behind attention"
    if good == len(last):
        return f"they carry over to {width}"
    return f"they do not carry over to {width}" + (f" ({good} of {len(last)} draws)" if good else "")


def _robustness(malleability: Malleable | Skipped) -> str:
    if isinstance(malleability, Skipped):
        return "their robustness could not be measured here"
    model, size = malleability.models[0], malleability.sizes[0]
    found = {name: malleability.of(model, size, name) for name in ("adaptive", "noise")}
    shares = {name: f"{100 * flips.mean:.0f} %" for name, flips in found.items() if flips is not None}
    return (
        f"with the most influential rows moved by {100 * size:.0f} % of a typical value, a targeted attack flips the "
        f"sign of {shares['adaptive']} of their influences and random noise of the same size flips {shares['noise']}"
    )
