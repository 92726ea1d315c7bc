"""`ridgeformer compile`: from a few numbers to a saved transformer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ridgeformer import datasets
from ridgeformer.algorithms import NadarayaWatson, resolve
from ridgeformer.auditing import Settings
from ridgeformer.auditing.prepare import prepare
from ridgeformer.cli.console import Json, out, print_json
from ridgeformer.cli.solve import Precision
from ridgeformer.compiler import CompiledTransformer
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.specification import COMPILED_KERNELS
from ridgeformer.core.errors import unknown_name
from ridgeformer.kernels import DotProduct, Exponential, Kernel

__all__ = ["compile_"]

STEPS = 20


def compile_(
    features: Annotated[int, typer.Option(help="Features of a row.", min=1)],
    directory: Annotated[Path, typer.Option("--out", help="Where the model goes.")],
    kernel: Annotated[str, typer.Option(help="exponential or dot_product.")] = "exponential",
    temperature: Annotated[float, typer.Option(help="Of the exponential kernel, > 0.")] = 1.0,
    ridge: Annotated[float, typer.Option(help="Regularisation, > 0.")] = 0.1,
    algorithm: Annotated[
        str,
        typer.Option(help="cg, richardson, neumann, chebyshev, heavy_ball, nesterov or nadaraya_watson (one head)."),
    ] = "cg",
    steps: Annotated[int | None, typer.Option(help="Iterations: blocks of layers, 20 by default.", min=1)] = None,
    preconditioner: Annotated[str | None, typer.Option(help="jacobi, for cg with dot_product.")] = None,
    spectrum: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH", help="Bounds on the spectrum of K + ridge I: chebyshev, heavy_ball, nesterov."
        ),
    ] = None,
    step_size: Annotated[float | None, typer.Option(help="For richardson; found in context if left out.")] = None,
    attention: Annotated[
        str | None, typer.Option(help="The kernel's own if left out; or vanilla (attention only), imitation.")
    ] = None,
    outputs: Annotated[int, typer.Option(help="Target columns; classes count one each.", min=1)] = 1,
    width: Annotated[int | None, typer.Option(help="Columns of the stream; fewer than needed: a sketch.")] = None,
    sketch: Annotated[str, typer.Option(help="pca (needs --reference), gaussian or orthogonal.")] = "orthogonal",
    reference: Annotated[str | None, typer.Option(help="For pca: data whose leading directions are kept.")] = None,
    sink: Annotated[float | None, typer.Option(help="Logit of the sink; its default suits unit rows.")] = None,
    epsilon: Annotated[float, typer.Option(help="Tilt of the imitation's head.")] = 1e-4,
    through_aggregator: Annotated[bool, typer.Option(help="Let softmax cg's reductions pass its token.")] = False,
    share_channels: Annotated[bool, typer.Option(help="Let channels share columns.")] = True,
    tied: Annotated[bool, typer.Option(help="Use the same weights for every step.")] = True,
    primitives: Annotated[str, typer.Option(help="What gated layers are made of: exact, swiglu or relu.")] = "exact",
    precision: Annotated[Precision, typer.Option(help="Of the weights.")] = Precision.float64,
    seed: Annotated[int, typer.Option(help="Of random sketches.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Compile kernel ridge regression into the weights of a transformer, and save it.

    Example: ridgeformer compile --features 64 --temperature 0.25 --ridge 0.1 --algorithm cg --steps 20 --out model
    """
    one_step = algorithm == NadarayaWatson.name
    chosen = resolve(
        algorithm, steps=steps or (None if one_step else STEPS), preconditioner=preconditioner,
        spectrum=spectrum or None, step_size=step_size,
    )  # fmt: skip
    model = compile(
        _kernel(kernel, temperature), chosen, features=features, ridge=ridge, attention=attention,
        outputs=outputs, width=width, sketch=sketch, reference=_rows(reference, seed), sink=sink, epsilon=epsilon,
        through_aggregator=through_aggregator, share_channels=share_channels, tied=tied, primitives=primitives,
        dtype=precision.value, seed=seed,
    )  # fmt: skip
    model.save(directory)
    facts = _facts(model, directory)
    print_json(facts) if json else _show(model, facts)


def _kernel(name: str, temperature: float) -> Kernel:
    """Return the kernel of this name, at this temperature if it has one."""
    if name not in COMPILED_KERNELS:
        raise unknown_name("kernel", name, COMPILED_KERNELS)
    return DotProduct() if name == DotProduct.name else Exponential(temperature)


def _rows(reference: str | None, seed: int) -> Any:
    """Return the prepared rows of the reference data."""
    return None if reference is None else prepare(datasets.load(reference), Settings(seed=seed)).X


def _facts(model: CompiledTransformer, directory: Path) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "program": model.program.name,
        "specification": model.spec.as_dict(),
        "budget": asdict(model.budget),
    }


def _show(model: CompiledTransformer, facts: dict[str, Any]) -> None:
    console, spec, budget = out(), model.spec, model.budget
    console.print(f"\n[bold]A transformer that runs {spec.steps} steps of {facts['program']}.[/bold]", soft_wrap=True)
    lines = {
        "features": f"{spec.features}" + (f", sketched to {spec.carried}" if spec.carried < spec.projected else ""),
        "width": f"{budget.width} columns, {budget.overhead} of them beyond the features",
        "layers": f"{budget.sublayers} sublayers, {budget.attention_per_step + budget.gated_per_step} a step",
        "weights": f"{budget.parameters:,}, of which {budget.nonzeros:,} are not zero",
        "beyond a stock transformer": "; ".join(budget.beyond_stock) or "nothing",
        "saved in": facts["directory"],
    }
    for name, value in lines.items():
        console.print(f"  {name:<28} {value}", soft_wrap=True, markup=False)
