"""`ridgeformer programs`: the programs that ship, and what one of them will cost."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from ridgeformer.algorithms.written import WrittenAlgorithm

__all__ = ["given_program", "programs"]

GENERAL = {"context", "features", "directory", "algorithm", "steps", "option", "outputs", "share_channels", "tied",
           "primitives", "precision", "json"}  # fmt: skip
"""Options of `ridgeformer compile` that a program takes; all others belong to kernels."""


def programs(
    name: Annotated[str | None, typer.Argument(help="A program; all are listed if left out.")] = None,
    features: Annotated[int, typer.Option(help="Features of a row.", min=1)] = 8,
    steps: Annotated[int, typer.Option(help="Iterations: blocks of layers.", min=1)] = 20,
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Of the program.")] = None,
    primitives: Annotated[str, typer.Option(help="What gated layers are made of: exact, swiglu or relu.")] = "exact",
    json: ui.Json = False,
) -> None:
    """List programs that can be compiled, or count what one of them will cost before it is.

    Example: ridgeformer programs --json
    """
    with importing():
        from ridgeformer.compiler.cost import budget
        from ridgeformer.programs import PROGRAMS

    if name is None:
        listed = {key: kind.family for key, kind in sorted(PROGRAMS.items())}
        ui.print_json(listed) if json else ui.print_facts(listed, 26)
        return
    program = given_program(name, steps, option or [])
    cost = budget(program, features=features, primitives=primitives)
    if json:
        facts = {"width": cost.width, "layers": cost.layers, "heads": cost.heads, "units": cost.units}
        ui.print_json({"program": name, **facts, "parameters": cost.parameters, "growth": cost.growth})
        return
    ui.out().print(f"{program.family}\noptions: {_options(type(program))}\n\n{cost}", markup=False, soft_wrap=True)


def given_program(
    name: str, steps: int, options: list[str], flags: dict[str, object] | None = None
) -> WrittenAlgorithm:
    """Return the program of this name.

    Args:
        name: Its name.
        steps: Iterations.
        options: Such as "penalty=0.05".
        flags: Options of `ridgeformer compile` that were given; those of the same name are the program's.

    Raises:
        InputError: an option that it does not have, or no number.
        UnknownNameError: no such program.
    """
    with importing():
        from ridgeformer.programs import PROGRAMS

    if name not in PROGRAMS:
        raise unknown_name("program", name, PROGRAMS)
    kind, chosen = PROGRAMS[name], dict[str, object]()
    known = {field.name: field.default for field in fields(kind) if field.name != "steps"}
    for flag, value in (flags or {}).items():
        if flag in known:
            chosen[flag] = value
        elif flag not in GENERAL:
            raise InputError(
                f"--{flag.replace('_', '-')} belongs to a kernel, and {name!r} is a whole program, with options "
                f"{_options(kind)}: leave it out."
            )
    for text in options:
        key, _, number = text.partition("=")
        if key not in known:
            raise InputError(f"{name!r} has no option {key!r}; it has {_options(kind)}.")
        try:
            chosen[key] = int(number) if isinstance(known[key], int) else float(number)
        except ValueError:
            raise InputError(f"--option {text!r}: a number was expected, such as {key}={known[key]}.") from None
    return kind(steps=steps, **chosen)


def _options(kind: type[WrittenAlgorithm]) -> str:
    return ", ".join(f"{field.name}={field.default}" for field in fields(kind) if field.name != "steps") or "none"
