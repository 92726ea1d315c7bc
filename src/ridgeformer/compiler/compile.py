"""`compile`: from a few numbers to a transformer that performs kernel ridge regression."""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler.layout import arrange
from ridgeformer.compiler.primitives import choose
from ridgeformer.compiler.sketch import sketch_matrix
from ridgeformer.compiler.specification import DTYPES, POSITIVE, SOLVERS, Specification, digest, write_program
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.core.checks import as_matrix, positive, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.memory import require_memory

__all__ = ["compile"]


def compile(
    route: Any = "softmax",
    *,
    features: Any,
    ridge: Any,
    steps: Any,
    solver: Any = None,
    temperature: Any = 1.0,
    projection: Any = None,
    outputs: Any = 1,
    width: Any = None,
    sketch: Any = "pca",
    reference: Any = None,
    sink: Any = None,
    spectrum: Any = None,
    step_size: Any = None,
    epsilon: Any = 1e-4,
    through_aggregator: Any = False,
    share_channels: Any = True,
    tied: Any = True,
    primitives: Any = "exact",
    reciprocal_range: Any = None,
    relu_bound: Any = None,
    relu_knots: Any = None,
    dtype: Any = "float64",
    seed: Any = 0,
) -> CompiledTransformer:
    """Return a transformer whose forward pass solves kernel ridge regression on its support tokens.

    Its weights know the arguments given here and nothing of the data, so one model serves every support set.

    Args:
        route: "linear" (linear attention, K = Phi Phi'), "softmax" (softmax attention, exponential kernel),
            "vanilla" (stock softmax attention, no other sublayer) or "imitation" (softmax heads imitating
            linear attention on features centred over the supports).
        features: Features of a row.
        ridge: lambda > 0.
        steps: Iterations; every one is a block of sublayers.
        solver: "cg", "pcg" (linear), "richardson", "neumann", "chebyshev"; None is the route's first.
            "nadaraya-watson" is one softmax head, for comparison.
        temperature: Of the exponential kernel.
        projection: U, (projected, features), applied by the embedding; None is the identity.
        outputs: Target columns; each has scalars of its own and all share every kernel product.
        width: Columns of the stream. Below what the features need, they are sketched to fit.
        sketch: "pca" (of `reference`), "gaussian", "orthogonal", or a matrix (carried, features).
        reference: Rows whose principal directions "pca" keeps; not the data to be solved.
        sink: Logit of the sink; None is 1 / temperature, right for rows of unit length. Vanilla: log(ridge).
        spectrum: Ends of the spectrum of K + ridge I, for "chebyshev".
        step_size: For "richardson"; None finds a safe one in context.
        epsilon: Tilt of the imitation's head.
        through_aggregator: Let reductions pass through the aggregator token (softmax cg).
        share_channels: Let channels with disjoint lives share columns.
        tied: Use the same weights for every step; Chebyshev's always differ.
        primitives: "exact" (bilinear and guarded reciprocal units), "swiglu" (stock SwiGLU units: products exact
            to rounding, reciprocals by Newton sweeps) or "relu" (ReLU units, piecewise linear: an approximation).
        reciprocal_range: Smallest and largest divisor, (1e-12, 1e4) for "swiglu", (1e-2, 1e2) for "relu". Smaller
            divisors get too small an inverse, with which the network idles; larger ones are out of range.
        relu_bound: M, the largest absolute value of a factor, 8 by default.
        relu_knots: N, even, 256 by default: a product is off by at most M^2 / N^2.
        dtype: "float64" or "float32".
        seed: Of random sketches.

    Example:
        >>> model = compile("linear", features=3, ridge=0.1, steps=4)
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> model(X, torch.ones(3), X)          # K = I: every prediction is 1 / 1.1
        tensor([0.9091, 0.9091, 0.9091], dtype=torch.float64)
    """
    if not isinstance(route, str) or route not in SOLVERS:
        raise unknown_name("route", route, SOLVERS)
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    features, ridge = whole(features, "features", 1), positive(ridge, "ridge", POSITIVE["ridge"])
    temperature, seed = positive(temperature, "temperature", POSITIVE["temperature"]), whole(seed, "seed", 0)
    width = None if width is None else whole(width, "width", 1)
    if projection is None:
        _require(features * features, torch.float64, f"{features:,} features without a projection")
    U = _projection(projection, features)
    if sink is None:
        sink = log(ridge) if route == "vanilla" else 1 / temperature
    solver = SOLVERS[route][0] if solver is None else solver
    units = choose(primitives, reciprocal_range=reciprocal_range, relu_bound=relu_bound, relu_knots=relu_knots)

    def specify(carried: int, stream: int | None, named: str | None) -> Specification:
        return Specification.of(
            route=route, solver=solver, features=features, projected=U.shape[0], carried=carried, ridge=ridge,
            steps=1 if solver == "nadaraya-watson" else steps, temperature=temperature, outputs=outputs,
            sink=sink, spectrum=spectrum, step_size=step_size, epsilon=epsilon,
            through_aggregator=through_aggregator, share_channels=share_channels,
            tied=False if solver == "chebyshev" else tied, width=stream, dtype=name,
            primitives=primitives, embedding_digest=named, **units.options,
        )  # fmt: skip

    as_given = projection is None
    carried = _carried(specify(U.shape[0], None, None if as_given else digest(U.T, U.T)), width)
    kept = sketch_matrix(sketch, U, carried, reference, seed) if carried < U.shape[0] else U
    named = None if as_given and kept is U else digest(kept.T, U.T)
    return CompiledTransformer(specify(carried, width, named), kept.T, U.T)


def _require(numbers: int, dtype: torch.dtype, what: str) -> None:
    require_memory(numbers * dtype.itemsize, f"a model of {what}", "choose fewer, or a width to sketch to")


def _projection(projection: Any, features: int) -> Tensor:
    if projection is None:
        return torch.eye(features, dtype=torch.float64)
    U = as_matrix(projection, "projection").to(torch.float64)
    if U.shape[1] != features:
        raise ShapeError(f"projection has shape {tuple(U.shape)}; (projected, {features}) was expected.")
    return U


def _carried(spec: Specification, width: int | None) -> int:
    """Return how many features the stream can carry at this width; refuse what does not fit into memory."""
    numbers = spec.least_numbers if width is None else 2 * width * (spec.features + spec.outputs + 1)
    _require(numbers, spec.torch_dtype, f"{spec.features:,} features and {spec.outputs:,} outputs")
    if width is None:
        return spec.carried
    if spec.outputs > width:
        raise InputError(f"width is {width} and {spec.outputs:,} outputs have a column each: give a larger width.")
    program = write_program(spec)
    layout = arrange(program, spec.carried, spec.outputs, share=spec.share_channels)
    blocks = sum(channel.size == "features" for channel in program.channels.values())
    room = (width - layout.overhead) // blocks
    if room < 1:
        raise InputError(
            f"width is {width}; the program itself needs {layout.overhead} columns and at least {blocks} for features: "
            f"give a width of at least {layout.overhead + blocks}."
        )
    return min(spec.carried, room)
