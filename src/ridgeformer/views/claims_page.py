"""The ledger of claims in words, as a page, and its plots."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path

from ridgeformer.claims import Claim, Judgement, Plot, Trial, Verdict
from ridgeformer.core.words import count, percent
from ridgeformer.views.figures import PALETTE, Figure, curve, draw, log_axis
from ridgeformer.views.page import fill, write_html

__all__ = ["claim_figure", "key_figure", "provenance", "render_claims", "summary", "trial_line", "write_claims_page"]


def render_claims(judgements: Sequence[Judgement]) -> str:
    """Return the page as text."""
    return fill(
        "claims.html.j2",
        title="The ledger of claims",
        subtitle="Every theorem of the source documents as a check that ran, with what is true instead",
        summary=summary(judgements),
        findings=judgements,
        key_figure=key_figure,
        trial_line=trial_line,
        claim_figure=claim_figure,
    )


def write_claims_page(judgements: Sequence[Judgement], path: Path) -> Path:
    """Write the page; an old one is replaced in one step."""
    return write_html(render_claims(judgements), path)


def claim_figure(plot: Plot) -> Figure:
    """Return a claim's plot as a figure: measured curves solid, comparisons dashed."""
    curves = [(*named, "solid") for named in plot.solid.items()] + [(*named, "dash") for named in plot.dashed.items()]
    traces = [
        curve(list(plot.at[: len(y)]), list(y), name, PALETTE[number % len(PALETTE)], dash=dash)
        for number, (name, y, dash) in enumerate(curves)
    ]
    x = log_axis(plot.x, plot.at) if "x" in plot.log else plot.x
    y = log_axis(plot.y, *(values for _, values, _ in curves)) if "y" in plot.log else plot.y
    return draw(traces, x, y)


def summary(judgements: Sequence[Judgement]) -> str:
    """Return the ledger in two sentences."""
    counts = [(verdict, sum(j.claim.verdict is verdict for j in judgements)) for verdict in Verdict]
    tally = ", ".join(f"{many} {verdict.value}" for verdict, many in counts if many)
    wrong = [judgement.claim.id for judgement in judgements if not judgement.agrees]
    against = f"These records contradict their checks: {', '.join(wrong)}."
    return f"{len(judgements)} claims: {tally}. {against if wrong else 'Every check agrees with its record.'}"


def key_figure(judgement: Judgement) -> str:
    """Return the figure of a ledger's line."""
    if judgement.evidence is None:
        return judgement.claim.pending
    figures = (*judgement.evidence.figures, *judgement.evidence.interpretations)
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
    cases = count(trial.cases, "case")
    broken = f"never broken in {cases}" if trial.holds else f"broken in {trial.violations:,} of {cases}"
    ratio = "" if isnan(trial.worst) else f", largest ratio of the sides {trial.worst:.9g}"
    kept = "" if trial.kept == 1 else f", keeping {percent(trial.kept)} of the published cases"
    search = "" if trial.seed is None else f" (search with seed {trial.seed})"
    return f"{trial.statement}: {broken}{ratio}{kept}{search}"
