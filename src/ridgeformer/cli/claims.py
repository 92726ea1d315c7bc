"""`ridgeformer claims`: the ledger, one claim explained, or what applies to the user's own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ridgeformer import datasets
from ridgeformer.claims import CLAIMS, DEEP_CASES, NORMAL_CASES, Claim, Judgement, Verdict, as_dict, run_claims
from ridgeformer.claims.on_data import Applied, apply_claims
from ridgeformer.cli.console import Json, out, print_json, progress_bar
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.views.claims_page import key_figure, provenance, summary, trial_line, write_claims_page
from ridgeformer.views.terminal_plot import draw
from ridgeformer.views.writing import require_place

__all__ = ["claims"]

COLOURS = {
    Verdict.TRUE: "green",
    Verdict.AMENDED: "yellow",
    Verdict.FALSE: "red",
    Verdict.UNDEFINED: "magenta",
    Verdict.PENDING: "dim",
}


def claims(
    names: Annotated[list[str] | None, typer.Argument(help="Claims such as W4; all of them if none is named.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="100,000 cases a search, not 2,000; 50 times the draws.")
    ] = False,
    data: Annotated[str | None, typer.Option(help="A dataset: evaluate what applies to it instead.")] = None,
    target: Annotated[str | None, typer.Option(help="For a file: the column or key to predict.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the ledger as a self-contained page.")] = None,
    json: Json = False,
) -> None:
    """Run the theorems of the source documents as checks, and compare each with the verdict on record.

    Example: ridgeformer claims W4
    """
    if data is not None:
        if names or deep or html:
            raise InputError("--data evaluates the claims on your data; leave out claim names, --deep and --html.")
        _show_applied(apply_claims(datasets.load(data, target=target)), json)
        return
    if html is not None:
        require_place(html)
    findings = _run(_chosen(names or []), DEEP_CASES if deep else NORMAL_CASES, json)
    if html is not None:
        write_claims_page(findings, html)
    if json:
        print_json([as_dict(finding) for finding in findings])
    elif len(findings) == 1:
        _explain(findings[0])
    else:
        _show_ledger(findings)
    if not json and html is not None:
        out().print(f"\nWritten to {html}.", soft_wrap=True)
    if not all(finding.agrees for finding in findings):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[Claim]:
    known = {claim.id: claim for claim in CLAIMS}
    for name in names:
        if name.upper() not in known:
            raise unknown_name("claim", name, known)
    return [known[name.upper()] for name in names] or list(CLAIMS)


def _run(chosen: list[Claim], cases: int, quiet: bool) -> list[Judgement]:
    with progress_bar(quiet) as progress:
        done = iter(range(len(chosen)))
        return list(run_claims(chosen, cases, lambda claim: progress(next(done), len(chosen), f"checking {claim.id}")))


def _show_ledger(findings: list[Judgement]) -> None:
    console, table = out(), Table(box=None, pad_edge=False, header_style="dim")
    for head in ("", "claim", "verdict", "figure", "time"):
        table.add_column(head, overflow="fold", justify="right" if head == "time" else "left")
    for finding in findings:
        verdict = f"[{COLOURS[finding.claim.verdict]}]{finding.claim.full_verdict}[/]"
        table.add_row(
            finding.claim.id, finding.claim.title, verdict if finding.agrees else f"{verdict} [bold red]WRONG[/]",
            key_figure(finding), f"{finding.seconds:.1f} s",
        )  # fmt: skip
    console.print(table)
    console.print()
    console.print(summary(findings), style="bold", soft_wrap=True)
    for finding in findings:
        for problem in finding.problems:
            console.print(f"{finding.claim.id}: {problem}.", style="red", markup=False, soft_wrap=True)
    if all(finding.agrees for finding in findings):
        console.print("Explain one with: ridgeformer claims W4", style="dim")


def _explain(finding: Judgement) -> None:
    console, claim, evidence = out(), finding.claim, finding.evidence

    def show(text: str, style: str | None = None) -> None:
        console.print(text, markup=False, soft_wrap=True, style=style)

    show(f"{claim.id}  {claim.title}", style="bold")
    show(f"verdict: {claim.full_verdict}", style=COLOURS[claim.verdict])
    for head, words, formula in (
        ("As stated", claim.stated, claim.formula),
        ("Where it comes from", provenance(claim), ""),
        ("What is true", claim.corrected, claim.corrected_formula),
        ("When", claim.condition, ""),
        ("Not yet checked", claim.pending, ""),
    ):
        if words:
            show(f"\n{head}", style="dim")
            show(f"  {words}")
            if formula:
                show(f"  {formula}", style="cyan")
    if claim.counterexample:
        show("\nTo verify by hand", style="dim")
        for name, array in claim.counterexample.arrays.items():
            show(f"  {name} = {array}")
        show(f"  {claim.counterexample.arithmetic}")
    if evidence:
        show("\nMeasured", style="dim")
        for figure in (*evidence.figures, *evidence.interpretations):
            show(f"  {figure.value:<12.6g} {figure.name}")
        show("\nTried", style="dim")
        for trial in (*evidence.stated, *evidence.corrected):
            show(f"  {trial_line(trial)}")
        if evidence.plot:
            show("")
            print(draw(evidence.plot, min(console.width, 100)))
            show(evidence.plot.caption, style="dim")
    for problem in finding.problems:
        show(f"\n{problem}.", style="bold red")


def _show_applied(applied: Applied, json: bool) -> None:
    if json:
        print_json(applied.as_dict())
        return
    console = out()
    for sentence in applied.sentences:
        console.print(sentence, markup=False, soft_wrap=True, style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("claim", "on these data", "value", "informative"):
        table.add_column(head, overflow="fold")
    for row in applied.rows:
        table.add_row(row.claim, row.what, f"{row.value:.4g}", "yes" if row.informative else "no")
    console.print()
    console.print(table)
