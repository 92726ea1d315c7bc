"""Runs the ledger of claims and writes docs/ledger.md: `make figures`."""

from __future__ import annotations

from pathlib import Path

from ridgeformer.claims import CLAIMS, Judgement, run_claims
from ridgeformer.views.claims_page import key_figure, provenance, summary, trial_line

HERE = Path(__file__).parent


def card(finding: Judgement) -> list[str]:
    """Return a claim as Markdown: statement, correction, figures, trials, counterexample."""
    claim, evidence = finding.claim, finding.evidence
    lines = [f"## {claim.id}: {claim.title}", "", f"Verdict: **{claim.full_verdict}**.", ""]
    lines += [f"Origin: {provenance(claim).replace('|', '/')}.", ""]
    lines += ["As stated:", claim.stated, "", f"$${claim.formula}$$", ""]
    if claim.corrected:
        lines += ["What is true:", claim.corrected, ""]
    if claim.corrected_formula:
        lines += [f"$${claim.corrected_formula}$$", ""]
    if claim.condition:
        lines += [f"When: {claim.condition}", ""]
    if claim.pending:
        lines += [f"Not yet checked: {claim.pending}", ""]
    if claim.arithmetic:
        lines += ["To verify by hand:", ""]
        lines += [f"- `{name} = {array}`" for name, array in claim.arrays.items()]
        lines += ["", claim.arithmetic, ""]
    if evidence:
        lines += ["| measured | |", "|---|---|"]
        figures = (*evidence.figures, *evidence.interpretations)
        lines += [f"| {figure.name.replace('|', '/')} | {figure.value:.6g} |" for figure in figures]
        lines += ["", *(f"- As stated: {trial_line(trial)}" for trial in evidence.stated)]
        lines += [*(f"- Corrected: {trial_line(trial)}" for trial in evidence.corrected), ""]
    return lines


def main() -> None:
    """Run every check and write the page."""
    findings = list(run_claims(CLAIMS))
    lines = ["# The ledger", "", "Written by `make figures` from a run of every check.", "", summary(findings), ""]
    lines += ["| id | claim | verdict | figure |", "|---|---|---|---|"]
    lines += [
        f"| {f.claim.id} | {f.claim.title} | {f.claim.full_verdict} | {key_figure(f).replace('|', '/')} |"
        for f in findings
    ]
    for finding in findings:
        lines += ["", *card(finding)]
    (HERE / "ledger.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(summary(findings))


if __name__ == "__main__":
    main()
