"""`certify`: run a compiled transformer and say what is certain about its answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.compiler.certificate.apriori import Promise, report_promise
from ridgeformer.compiler.certificate.certificate import Certificate, Finding, merge
from ridgeformer.compiler.certificate.evidence import Evidence, gather
from ridgeformer.compiler.certificate.imitation import check_products, promise_imitation
from ridgeformer.compiler.certificate.inexact import check_useful, promise_approximate
from ridgeformer.compiler.certificate.leakage import check_leakage
from ridgeformer.compiler.certificate.outcome import check_average, check_outcome, check_precision
from ridgeformer.compiler.certificate.posterior import check_residual
from ridgeformer.compiler.certificate.ranges import check_ranges
from ridgeformer.compiler.certificate.rates import promise_rate
from ridgeformer.compiler.certificate.sketching import check_sketch, measure_sketch
from ridgeformer.compiler.certificate.textbook import check_steps
from ridgeformer.compiler.certificate.vanilla import promise_vanilla
from ridgeformer.compiler.transformer import CompiledTransformer

__all__ = ["certify", "promise_of"]


def certify(model: CompiledTransformer, X: Any, y: Any, Xq: Any) -> Certificate:
    """Run a compiled transformer and hold every number it gave against what theory allows.

    The reference is the direct solve, in float64, of the problem with all features and the data as given. Nothing in
    a certificate is a constant of the model: another task is another certificate.

    Args:
        model: Made by `compile` or `load`.
        X: Supports, (k, features) or (tasks, k, features).
        y: Targets, (k,), (k, outputs) or (tasks, k, outputs).
        Xq: Queries, (q, features) or (tasks, q, features).

    Returns:
        A frozen `Certificate`; `holds` is True only if every check holds for every task and output.

    Raises:
        InputError: input the model itself refuses.

    Example:
        >>> import torch
        >>> from ridgeformer.compiler import compile
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> certificate = certify(compile("softmax", features=3, ridge=0.1, steps=3), X, torch.arange(3.0), X)
        >>> certificate.holds, certificate["leakage"].measured
        (True, 0.0)
    """
    evidence = gather(model, X, y, Xq)
    findings = [_examine(task) for task in evidence]
    first = evidence[0]
    checks, curves = merge(findings)
    whole = list(check_leakage(model, first.rows, first.problem.y, first.query_rows))
    if model.spec.primitives != "exact":
        whole.append(check_ranges(model, X, y, Xq))
    model_checks, model_curves = merge([whole])
    return Certificate(
        subject=_subject(model, evidence),
        checks=(*checks, *model_checks),
        curves={**curves, **model_curves},
        kappa=np.array([task.problem.kappa for task in evidence]),
        floor=np.array([task.floor for task in evidence]),
        exact=np.stack([task.true.f.numpy() for task in evidence]),
    )


def _examine(evidence: Evidence) -> list[Finding]:
    """Return every finding on one task but leakage, the ones a person asks for first first."""
    spec = evidence.spec
    if spec.solver == "nadaraya-watson":
        return check_average(evidence)
    promise = promise_of(evidence)
    sketch = measure_sketch(evidence) if evidence.true is not evidence.problem else None
    findings = check_outcome(evidence, promise, sketch)
    findings += report_promise(evidence, promise)
    findings += _check_arithmetic(evidence)
    findings += check_residual(evidence)
    if sketch is not None:
        findings += check_sketch(evidence, sketch)
    return findings + check_precision(evidence)


def promise_of(evidence: Evidence) -> Promise:
    """Return what theory promises for the route and the solver of a run."""
    if evidence.approximate:
        return promise_approximate(evidence)
    if evidence.spec.route == "vanilla":
        return promise_vanilla(evidence)
    return promise_imitation(evidence) if evidence.spec.route == "imitation" else promise_rate(evidence)


def _check_arithmetic(evidence: Evidence) -> list[Finding]:
    """Return the findings on single steps: the textbook's, or as inexact as they may be."""
    if evidence.approximate:
        return [check_useful(evidence)] if "r" in evidence.values else []
    return check_products(evidence) if evidence.spec.route == "imitation" else check_steps(evidence)


def _subject(model: CompiledTransformer, evidence: list[Evidence]) -> str:
    spec, problem = model.spec, evidence[0].problem
    tasks = "1 task" if len(evidence) == 1 else f"{len(evidence)} tasks"
    sketched = f", {spec.projected} features sketched to {spec.carried}" if spec.carried < spec.projected else ""
    kappa = max(task.problem.kappa for task in evidence)
    return (
        f"{model.program.name}, {spec.steps} steps, ridge {spec.ridge:g}, {spec.dtype}{sketched}; {tasks} of "
        f"{problem.system.n} supports and {len(problem.queries)} queries, condition number {kappa:.3g}"
    )
