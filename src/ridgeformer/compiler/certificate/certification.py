"""`certify`: run a compiled transformer and prove how near its answers are to exact ridge regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ridgeformer.algorithms import NadarayaWatson
from ridgeformer.compiler.attentions import CompiledAttention, ImitatedAttention
from ridgeformer.compiler.certificate.accuracy import check_accuracy, prove
from ridgeformer.compiler.certificate.advice import advise
from ridgeformer.compiler.certificate.certificate import Certificate, TaskCheck, merge
from ridgeformer.compiler.certificate.evidence import RunEvidence, gather
from ridgeformer.compiler.certificate.expected import (
    Promise,
    check_average,
    check_precision,
    promise_rate,
    promise_vanilla,
    report_promise,
)
from ridgeformer.compiler.certificate.inexact import check_products, check_useful, measured_error, promise_imitation
from ridgeformer.compiler.certificate.network import check_leakage, check_ranges, check_weights
from ridgeformer.compiler.certificate.textbook import check_steps
from ridgeformer.compiler.certificate.written import certify_program
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.compiler.vanilla import VanillaAttention
from ridgeformer.core.checks import ArrayLike, positive

__all__ = ["certify", "conclude", "promise_of"]


def certify(
    model: CompiledTransformer, X: ArrayLike, y: ArrayLike, Xq: ArrayLike, *, tolerance: float | None = None
) -> Certificate:
    """Run a compiled transformer and prove how near its answers are to exact ridge regression.

    Exact ridge regression is the specification's, with all features and the data as given; no weight enters it. The
    proved distance holds for this run whatever the weights are. Beside it stand checks of what theory expects of the
    network, and comparisons. Another task is another certificate.

    Args:
        model: Made by `compile` or `load_model`.
        X: Supports, (k, features) or (tasks, k, features).
        y: Targets, (k,), (k, outputs) or (tasks, k, outputs).
        Xq: Queries, (q, features) or (tasks, q, features).
        tolerance: The largest proved distance that counts as accurate, as a fraction of the largest exact prediction
            of each output over the queries; 0.01 unless told. For a program of one's own, which is compared with its
            interpreter, the largest relative difference: 1e-10 in float64 and 1e-3 in float32 unless told.

    Returns:
        A frozen `Certificate`; `holds` is True only if every answer is proved within the tolerance and every other
        check holds, for every task and output.

    Raises:
        InputError: input the model itself refuses.

    Example:
        >>> import torch
        >>> from ridgeformer.algorithms import ConjugateGradients
        >>> from ridgeformer.compiler.compile import compile
        >>> from ridgeformer.kernels import Exponential
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> model = compile(Exponential(1.0), ConjugateGradients(steps=3), features=3, ridge=0.1)
        >>> certificate = certify(model, X, torch.arange(3.0), X)
        >>> certificate.verdict, certificate.within < 1e-10
        ('Proved within 0.0001 % of exact ridge regression.', True)
    """
    if tolerance is not None:
        tolerance = positive(tolerance, "tolerance", "no run is exact to rounding")
    if model.spec.written:
        return certify_program(model, X, y, Xq, tolerance)
    evidence = gather(model, X, y, Xq)
    weights, leakage = check_weights(model), check_leakage(model, [(e.rows, e.true.y, e.query_rows) for e in evidence])
    whole = [weights, leakage]
    if model.spec.primitives != "exact":
        whole.append(check_ranges(model, X, y, Xq))
    return conclude(model, evidence, whole, 0.01 if tolerance is None else tolerance)


def conclude(
    model: CompiledTransformer, evidence: list[RunEvidence], whole: list[TaskCheck], tolerance: float
) -> Certificate:
    """Return the certificate of a run: what its evidence proves, and findings about the model, its weights first."""
    proofs = [prove(task) for task in evidence]
    checks, curves = merge(
        [[check_accuracy(p, tolerance), *_examine(e)] for e, p in zip(evidence, proofs, strict=True)]
    )
    about_model, curves_of_model = merge([whole])
    compiled = about_model[0].holds
    return Certificate(
        subject=_subject(model, evidence),
        tolerance=tolerance,
        checks=(about_model[0], *checks, *about_model[1:]),
        curves={**curves, **curves_of_model},
        kappa=np.array([task.problem.kappa for task in evidence]),
        floor=np.array([task.floor for task in evidence]),
        exact=np.stack([proof.exact for proof in proofs]),
        predictions=np.stack([task.predictions.numpy() for task in evidence]),
        proved=np.stack([proof.bound for proof in proofs]),
        advice="" if checks[0].holds else advise(evidence, proofs, tolerance, compiled=compiled),
    )


def _examine(evidence: RunEvidence) -> list[TaskCheck]:
    """Return what is expected of one task and what was observed, the findings a person asks for first first."""
    if isinstance(evidence.spec.algorithm, NadarayaWatson):
        return [check_average(evidence)]
    if evidence.approximate:
        useful = [check_useful(evidence, measured_error(evidence))] if "r" in evidence.values else []
        return [*useful, check_precision(evidence)]
    imitated = isinstance(evidence.spec.attention, ImitatedAttention)
    steps = check_products(evidence) if imitated else [check_steps(evidence)]
    return [*report_promise(evidence, promise_of(evidence)), *steps, check_precision(evidence)]


def promise_of(evidence: RunEvidence) -> Promise:
    """Return what theory promises for a run with exact units: by its attention, or else by its algorithm."""
    return PROMISES.get(type(evidence.spec.attention), promise_rate)(evidence)


PROMISES: dict[type[CompiledAttention], Callable[[RunEvidence], Promise]] = {
    VanillaAttention: promise_vanilla,
    ImitatedAttention: promise_imitation,
}
"""Attentions that change the iteration, and so its rate."""


def _subject(model: CompiledTransformer, evidence: list[RunEvidence]) -> str:
    spec, problem = model.spec, evidence[0].problem
    tasks = "1 task" if len(evidence) == 1 else f"{len(evidence)} tasks"
    sketched = f", {spec.projected} features sketched to {spec.carried}" if spec.carried < spec.projected else ""
    kappa = max(task.problem.kappa for task in evidence)
    return (
        f"{model.program.name}, {spec.steps} steps, ridge {spec.ridge:g}, {spec.dtype}{sketched}; {tasks} of "
        f"{problem.system.n} supports and {len(problem.queries)} queries, condition number {kappa:.3g}"
    )
