"""`ridgeformer claims`: the ledger, one claim explained, or the claims evaluated on the user's own data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from ridgeformer.claims import Judgement
    from ridgeformer.claims.on_data import Applied

__all__ = ["claims"]

COLOURS = {"TRUE": "green", "AMENDED": "yellow", "FALSE": "red", "UNDEFINED": "magenta", "PENDING": "dim"}
"""Colour of each verdict."""


def claims(
    names: Annotated[list[str] | None, typer.Argument(help="Claims such as W4; all of them if none is named.")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="100,000 cases a search, not 2,000; 50 times the draws.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="A dataset: evaluate the claims that apply to it.", callback=ui.known_data)
    ] = None,
    target: ui.Target = None,
    html: ui.Html = None,
    json: ui.Json = False,
) -> None:
    """Run the theorems of the source documents as checks, and compare each with the verdict on record.

    Example: ridgeformer claims W4
    """
    if data is not None and (names or deep or html):
        raise InputError("--data evaluates the claims on your data; leave out claim names, --deep and --html.")
    with importing():
        from ridgeformer import datasets
        from ridgeformer.claims import CLAIMS, DEEP_CASES, NORMAL_CASES, as_dict, run_claims
        from ridgeformer.claims.on_data import apply_claims
        from ridgeformer.views.claims_page import write_claims_page
        from ridgeformer.views.page import require_place

    if data is not None:
        _show_applied(apply_claims(datasets.load(data, target=target)), json)
        return
    known = {claim.id: claim for claim in CLAIMS}
    for name in names or []:
        if name.upper() not in known:
            raise unknown_name("claim", name, known)
    chosen = [known[name.upper()] for name in names or known]
    if html is not None:
        require_place(html)
    with ui.progress_bar(json) as progress:
        done = iter(range(len(chosen)))
        cases = DEEP_CASES if deep else NORMAL_CASES
        findings = list(
            run_claims(chosen, cases, lambda claim: progress(next(done), len(chosen), f"checking {claim.id}"))
        )
    if html is not None:
        write_claims_page(findings, html)
    if json:
        ui.print_json([as_dict(finding) for finding in findings])
    elif len(findings) == 1:
        _explain(findings[0])
    else:
        _show_ledger(findings)
    if not json:
        ui.print_page(html)
    if not all(finding.agrees for finding in findings):
        raise typer.Exit(1)


def _show_ledger(findings: list[Judgement]) -> None:
    from ridgeformer.views.claims_page import key_figure, summary

    console, rows = ui.out(), []
    for finding in findings:
        verdict = f"[{COLOURS[finding.claim.verdict.name]}]{finding.claim.full_verdict}[/]"
        verdict += "" if finding.agrees else " [bold red]WRONG[/]"
        rows.append((finding.claim.id, finding.claim.title, verdict, key_figure(finding), f"{finding.seconds:.1f} s"))
    console.print(ui.plain_table(("", "claim", "verdict", "figure", "time"), rows, right=("time",)))
    console.print()
    console.print(summary(findings), style="bold", soft_wrap=True)
    for finding in findings:
        for problem in finding.problems:
            console.print(f"{finding.claim.id}: {problem}.", style="red", markup=False, soft_wrap=True)
    if all(finding.agrees for finding in findings):
        console.print("Explain one with: ridgeformer claims W4", style="dim")


def _explain(finding: Judgement) -> None:
    from ridgeformer.views.claims_page import provenance, trial_line
    from ridgeformer.views.terminal import draw_curves

    console, claim, evidence = ui.out(), finding.claim, finding.evidence

    def show(text: str, style: str | None = None) -> None:
        console.print(text, markup=False, soft_wrap=True, style=style)

    show(f"{claim.id}  {claim.title}", style="bold")
    show(f"verdict: {claim.full_verdict}", style=COLOURS[claim.verdict.name])
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
    if claim.arithmetic:
        show("\nTo verify by hand", style="dim")
        for name, array in claim.arrays.items():
            show(f"  {name} = {array}")
        show(f"  {claim.arithmetic}")
    if evidence:
        show("\nMeasured", style="dim")
        for figure in (*evidence.figures, *evidence.interpretations):
            show(f"  {figure.value:<12.6g} {figure.name}")
        show("\nTried", style="dim")
        for trial in (*evidence.stated, *evidence.corrected):
            show(f"  {trial_line(trial)}")
        if evidence.plot:
            show("")
            print(draw_curves(evidence.plot, min(console.width, 100)))
            show(evidence.plot.caption, style="dim")
    for problem in finding.problems:
        show(f"\n{problem}.", style="bold red")


def _show_applied(applied: Applied, json: bool) -> None:
    if json:
        ui.print_json(applied.as_dict())
        return
    console = ui.out()
    for sentence in applied.sentences:
        console.print(sentence, markup=False, soft_wrap=True, style="bold")
    rows = [(row.claim, row.what, f"{row.value:.4g}", "yes" if row.informative else "no") for row in applied.rows]
    console.print()
    console.print(ui.plain_table(("claim", "on these data", "value", "informative"), rows))
