"""The audit in plain words: sentences made from the numbers, for someone who reads nothing else."""

from __future__ import annotations

from ridgeformer.audit.compiled import Compiled
from ridgeformer.audit.convergence import TARGET, Convergence
from ridgeformer.audit.fits import Certified, Fit
from ridgeformer.audit.prepare import Prepared
from ridgeformer.audit.spectra import Spectra

__all__ = ["answer", "show_score"]


def show_score(score: float, task: str) -> str:
    """Return a score as a person reads it.

    Example:
        >>> show_score(0.981, "classification"), show_score(0.481, "regression")
        ('98.1 %', 'R² 0.481')
    """
    return f"{100 * score:.1f} %" if task == "classification" else f"R² {score:.3f}"


def answer(
    data: Prepared,
    certified: Certified,
    baselines: tuple[Fit, ...],
    spectra: Spectra,
    convergence: Convergence,
    compiled: tuple[Compiled, ...],
) -> tuple[str, ...]:
    """Return the sentences of the answer, most important first."""
    return (
        _quality(data, certified, baselines),
        _trust(certified),
        _width(spectra),
        _depth(convergence),
        _transformers(compiled),
    )


def _quality(data: Prepared, certified: Certified, baselines: tuple[Fit, ...]) -> str:
    task = data.dataset.task
    own = certified.fit.test_score
    best = max(baselines, key=lambda fit: fit.test_score)
    verb = "beats" if own > best.test_score else "equals" if own == best.test_score else "is behind"
    rest = ", ".join(f"{fit.name} {show_score(fit.test_score, task)}" for fit in baselines)
    did = "classifies {} of the held-out rows correctly" if task == "classification" else "reaches {} on held-out rows"
    return f"Attention as kernel regression {did.format(show_score(own, task))} and {verb} the best baseline ({rest})."


def _trust(certified: Certified) -> str:
    words = f"Every held-out prediction is proved to be within {certified.worst_bound:.1e} of the exact solution's"
    if certified.typical_output > 0:
        words += f" ({certified.worst_bound / certified.typical_output:.1e} of a typical output)"
    if certified.safe_decisions is None:
        return words + "."
    if certified.safe_decisions == 1.0:
        return words + ", so no rounding error changes any predicted class."
    return words + f"; {100 * certified.safe_decisions:.1f} % of the predicted classes are thereby proved right."


def _width(spectra: Spectra) -> str:
    return (
        f"The data fill {spectra.rank} directions, {spectra.energy_rank} of which carry 99 % of it; the kernel uses "
        f"{spectra.d_eff:.0f} effective dimensions at this ridge. A model that holds the kernel's features explicitly "
        f"needs {spectra.measured_10} of them to represent the fit to 10 %; softmax attention holds them implicitly."
    )


def _depth(convergence: Convergence) -> str:
    first, *others = convergence.curves
    steps = first.steps_to_target
    if steps is None:
        reached = f"{first.method} does not reach an error of {TARGET:g} in {len(first.errors) - 1} steps"
    else:
        reached = f"{first.method} needs {steps} steps for an error of {TARGET:g}"
    slow = others[-1]
    compare = "more than " + str(len(slow.errors) - 1) if slow.steps_to_target is None else str(slow.steps_to_target)
    holds = "holds" if convergence.bound_holds else "is VIOLATED"
    return f"In depth, {reached}; gradient descent needs {compare}. The theory's rate {holds} at every step."


def _transformers(compiled: tuple[Compiled, ...]) -> str:
    parts = [
        f"with {model.route} attention ({model.steps} steps, {model.budget.sublayers} layers, width {model.features} + "
        f"{model.budget.overhead}) to {model.agreement:.1e} of a typical output"
        for model in compiled
    ]
    failed = [model.route for model in compiled if not model.certificate.holds]
    verdict = f"NOT certified: {' and '.join(failed)}" if failed else "Both runs are certified"
    return (
        f"Compiled into the weights of a transformer, the same regression on {compiled[0].supports} training rows "
        f"agrees with the direct solve {' and '.join(parts)}. {verdict}."
    )
