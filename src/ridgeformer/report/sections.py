"""The sections of an audit's page: a title, sentences, a figure with what to see in it, a table."""

from __future__ import annotations

from dataclasses import dataclass, field

import plotly.graph_objects as go

from ridgeformer.audit import Audit
from ridgeformer.audit.answer import show_score
from ridgeformer.claims.on_data import examine_claims
from ridgeformer.compiler import Certificate
from ridgeformer.report.figures import compiled_figure, convergence_figure, spectrum_figure, width_figure

__all__ = ["Picture", "Section", "Table", "sections"]


@dataclass(frozen=True)
class Picture:
    """A figure, what to see in it, and the same for someone who cannot see it."""

    figure: go.Figure
    caption: str
    alt: str


@dataclass(frozen=True)
class Table:
    """A table of text; the first row is its head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """One section of the page."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    pictures: tuple[Picture, ...] = field(default=())


def sections(audit: Audit) -> list[Section]:
    """Return the sections of the page, in order."""
    return [
        _data(audit),
        _fits(audit),
        _spectra(audit),
        _depth(audit),
        _compiled(audit),
        _claims(audit),
        _settings(audit),
    ]


def _data(audit: Audit) -> Section:
    dataset = audit.data.dataset
    target = f"{len(dataset.classes)} classes" if dataset.classes else f"{dataset.outputs} numeric target(s)"
    about = f"{dataset.name}: {dataset.n:,} rows of {dataset.d:,} features, {target}. {dataset.description}"
    return Section("The data", (about.strip(), *audit.data.notes, f"Source: {dataset.source}."))


def _fits(audit: Audit) -> Section:
    task, certified = audit.data.dataset.task, audit.certified
    rows = tuple(
        (
            fit.name,
            fit.what,
            show_score(fit.test_score, task),
            show_score(fit.train_score, task),
            "" if fit.temperature is None else f"{fit.temperature:.3g}",
            "" if fit.ridge is None else f"{fit.ridge:.1e}",
        )
        for fit in audit.fits
    )
    safe = certified.safe_decisions
    decisions = "" if safe is None else f" Predicted classes proved equal to the exact solution's: {100 * safe:.1f} %."
    return Section(
        "The certified fit and its baselines",
        (
            "Temperature and ridge were chosen by leave-one-out error on the training rows; held-out rows had no say. "
            "Of the ridges within one standard error of the best, the largest was taken.",
            f"{certified.solution.advice} Largest bound on a held-out prediction's distance from the exact solution: "
            f"{certified.worst_bound:.1e}, against outputs of typical size {certified.typical_output:.2g}.{decisions}",
        ),
        Table(("predictor", "what it is", "held out", "training", "temperature", "ridge"), rows),
    )


def _spectra(audit: Audit) -> Section:
    s = audit.spectra
    return Section(
        "The spectrum: how many directions matter",
        (
            f"X has rank {s.rank}; {s.energy_rank} directions carry 99 % of it. The condition number of X X' on its "
            f"rank is {s.condition:.1e}, that of K + ridge I is {s.system_condition:.1e}.",
            f"At the ridge of the fit the kernel has {s.d_eff:.1f} effective dimensions. Explicit features needed for "
            f"a worst relative error of 10 %: {s.measured_10} (guaranteed by the bound: {s.width_10}); of 1 %: "
            f"{s.measured_1} (guaranteed: {s.width_1}). More than the {len(s.kernel)} training rows are never needed.",
        ),
        pictures=(
            Picture(
                spectrum_figure(audit),
                "Directions above the dashed ridge are learnt, those below it are smoothed away. The kernel has many "
                "more directions than the data: that is what the exponential adds.",
                "Eigenvalues of the Gram matrix and of the kernel matrix on logarithmic axes, falling to the right.",
            ),
            Picture(
                width_figure(audit),
                "At the effective dimension (dotted) the error is still large: it takes a multiple of it to make the "
                "error small. The dashed bound is never below the curve.",
                "Worst relative error of the best sketch against its width, below the bound.",
            ),
        ),
    )


def _depth(audit: Audit) -> Section:
    curves = audit.convergence.curves
    rows = tuple(
        (curve.method, str(curve.steps_to_target or f"> {len(curve.errors) - 1}"), f"{curve.errors[-1]:.1e}")
        for curve in curves
    )
    holds = "is below the bound at every step" if audit.convergence.bound_holds else "EXCEEDS the bound"
    return Section(
        "Depth: how many steps the fit takes",
        (f"Each step is one block of layers in a transformer that solves this fit. Conjugate gradients {holds}.",),
        Table(("method", "steps to 1e-3", "error at the end"), rows),
        (
            Picture(
                convergence_figure(audit),
                "Steeper is shallower: conjugate gradients needs about the square root of what gradient descent "
                "(richardson) needs, and the dashed bound is pessimistic because it knows only the two ends of the "
                "spectrum.",
                "Relative error of four iterative methods against the step, on a logarithmic axis.",
            ),
        ),
    )


def _compiled(audit: Audit) -> Section:
    rows = tuple(
        (
            f"{model.route} attention",
            str(model.steps),
            f"{model.features} + {model.budget.overhead}",
            str(model.budget.sublayers),
            f"{model.budget.parameters:,} ({model.budget.nonzeros:,})",
            f"{model.difference:.1e} ({model.agreement:.1e} of a typical output)",
            _verdict(model.certificate),
        )
        for model in audit.compiled
    )
    first = audit.compiled[0]
    head = ("model", "steps", "width", "sublayers", "weights (not zero)", "off the direct solve by", "certificate")
    return Section(
        "Compiled: the same regression inside a transformer",
        (
            f"Two transformers were compiled for these features. Their weights know the ridge and the temperature and "
            f"nothing of the data; {first.supports} training rows are tokens they read, and conjugate gradients run in "
            "their layers. The width is the features plus what the program needs for its state; every output has "
            "its own.",
            "A certificate holds if the answers, the error after every step, the steps themselves and the residual are "
            "all within their bounds, and no support depends on a query.",
        ),
        Table(head, rows),
        (
            Picture(
                compiled_figure(audit),
                "What the layers hold after every step (lines) stays under what theory allows (dashed). Where a line "
                "turns flat, the precision of the numbers is reached.",
                "Relative error of two compiled transformers against the step, each below its bound.",
            ),
        ),
    )


def _verdict(certificate: Certificate) -> str:
    if certificate.holds:
        return f"holds ({len(certificate.checks)} checks)"
    return "does NOT hold: " + ", ".join(check.name for check in certificate.failed)


def _claims(audit: Audit) -> Section:
    applied = examine_claims(audit.data, audit.certified, audit.spectra)
    rows = tuple((row.claim, row.what, f"{row.value:.4g}", "yes" if row.informative else "no") for row in applied.rows)
    return Section(
        "The theorems on these data", applied.sentences, Table(("claim", "says here", "value", "informative"), rows)
    )


def _settings(audit: Audit) -> Section:
    rows = [(key, str(value)) for key, value in vars(audit.settings).items()]
    rows += [(f"version of {key}", value) for key, value in audit.versions.items()]
    rows += [(f"seconds, {key}", f"{value:.1f}") for key, value in audit.seconds.items()]
    return Section("Settings, versions, timing", (), Table(("what", "value"), tuple(rows)))
