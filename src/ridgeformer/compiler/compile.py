"""`compile`: from a kernel and an algorithm to a transformer, by writing a program, arranging it and lowering it."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Compilable, resolve
from ridgeformer.algorithms.written import WrittenAlgorithm
from ridgeformer.compiler.attentions import CompiledAttention
from ridgeformer.compiler.layout import arrange
from ridgeformer.compiler.lowering import lower
from ridgeformer.compiler.primitives import choose
from ridgeformer.compiler.specification import DTYPES, Specification, choose_attention, digest, write_program
from ridgeformer.compiler.transformer import CompiledTransformer
from ridgeformer.compiler.written import WrittenAttention
from ridgeformer.core.checks import ArrayLike, as_matrix, as_query, positive, whole
from ridgeformer.core.errors import InputError, ShapeError, unknown_name
from ridgeformer.core.memory import require_memory
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Kernel

__all__ = ["SKETCHES", "assemble", "compile", "sketch_matrix"]


def compile(
    kernel: Kernel | WrittenAlgorithm,
    algorithm: str | Algorithm | None = None,
    *,
    features: int,
    ridge: float | None = None,
    projection: ArrayLike | None = None,
    attention: str | None = None,
    outputs: int = 1,
    width: int | None = None,
    sketch: str | ArrayLike = "pca",
    reference: ArrayLike | None = None,
    sink: float | None = None,
    epsilon: float = 1e-4,
    through_aggregator: bool = False,
    share_channels: bool = True,
    tied: bool = True,
    primitives: str = "exact",
    reciprocal_range: tuple[float, float] | None = None,
    relu_bound: float | None = None,
    relu_knots: int | None = None,
    dtype: str | torch.dtype = "float64",
    seed: int = 0,
) -> CompiledTransformer:
    """Return a transformer whose forward pass solves kernel ridge regression on its support tokens.

    Its weights know the arguments given here and nothing of the data, so one model serves every support set.

    Args:
        kernel: `DotProduct`, `Exponential` or `Gaussian`; the embedding applies its projection. A program of one's
            own, made by `@rf.algorithm`, stands here alone: it has no kernel, and no ridge but its own options.
        algorithm: `ConjugateGradients(steps=12)` and the like; every step is a block of sublayers.
            `Richardson` finds a safe step size in context unless it has one; `Chebyshev`, `HeavyBall` and `Nesterov`
            need their spectrum. `NadarayaWatson` is one softmax head, for comparison.
        features: Features of a row.
        ridge: lambda > 0; needed with a kernel.
        projection: For a program: the matrix (projected, features) that its embedding multiplies rows by. Kernels have
            their own.
        attention: None is the kernel's own: "linear" for `DotProduct`, "softmax" for the others. "vanilla" is
            stock softmax attention and no other sublayer (`Richardson`), "imitation" softmax heads that imitate linear
            attention on features centred over the supports (`DotProduct`, `ConjugateGradients`).
        outputs: Target columns; each has scalars of its own and all share every kernel product.
        width: Columns of the stream. Below what the features need, they are sketched to fit.
        sketch: "pca" (of `reference`), "gaussian", "orthogonal", or a matrix (carried, features).
        reference: Rows whose principal directions "pca" keeps; not the data to be solved.
        sink: Logit of the sink; None is 1 / temperature, right for rows of unit length. Gaussian: 0. Vanilla:
            log(ridge).
        epsilon: Tilt of the imitation's head.
        through_aggregator: Let means pass through the aggregator token (softmax conjugate gradients).
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
        >>> from ridgeformer.algorithms import ConjugateGradients
        >>> from ridgeformer.kernels import DotProduct
        >>> model = compile(DotProduct(), ConjugateGradients(steps=4), features=3, ridge=0.1)
        >>> X = torch.eye(3, dtype=torch.float64)
        >>> model(X, torch.ones(3), X)          # K = I: every prediction is 1 / 1.1
        tensor([0.9091, 0.9091, 0.9091], dtype=torch.float64)
    """
    written = kernel if isinstance(kernel, WrittenAlgorithm) else None
    if isinstance(kernel, WrittenAlgorithm):
        bare, applied = None, None if projection is None else as_matrix(projection, "projection")
    else:
        if projection is not None:
            raise InputError("projection belongs to a program; a kernel has its own: DotProduct(projection).")
        bare, applied = _without_projection(kernel)
    runs = _runs(written, algorithm)
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    features = whole(features, "features", 1)
    seed, width = whole(seed, "seed", 0), None if width is None else whole(width, "width", 1)
    options = {"sink": sink, "epsilon": epsilon, "through_aggregator": through_aggregator}
    realised: CompiledAttention = WrittenAttention()
    if bare is None:
        ridge = _without_kernel(width, ridge=ridge, attention=attention, **options)
    else:
        ridge = positive(ridge, "ridge", "without it the system may be singular")
        realised = choose_attention(bare, ridge, attention, **options)
    U = _projection(applied, features)
    units = choose(primitives, reciprocal_range=reciprocal_range, relu_bound=relu_bound, relu_knots=relu_knots)

    def specify(carried: int, stream: int | None, named: str | None) -> Specification:
        return Specification.of(
            algorithm=runs, attention=realised, features=features, projected=U.shape[0], carried=carried,
            ridge=ridge, outputs=outputs, share_channels=share_channels, tied=tied, width=stream, dtype=name,
            primitives=primitives, embedding_digest=named, **units.options,
        )  # fmt: skip

    as_given = applied is None
    carried = _carried(specify(U.shape[0], None, None if as_given else digest(U.T, U.T)), width)
    kept = sketch_matrix(sketch, U, carried, reference, seed) if carried < U.shape[0] else U
    named = None if as_given and kept is U else digest(kept.T, U.T)
    return assemble(specify(carried, width, named), kept.T, U.T)


def assemble(
    spec: Specification, embedding: Tensor, unsketched: Tensor | None = None, most_units: int | None = None
) -> CompiledTransformer:
    """Return the transformer of a specification: the whole pipeline.

    Args:
        spec: What the weights know.
        embedding: What the features are multiplied by, (features, carried).
        unsketched: What the sketch is a sketch of, (features, projected).
        most_units: Units that a gated sublayer may have, where a file says so.
    """
    program = write_program(spec)  # what to do, in named channels
    layout = arrange(program, spec.carried, spec.outputs, share=spec.share_channels, width=spec.width)  # their columns
    weights = lower(program, layout, spec, embedding, most_units)  # matrices
    return CompiledTransformer(spec, program, layout, weights, embedding, unsketched)


def _runs(written: WrittenAlgorithm | None, algorithm: str | Algorithm | None) -> Compilable:
    """Return the algorithm to be compiled."""
    if written is not None:
        if algorithm is not None:
            raise InputError(f"{written.name!r} is the whole program: leave the second argument out.")
        return written
    if algorithm is None:
        raise InputError("an algorithm was expected beside the kernel, such as ConjugateGradients(steps=12).")
    runs = resolve(algorithm)
    if isinstance(runs, WrittenAlgorithm):
        raise InputError(f"{runs.name!r} is a program with heads of its own: compile it alone, without a kernel.")
    if not isinstance(runs, Compilable):
        raise InputError(f"{runs.name!r} cannot be compiled: choose an iterative algorithm such as 'cg'.")
    return runs


def _without_kernel(width: int | None, **options: object) -> float:
    """Return the ridge of a program of one's own, which has none; refuse the options of a kernel."""
    for name, given in options.items():
        if given is not None and given != {"epsilon": 1e-4, "through_aggregator": False}.get(name):
            raise InputError(f"{name} belongs to a kernel, and a program has its own options: leave it out.")
    if width is not None:
        raise InputError("a program carries its features as they are: leave width out.")
    return nan


