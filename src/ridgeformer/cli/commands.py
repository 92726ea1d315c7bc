"""All commands, and the three ways each can end: a result, one line on standard error, or an interruption."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from ridgeformer.cli import INTERRUPTED, importing
from ridgeformer.cli import console as ui
from ridgeformer.cli.attribution import attribution
from ridgeformer.cli.audit import audit
from ridgeformer.cli.circuits import circuits
from ridgeformer.cli.claims import claims
from ridgeformer.cli.compile import certify, compile_, explain, run
from ridgeformer.cli.data import data
from ridgeformer.cli.demo import demo
from ridgeformer.cli.diagnose import influence, regime
from ridgeformer.cli.export import export
from ridgeformer.cli.fitted import fit, predict
from ridgeformer.cli.identify import identify
from ridgeformer.cli.programs import programs
from ridgeformer.cli.solve import solve
from ridgeformer.cli.studies import reproduce, studies
from ridgeformer.core.errors import RidgeformerError

__all__ = ["app", "run_command"]


def explore(
    host: Annotated[str, typer.Option(help="Address to listen on; the default is this computer only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8050,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Explore in a browser: move ridge, depth and width, draw points, look into the stream.

    Example: ridgeformer explore --port 8050
    """
    try:
        with importing():
            from ridgeformer.views.explorer.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("dash", "flask", "werkzeug"):
            raise
        raise RidgeformerError(
            f"the explorer needs {error.name}, which is not installed: pip install 'ridgeformer[app]'."
        ) from None
    serve(host, port, browser, lambda line: ui.out().print(line, markup=False, soft_wrap=True))


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done; 1 a solve did not converge, a certificate failed or a claim contradicted its verdict; "
    "2 input was refused, in one line on standard error; 130 interrupted. Every command has --help with an example.",
)
app.command("audit")(audit)
app.command("fit")(fit)
app.command("predict")(predict)
app.command("solve")(solve)
app.command("compile")(compile_)
for command in (
    programs, run, explain, certify, export, claims, regime, influence, identify, demo, explore, reproduce,
):  # fmt: skip
    app.command()(command)
app.add_typer(attribution, name="attribution")
app.add_typer(circuits, name="circuits")
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
        sys.exit(_complain(f"cannot write the output ({error.strerror}): check its path and the free space.", 1))
    if code == INTERRUPTED:
        _complain("interrupted; no file was left half-written.", code)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, code: int) -> int:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code
