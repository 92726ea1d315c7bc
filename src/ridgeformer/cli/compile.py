"""`ridgeformer compile`, `run`, `explain` and `certify`: transformers compiled from a regression."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import console as ui
from ridgeformer.cli import importing
from ridgeformer.cli.programs import given_program
from ridgeformer.core.errors import InputError, ShapeError

if TYPE_CHECKING:
    from ridgeformer.compiler import CompiledTransformer, Specification
    from ridgeformer.datasets import Split
    from ridgeformer.export import Export
    from ridgeformer.kernels import Kernel

__all__ = ["certify", "compile_", "explain", "run"]

Directory = Annotated[str, typer.Argument(metavar="DIR", help="A model saved by `ridgeformer compile`.")]
AnyDirectory = Annotated[str, typer.Argument(metavar="DIR", help="A model saved by `ridgeformer compile` or `export`.")]

STEPS = 20


def compile_(
    context: typer.Context,
    features: Annotated[int, typer.Option(help="Features of a row.", min=1)],
    directory: Annotated[Path, typer.Option("--out", help="Where the model goes.")],
    kernel: Annotated[str, typer.Option(help="exponential, gaussian or dot_product.")] = "exponential",
    temperature: Annotated[float, typer.Option(help="Of the exponential and the Gaussian kernel, > 0.")] = 1.0,
    ridge: Annotated[float, typer.Option(help="Regularisation, > 0.")] = 0.1,
    algorithm: Annotated[
        str,
        typer.Option(
            help="cg, richardson, neumann, chebyshev, heavy_ball, nesterov, nadaraya_watson (one head), or a program: "
            "see `ridgeformer programs`."
        ),
    ] = "cg",
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=NUMBER", help="Of a program, such as penalty=0.05; any number.")
    ] = None,
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
    reference: Annotated[
        str | None, typer.Option(help="For pca: data whose leading directions are kept.", callback=ui.known_data)
    ] = None,
    sink: Annotated[float | None, typer.Option(help="Logit of the sink; its default suits unit rows.")] = None,
    epsilon: Annotated[float, typer.Option(help="Tilt of the imitation's head.")] = 1e-4,
    through_aggregator: Annotated[bool, typer.Option(help="Let softmax cg's reductions pass its token.")] = False,
    share_channels: Annotated[bool, typer.Option(help="Let channels share columns.")] = True,
    tied: Annotated[bool, typer.Option(help="Use the same weights for every step.")] = True,
    primitives: Annotated[str, typer.Option(help="What gated layers are made of: exact, swiglu or relu.")] = "exact",
    precision: Annotated[ui.Precision, typer.Option(help="Of the weights.")] = ui.Precision.float64,
    seed: Annotated[int, typer.Option(help="Of random sketches.", min=0)] = 0,
    json: ui.Json = False,
) -> None:
    """Compile kernel ridge regression into the weights of a transformer, and save it.

    Example: ridgeformer compile --features 64 --temperature 0.25 --ridge 0.1 --algorithm cg --steps 20 --out model
    """
    with importing():
        from ridgeformer import datasets
        from ridgeformer.algorithms import NadarayaWatson, resolve
        from ridgeformer.compiler.compile import compile
        from ridgeformer.programs import PROGRAMS

    if algorithm in PROGRAMS:
        _finish(_compile_program(context), directory, json)
        return
    if option:
        raise InputError(f"--option belongs to a program, and {algorithm!r} is none: see `ridgeformer programs`.")
    one_step = algorithm == NadarayaWatson.name
    chosen = resolve(
        algorithm, steps=steps or (None if one_step else STEPS), preconditioner=preconditioner,
        spectrum=spectrum or None, step_size=step_size,
    )  # fmt: skip
    rows = None if reference is None else datasets.Split.of(datasets.load(reference), seed=seed).X
    model = compile(
        _kernel(kernel, temperature), chosen, features=features, ridge=ridge, attention=attention,
        outputs=outputs, width=width, sketch=sketch, reference=rows, sink=sink, epsilon=epsilon,
        through_aggregator=through_aggregator, share_channels=share_channels, tied=tied, primitives=primitives,
        dtype=precision.value, seed=seed,
    )  # fmt: skip
    _finish(model, directory, json)


def _compile_program(context: typer.Context) -> CompiledTransformer:
    """Return the program that `--algorithm` names, compiled with the options that were given on the command line."""
    from ridgeformer.compiler.compile import compile

    given = context.params
    sources = {name: context.get_parameter_source(name) for name in given}
    chosen = {name: given[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    program = given_program(given["algorithm"], given["steps"] or STEPS, given["option"] or [], chosen)
    general = {name: given[name] for name in ("features", "outputs", "share_channels", "tied", "primitives")}
    return compile(program, dtype=given["precision"].value, **general)


def _finish(model: CompiledTransformer, directory: Path, json: bool) -> None:
    model.save(directory)
    facts = {"directory": str(directory), **_facts(model)}
    ui.print_json(facts) if json else _show(model, facts)


def _show(model: CompiledTransformer, facts: dict[str, Any]) -> None:
    spec, budget = model.spec, model.budget
    ui.out().print(f"\n[bold]A transformer that runs {spec.steps} steps of {facts['program']}.[/bold]", soft_wrap=True)
    lines = {
        "features": f"{spec.features}" + (f", sketched to {spec.carried}" if spec.carried < spec.projected else ""),
        "width": f"{budget.width} columns, {budget.overhead} of them beyond the features",
        "layers": f"{budget.sublayers} sublayers, {budget.attention_per_step + budget.gated_per_step} a step",
        "weights": f"{budget.parameters:,}, of which {budget.nonzeros:,} are not zero",
        "beyond a stock transformer": "; ".join(budget.beyond_stock) or "nothing",
        "saved in": facts["directory"],
    }
    ui.print_facts(lines, 28)


def _kernel(name: str, temperature: float) -> Kernel:
    """Return the kernel of this name, at this temperature if it has one."""
    with importing():
        from ridgeformer.compiler.specification import COMPILED_KERNELS
        from ridgeformer.core.errors import unknown_name
        from ridgeformer.kernels import DotProduct, Exponential, Gaussian

    if name not in COMPILED_KERNELS:
        raise unknown_name("kernel", name, COMPILED_KERNELS)
    if name == DotProduct.name:
        return DotProduct()
    return Gaussian(temperature) if name == Gaussian.name else Exponential(temperature)


def _facts(model: CompiledTransformer) -> dict[str, Any]:
    return {"program": model.program.name, "specification": model.spec.as_dict(), "budget": asdict(model.budget)}


def explain(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="A model saved by `ridgeformer compile`, or a program.")
    ],
    json: ui.Json = False,
) -> None:
    """Explain a compiled model, or a program that ships: its cost, each channel's meaning, each layer's work.

    Example: ridgeformer explain model
    """
    with importing():
        from ridgeformer.compiler import load_model
        from ridgeformer.compiler.compile import compile
        from ridgeformer.programs import PROGRAMS

    shipped = directory in PROGRAMS and not Path(directory).exists()
    model = compile(given_program(directory, 1, []), features=2) if shipped else load_model(directory)
    if json:
        channels = {name: channel.meaning for name, channel in model.program.channels.items()}
        columns = {name: list(places) for name, places in model.layout.columns.items()}
        ui.print_json({**_facts(model), "channels": channels, "columns": columns, "text": model.explain()})
        return
    ui.out().print(model.explain(), markup=False, soft_wrap=True)


def run(
    directory: AnyDirectory,
    data: ui.Data,
    target: ui.Target = None,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: ui.MaxRows = 300,
    seed: ui.Seed = 0,
    html: ui.Html = None,
    json: ui.Json = False,
) -> None:
    """Run a compiled model: training rows become support tokens, held-out rows query tokens.

    Of an exported directory, the stock class runs, and the page shows its hidden states.

    Example: ridgeformer run model digits --html trace.html
    """
    with importing():
        from ridgeformer.compiler import load_model
        from ridgeformer.compiler.compile import assemble

    exported = _open_export(directory)
    io = None if exported is None else exported.io
    model = load_model(directory) if io is None else assemble(io.spec, io.carried, io.unsketched)
    split = _prepare_for(model.spec, data, target, preprocessing, max_rows, seed)
    facts = _answers(model, exported, split)
    if html is not None:
        from ridgeformer.views.viewer import few_rows, trace_view, write_viewer

        X, y, Xq = few_rows(split.X, split.y, split.Xt, seed=seed)
        view = trace_view(exported or model, X, y, Xq, name=split.dataset.name)
        facts |= {"page": str(write_viewer(view, html)), "watched": [len(X), len(Xq)]}
    ui.print_json(facts) if json else _show_answers(facts)


def _open_export(directory: str) -> Export | None:
    """Return the export in a directory, None if it holds none; only an export needs the library of its class."""
    with importing():
        from ridgeformer.export import FACTS

        if not (Path(directory) / FACTS).exists():
            return None
        from ridgeformer.export import load_export
    return load_export(directory)


def _prepare_for(
    spec: Specification, data: str, target: str | None, preprocessing: str, max_rows: int, seed: int
) -> Split:
    """Return the data, prepared; they must have the model's numbers of features and outputs."""
    from ridgeformer import datasets

    dataset = datasets.load(data, target=target)
    split = datasets.Split.of(dataset, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    for what, option, found, compiled in (
        ("features", "--features", split.X.shape[1], spec.features),
        ("outputs", "--outputs", split.y.shape[1], spec.outputs),
    ):
        if found != compiled:
            raise ShapeError(
                f"{split.dataset.name} has {found} {what} and the model was compiled for {compiled}: "
                f"compile one with {option} {found}."
            )
    return split


def _answers(model: CompiledTransformer, exported: Export | None, data: Split) -> dict[str, Any]:
    """Run the model, or its export, and compare with the exact predictions, or a program's with its interpreter's."""
    import torch

    from ridgeformer.algorithms.written import WrittenAlgorithm
    from ridgeformer.compiler.certificate.problem import all_features, pose

    written = isinstance(model.spec.algorithm, WrittenAlgorithm)

    begin = time.perf_counter()
    with torch.no_grad():
        found = model(data.X, data.y, data.Xt) if exported is None else exported(data.X, data.y, data.Xt)[0]
        outputs = found.to(torch.float64)
    seconds = time.perf_counter() - begin
    if written:
        exact = model.interpret(data.X, data.y, data.Xt).f[-1].to(torch.float64)
    else:
        exact = pose(model.spec, all_features(model), data.X, data.y, data.Xt).f
    same = None  # for regression
    if data.labels is not None:
        same = float((data.decide(outputs) == data.decide(exact)).double().mean())
    return {
        "data": data.dataset.name,
        "notes": list(data.notes),
        "task": data.dataset.task,
        "program": model.program.name,
        "class": None if exported is None else type(exported.model).__name__,
        "compared_with": "its interpreter" if written else "the direct solve",
        "steps": model.spec.steps,
        "supports": len(data.X),
        "queries": len(data.Xt),
        "held_out_score": data.score(outputs),
        "direct_score": data.score(exact),
        "largest_difference": float((outputs - exact).abs().max()),
        "typical_output": float(exact.square().mean().sqrt()),
        "same_decisions": same,
        "seconds": seconds,
    }


def _show_answers(facts: dict[str, Any]) -> None:
    from ridgeformer.core.words import show_score

    score = show_score(facts["held_out_score"], facts["task"])
    name = facts["class"] or "The transformer"
    ui.out().print(f"\n[bold]{name} reaches {score} on held-out rows.[/bold]")
    lines = {
        f"{facts['compared_with']} reaches": show_score(facts["direct_score"], facts["task"]),
        "largest difference between them": f"{facts['largest_difference']:.1e}; outputs are about "
        f"{facts['typical_output']:.2g}",
        "supports and queries": f"{facts['supports']} and {facts['queries']}",
        "steps": f"{facts['steps']} of {facts['program']}, {facts['seconds']:.2f} s",
    }
    if facts["same_decisions"] is not None:
        lines[f"same class as {facts['compared_with']}"] = f"{100 * facts['same_decisions']:.1f} %"
    ui.print_facts(lines, 34)
    ui.print_notes(facts["notes"], "  ")
    if "page" in facts:
        supports, queries = facts["watched"]
        page = f"Trace of {supports} supports and {queries} queries: {facts['page']}"
        ui.out().print(page, soft_wrap=True, markup=False)


def certify(
    directory: AnyDirectory,
    data: ui.Data,
    target: ui.Target = None,
    preprocessing: ui.Preprocessing = "auto",
    max_rows: ui.MaxRows = 300,
    seed: ui.Seed = 0,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Largest proved distance that counts as accurate, relative to the largest prediction: 0.01 by "
            "default. For a program: from its interpreter, 1e-10 in float64."
        ),
    ] = None,
    curves: Annotated[bool, typer.Option(help="With --json: add the measurements of every step.")] = False,
    json: ui.Json = False,
) -> None:
    """Bound the distance between a compiled model and exact ridge regression; exit code 1 if a check fails.

    An exported directory is certified from the hidden states of its stock class.

    Example: ridgeformer certify model digits
    """
    with importing():
        from ridgeformer.compiler import certify as run_certify
        from ridgeformer.compiler import load_model
        from ridgeformer.export import certify_export

    exported = _open_export(directory)
    if exported is not None:
        split = _prepare_for(exported.io.spec, data, target, preprocessing, max_rows, seed)
        certificate = certify_export(exported, split.X, split.y, split.Xt, tolerance=tolerance)
    else:
        model = load_model(directory)
        split = _prepare_for(model.spec, data, target, preprocessing, max_rows, seed)
        certificate = run_certify(model, split.X, split.y, split.Xt, tolerance=tolerance)
    if json:
        facts: dict[str, Any] = {"data": split.dataset.name, **certificate.as_dict()}
        ui.print_json(facts if curves else {key: value for key, value in facts.items() if key != "curves"})
    else:
        verdict, _, rest = str(certificate).partition("\n")
        ui.out().print(verdict, style="bold green" if certificate.holds else "bold red", markup=False, soft_wrap=True)
        ui.out().print(rest, markup=False, soft_wrap=True)
        ui.print_notes(split.notes, "  ")
    if not certificate.holds:
        raise typer.Exit(1)
