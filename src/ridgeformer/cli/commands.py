"""Every command, and how each may end: a result, one line on standard error, or an interruption."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from ridgeformer.cli import INTERRUPTED
from ridgeformer.cli.audit import audit
from ridgeformer.cli.certify import certify
from ridgeformer.cli.claims import claims
from ridgeformer.cli.compile import compile_
from ridgeformer.cli.data import data
from ridgeformer.cli.explain import explain
from ridgeformer.cli.explore import explore
from ridgeformer.cli.influence import influence
from ridgeformer.cli.regime import regime
from ridgeformer.cli.reproduce import reproduce
from ridgeformer.cli.run import run
from ridgeformer.cli.solve import solve
from ridgeformer.cli.studies import studies
from ridgeformer.core.errors import RidgeformerError

__all__ = ["app", "run_command"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("audit")(audit)
app.command("solve")(solve)
app.command("compile")(compile_)
app.command("run")(run)
app.command("explain")(explain)
app.command("certify")(certify)
app.command("claims")(claims)
app.command("regime")(regime)
app.command("influence")(influence)
app.command("explore")(explore)
app.command("reproduce")(reproduce)
app.add_typer(studies, name="studies")
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Attention as kernel regression: audit data, solve with a certificate, compile transformers that do it.

    Start with: ridgeformer audit digits
    """
    if show_version:
        print(f"ridgeformer {version('ridgeformer')}")
        raise typer.Exit


def run_command() -> None:
    """Run the command that `sys.argv` names: bad input is one line on standard error and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed by now
            sys.exit(0)
        sys.exit(_complain(error.format_message(), 2))
    except RidgeformerError as error:
        sys.exit(_complain(str(error), 2))
    except OSError as error:
        sys.exit(_complain(f"cannot write the output ({error.strerror}): check where it goes.", 1))
    if code == INTERRUPTED:
        _complain("interrupted; nothing was half-written.", code)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, code: int) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code