def _without_projection(kernel: Any) -> tuple[Kernel, Any]:
    """Return a kernel without its projection, and that."""
    if isinstance(kernel, type) and issubclass(kernel, WrittenAlgorithm):
        raise InputError(f"{kernel.name!r} is a kind of algorithm; a value was expected: {kernel.name}(steps=12).")
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel is {kernel!r}; a kernel such as Exponential(temperature=0.5) was expected.")
    if kernel.log_scale:
        raise InputError(f"the kernel has log_scale {kernel.log_scale:g}: leave it out, and give sink= instead.")
    projection = getattr(kernel, "projection", None)
    return kernel if projection is None else replace(kernel, projection=None), projection  # type: ignore[type-var]


def _require(numbers: int, dtype: torch.dtype, what: str) -> None:
    require_memory(numbers * dtype.itemsize, f"a model of {what}", "choose fewer, or a width to sketch to")


def _projection(projection: Tensor | None, features: int) -> Tensor:
    if projection is None:
        _require(features * features, torch.float64, f"{features:,} features without a projection")
        return torch.eye(features, dtype=torch.float64)
    if projection.shape[1] != features:
        raise ShapeError(f"projection has shape {tuple(projection.shape)}; (projected, {features}) was expected.")
    return projection.to(torch.float64)


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


SKETCHES = ("pca", "gaussian", "orthogonal")


def sketch_matrix(kind: str | ArrayLike, U: Tensor, rank: int, reference: ArrayLike | None, seed: int) -> Tensor:
    """Return S U, (rank, features): the projected features sketched to `rank` columns.

    Args:
        kind: "pca" keeps the leading directions of the reference rows; "gaussian" has entries N(0, 1/rank);
            "orthogonal" has orthonormal rows; a matrix (rank, projected) is taken as it is.
        U: The projection, (projected, features).
        rank: Columns the stream carries.
        reference: Rows for "pca".
        seed: Of the random ones.
    """
    if not isinstance(kind, str):
        S = as_matrix(kind, "sketch").to(U)
        if S.shape != (rank, U.shape[0]):
            raise ShapeError(f"sketch has shape {tuple(S.shape)}; ({rank}, {U.shape[0]}) was expected at this width.")
        return S @ U
    if kind not in SKETCHES:
        raise unknown_name("sketch", kind, SKETCHES)
    if kind == "pca":
        if reference is None:
            raise InputError(
                "sketch='pca' needs reference=, rows whose leading directions are kept; or use 'orthogonal'."
            )
        rows = as_query(reference, U.T.new_zeros(1, U.shape[1]), "reference") @ U.T
        directions = torch.linalg.svd(rows, full_matrices=True).Vh[:rank]
        return directions @ U
    draw = torch.randn(U.shape[0], rank, generator=torch_generator(seed, "sketch", kind), dtype=U.dtype)
    if kind == "gaussian":
        return draw.T @ U / rank**0.5
    Q, R = torch.linalg.qr(draw)
    return (Q * R.diagonal().sign()).T @ U
