"""Findings in words and as plain values, the same in the terminal, on the page and in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from ridgeformer.claims.claim import Claim, Trial, Verdict
from ridgeformer.claims.ledger import Finding

__all__ = ["as_dict", "key_figure", "provenance", "summary", "trial_line"]


def summary(findings: Sequence[Finding]) -> str:
    """Return the ledger in two sentences."""
    counts = [(verdict, sum(f.claim.verdict is verdict for f in findings)) for verdict in Verdict]
    shares = ", ".join(f"{count} {verdict.value}" for verdict, count in counts if count)
    wrong = [finding.claim.id for finding in findings if not finding.agrees]
    said = "Every check agrees with its record." if not wrong else f"On record and yet not so: {', '.join(wrong)}."
    return f"{len(findings)} claims: {shares}. {said}"


def key_figure(finding: Finding) -> str:
    """Return the figure of a ledger's line."""
    if finding.evidence is None:
        return finding.claim.pending
    figures = (*finding.evidence.figures, *finding.evidence.readings)
    return f"{figures[0].name}: {figures[0].value:.4g}" if figures else ""


def provenance(claim: Claim) -> str:
    """Return where a claim's statement comes from, with the source's own words if it is a sentence of it."""
    return f"{claim.source}: {claim.origin.value}" + (f', "{claim.quote}"' if claim.quote else "")


def trial_line(trial: Trial) -> str:
    """Return a trial in words.

    Example:
        >>> trial_line(Trial("A <= B", 2000, 0, 0.999, 0))
        'A <= B: never broken in 2,000 cases, largest ratio of the sides 0.999 (search with seed 0)'
    """
    cases = f"{trial.cases:,} case{'s' if trial.cases != 1 else ''}"
    broken = f"never broken in {cases}" if trial.holds else f"broken in {trial.violations:,} of {cases}"
    ratio = "" if isnan(trial.worst) else f", largest ratio of the sides {trial.worst:.9g}"
    kept = "" if trial.kept == 1 else f", keeping {100 * trial.kept:.2g} % of the published cases"
    search = "" if trial.seed is None else f" (search with seed {trial.seed})"
    return f"{trial.statement}: {broken}{ratio}{kept}{search}"


def as_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain values, for JSON."""
    claim, evidence = finding.claim, finding.evidence
    trials = {"stated": evidence.stated, "corrected": evidence.corrected} if evidence else {}
    figures = (*evidence.figures, *evidence.readings) if evidence else ()
    return {
        "id": claim.id, "title": claim.title, "source": claim.source, "origin": claim.origin.value,
        "quote": claim.quote, "verdict": claim.verdict.value, "under": claim.under,
        "outcome": finding.outcome.value if finding.outcome else None, "agrees": finding.agrees,
        "problems": list(finding.problems), "seconds": finding.seconds, "pending": claim.pending,
        "computed": claim.computed,
        "stated": claim.stated, "formula": claim.formula, "corrected": claim.corrected,
        "corrected_formula": claim.corrected_formula, "condition": claim.condition,
        "figures": {figure.name: figure.value for figure in figures},
        "trials": {kind: [vars(trial) for trial in found] for kind, found in trials.items()},
    }  # fmt: skip
