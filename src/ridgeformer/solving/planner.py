"""Choosing a method and an engine by size, width, columns and free memory, with the arithmetic shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

import torch
from torch import Tensor

from ridgeformer.algorithms import Algorithm, Auto, Centres, Direct, MixedConjugateGradients, MixedDirect
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import show_bytes
from ridgeformer.kernels import FeatureKernel, Kernel, LogitKernel
from ridgeformer.solving import system
from ridgeformer.solving.engines import Engine, strips
from ridgeformer.solving.engines.tiles import COPIED_BYTES, TILE, diagonal64
from ridgeformer.solving.engines.triangle import SPAN, lost, tile_size
from ridgeformer.solving.plan import Plan
from ridgeformer.solving.preconditioners.pivoted_cholesky import PROPOSALS, default_block, default_rank
from ridgeformer.solving.solution import Status

__all__ = ["Problem", "choose", "choose_for", "conjugate_gradients_plan", "describe", "float32_serves", "retry"]

SMALL_ROWS = 1500
"""Up to so many rows a float64 factorisation takes no time worth saving."""

DIRECT_ROWS = 10_000
"""Up to so many rows a float32 factorisation is faster than conjugate gradients."""

LARGEST_FACTOR = 25_000
"""Up to so many rows a float64 factorisation is waited for, where float32 does not serve."""

NARROW = 64
"""Up to so many features fused attention is faster than tiles."""

LEAST_RANK = 32

LEAN = 0.75
"""Where K is not stored, the preconditioner takes this part of the rank it would have ..."""

LEAN_BLOCKS = 32
"""... and blocks of n over this many rows, at least 600: a step costs more there, and memory matters."""

JUDGED = 0.1
"""A residual may err by this part of the tolerance it is compared with."""

SIZE = {torch.float32: 4, torch.float64: 8}


@dataclass(frozen=True)
class Problem:
    """What a plan is made for.

    Attributes:
        kernel: the kernel.
        n: rows.
        d: features of a row.
        columns: targets.
        dtype: precision of the rows.
        device: where they are.
        ridge: the ridge.
        diagonal: the mean of k(x_i, x_i), which the ridge is compared with.
        span: the least k(x_i, x_i) > 0, and the largest.
        features: width of the kernel's feature map, if it has one.
        free: bytes that may be used.
        tol: relative residual asked for.
    """

    kernel: Kernel
    n: int
    d: int
    columns: int
    dtype: torch.dtype
    device: torch.device
    ridge: float
    diagonal: float
    features: int | None
    free: int
    tol: float = 1e-10
    span: tuple[float, float] = (1.0, 1.0)

    @property
    def few_entries(self) -> bool:
        """Whether K in float64 is small enough to be kept for its products alone."""
        return self.n**2 <= system.STORED_ENTRIES

    @property
    def vectors(self) -> int:
        """Bytes of the iterates, and of a tile with its rows as they are scaled, all in float64."""
        return 12 * 8 * self.n * self.columns + 8 * TILE * (2 * TILE + 4 * self.d)

    def copied(self, size: int) -> int:
        """Bytes of the rows once more, entries of `size` bytes, where an engine copies them; twice if converted."""
        copies = 1 if size <= SIZE[self.dtype] else 2
        return copies * size * self.n * self.d if SIZE[self.dtype] * self.n * self.d <= COPIED_BYTES else 0

    @property
    def assembled(self) -> int:
        """Bytes beside K while it is formed: the rows in float64, and again with dense and sparse features apart."""
        return self.copied(8) + (8 * self.n * self.d if self.copied(8) else 0)

    def stored(self, size: int) -> int:
        """Bytes of K with entries of `size` bytes."""
        return size * self.n**2

    @property
    def bits(self) -> int:
        """How many bits to keep of what float32 leaves out of an entry: enough to judge a residual of `tol`.

        What is lost has either sign, so a residual errs by about sqrt(n) times that and ||alpha|| <= ||y|| / ridge.
        """
        wrong = lost(16) * sqrt(self.n) * self.diagonal / self.ridge
        return 16 if wrong <= JUDGED * self.tol else 32

    @property
    def triangle(self) -> int:
        """Bytes of the tiles on and below the diagonal of K."""
        size = tile_size(self.n)
        filled = size * ceil(self.n / size)
        return (4 + self.bits // 8) * filled * (filled + size) // 2

    def preconditioner(self, rank: int, block: int, size: int) -> int:
        """Bytes of the factor, and of the blocks and the core or, before them, of proposed columns."""
        blocks = size * self.n * ceil(self.n / ceil(self.n / block)) + 16 * rank**2
        return size * self.n * rank + max(blocks, 3 * PROPOSALS * size * self.n)

    def fits(self, needed: int) -> bool:
        """Whether so many bytes may be used."""
        return needed <= self.free


def float32_serves(problem: Problem) -> bool:
    """Whether rounding K to float32 moves no eigenvalue by a good part of the ridge, as errors of entries add up.

    Independent errors of up to 2^-24 k_ii make a matrix of norm about 2^-24 sqrt(n) k_ii. Larger errors make
    refinement stall, which is noticed; they cannot make a wrong answer pass.
    """
    low, high = SPAN
    held = low <= problem.span[0] and problem.span[1] <= high
    representable = 1e-12 <= problem.diagonal <= 1e12 and problem.ridge <= 1e12  # squares must be, too
    return held and representable and problem.ridge >= 4 * 2.0**-24 * sqrt(problem.n) * problem.diagonal


def choose(problem: Problem, algorithm: Algorithm | None = None, engine: str | None = None) -> Plan:
    """Return the plan for an algorithm and an engine, as far as they are given; the rest is chosen.

    Raises:
        InputError: not even the leanest plan fits, with the numbers.
    """
    algorithm = algorithm or Auto()
    if isinstance(algorithm, Direct | MixedDirect) and engine is not None:
        raise _takes_no_engine(algorithm)
    if isinstance(algorithm, Centres):
        return _on_centres(problem, engine, algorithm)
    if isinstance(algorithm, Auto | MixedConjugateGradients):
        iterative = MixedConjugateGradients(steps=algorithm.steps, preconditioner=algorithm.preconditioner)
        if engine == "dask":
            return _on_cluster(problem, iterative)
        if isinstance(algorithm, Auto):
            return _automatic(problem, iterative, engine)
        return conjugate_gradients_plan(problem, _working(problem), engine, iterative)
    if isinstance(algorithm, MixedDirect):
        return _factorisation(problem, SIZE[_working(problem)], "asked for")
    return _as_asked(problem, algorithm, engine)


def choose_for(engine: Engine, problem: Problem, algorithm: Algorithm) -> Plan:
    """Return the plan for an engine that is ready: it has its own way with memory."""
    if isinstance(algorithm, Direct | MixedDirect):
        raise _takes_no_engine(algorithm)
    if isinstance(algorithm, Auto):
        algorithm = MixedConjugateGradients(steps=algorithm.steps, preconditioner=algorithm.preconditioner)
    rank = 0
    if isinstance(algorithm, MixedConjugateGradients | Centres):
        rank = default_rank(problem.n)
    if isinstance(algorithm, Centres) and algorithm.count is not None:
        rank = min(algorithm.count, problem.n)
    reasons = ("the engine was given",)
    return Plan(algorithm, engine.name, _name(engine.dtype), rank, False, 0, problem.free, reasons)


def _takes_no_engine(algorithm: Algorithm) -> InputError:
    return InputError(
        f"algorithm {algorithm.name!r} factorises K and takes no engine: leave it out, or use 'mixed_pcg'."
    )


def retry(problem: Problem, plan: Plan, status: Status) -> Plan | None:
    """Return a plan in float64 for a solve that float32 could not finish, or None where there is nothing better."""
    if (
        status not in (Status.BREAKDOWN, Status.MAX_STEPS)
        or plan.working == "float64"
        or isinstance(plan.algorithm, Direct)
    ):
        return None
    again = f"{plan.algorithm.name} in float32 came to a halt, so float64 is worked in"
    if plan.engine == "dask":
        return replace(plan, working="float64", reasons=(*plan.reasons, again))
    if problem.n <= LARGEST_FACTOR and problem.fits(problem.stored(8) + problem.vectors):
        return _factorisation(problem, 8, again)
    longer = conjugate_gradients_plan(
        problem,
        torch.float64,
        algorithm=plan.algorithm if isinstance(plan.algorithm, MixedConjugateGradients) else None,
    )
    return replace(longer, reasons=(*longer.reasons, again))


def _on_cluster(problem: Problem, algorithm: Algorithm) -> Plan:
    """Return the plan for rows that live elsewhere: only iterates are held here."""
    where = "rows, tiles of K and the preconditioner are the workers' of a Dask cluster"
    return _plan(problem, algorithm, "dask", SIZE[_working(problem)], default_rank(problem.n), problem.vectors, where)


def _automatic(problem: Problem, iterative: MixedConjugateGradients, engine: str | None) -> Plan:
    few = problem.features is not None and SMALL_ROWS < problem.n > 4 * problem.features
    if problem.features is not None and (engine == "features" or (engine is None and few)):
        return _with_features(problem, problem.features, iterative)
    if engine in (None, "stored"):
        if problem.n <= SMALL_ROWS:
            return _as_asked(problem, Direct(), None, "few rows: one Cholesky factorisation in the precision of X")
        if not float32_serves(problem):
            return _in_float64(problem, iterative)
        if problem.n <= DIRECT_ROWS and problem.fits(_roomy(problem)):
            return _factorisation(problem, 4, f"up to {DIRECT_ROWS:,} rows a refined float32 Cholesky is fastest")
    return conjugate_gradients_plan(problem, _working(problem), engine, iterative)


def _working(problem: Problem) -> torch.dtype:
    return torch.float32 if float32_serves(problem) else torch.float64


def _factorisation(problem: Problem, size: int, *reasons: str) -> Plan:
    if size == 4 and problem.fits(_roomy(problem)):
        return _plan(problem, MixedDirect(), "triangle", size, 0, _roomy(problem), *reasons, _held(problem), exact=True)
    beside = "residuals form K again by tiles, so that only the factor is held"
    return _plan(problem, MixedDirect(), "tiles", size, 0, problem.stored(size) + problem.vectors, *reasons, beside)


def _roomy(problem: Problem) -> int:
    """Return the bytes of a float32 factorisation with K kept for the residuals."""
    return problem.triangle + max(problem.stored(4), problem.assembled) + problem.vectors


def _held(problem: Problem) -> str:
    return (
        f"the lower triangle of K with 32 + {problem.bits} bits an entry takes {show_bytes(problem.triangle)} and fits"
    )


def _as_asked(problem: Problem, algorithm: Algorithm, engine: str | None, *reasons: str) -> Plan:
    """Return the plan of an algorithm that works in the precision of X, with K held as `RidgeSystem` does it."""
    size = SIZE[problem.dtype]
    if engine is None:
        few = problem.features is not None and problem.features < problem.n
        engine = "features" if few else "stored" if problem.few_entries else "tiles"
    held = {"stored": problem.stored(8 + size % 8), "features": size * problem.n * (problem.features or 0)}
    needed = 3 * problem.stored(size) if isinstance(algorithm, Direct) else held.get(engine, 0) + problem.vectors
    reasons = reasons or ("asked for",)
    return _plan(problem, algorithm, engine, size, 0, needed, *reasons, exact=engine == "stored")


def _on_centres(problem: Problem, engine: str | None, algorithm: Centres) -> Plan:
    count = min(algorithm.count or default_rank(problem.n), problem.n)
    working = _working(problem)
    size = SIZE[working]
    # the factor in the working precision and in float64, a block of proposals, the core and the sampled rows
    needed = problem.vectors + problem.n * (count * (size + 8) + 2 * PROPOSALS * size + 512 * 8) + 16 * count**2
    needed += problem.n * problem.d * (8 if problem.dtype != torch.float64 else size % 8)
    why = f"{count:,} centres of {problem.n:,} rows: n centres^2 operations, K is never formed"
    return _plan(problem, algorithm, engine or "tiles", size, count, needed, why)


def conjugate_gradients_plan(
    problem: Problem,
    working: torch.dtype,
    engine: str | None = None,
    algorithm: MixedConjugateGradients | None = None,
) -> Plan:
    """Return the plan for `mixed_pcg`: K stored if it fits, else formed again, at a lower rank if need be."""
    algorithm = algorithm or MixedConjugateGradients()
    size, rank, block = SIZE[working], default_rank(problem.n), default_block(problem.n)
    base = problem.vectors + problem.preconditioner(rank, block, size)
    iterations = f"{problem.n:,} rows: conjugate gradients cost less than a factorisation"
    halves = problem.triangle + max(base, problem.assembled)  # the copies are gone before the rest
    if engine in (None, "triangle") and working == torch.float32 and problem.fits(halves):
        how = strips.describe(problem.n, problem.device)
        return _plan(problem, algorithm, "triangle", size, rank, halves, iterations, _held(problem), *how)
    full = problem.stored(size) + max(base, problem.assembled)
    if engine == "stored" or (engine is None and working == torch.float64 and problem.fits(full)):
        held = f"K takes {show_bytes(problem.stored(size))} in {_name(working)} and fits"
        return _plan(problem, algorithm, "stored", size, rank, full, iterations, held)
    if engine == "triangle" and working != torch.float32:
        raise InputError(
            f"engine 'triangle' multiplies in float32, which does not serve at ridge {problem.ridge:.1e} and k(x, x) "
            f"between {problem.span[0]:.1e} and {problem.span[1]:.1e}: use engine='stored' or 'tiles'."
        )
    if engine == "triangle":
        raise _too_large(problem, halves, "engine='tiles' forms K again for every product")
    return _matrix_free(problem, working, engine, algorithm, iterations)


def _matrix_free(
    problem: Problem, working: torch.dtype, engine: str | None, algorithm: Algorithm, iterations: str
) -> Plan:
    size, usual = SIZE[working], ceil(LEAN * default_rank(problem.n))
    rank, block = usual, max(600, problem.n // LEAN_BLOCKS)
    fused = isinstance(problem.kernel, LogitKernel) and (problem.d <= NARROW or problem.device.type == "cuda")
    chosen = engine or ("attention" if fused else "tiles")
    # attention keeps queries, keys, values and outputs of all rows
    attended = 5 * size * problem.n * max(problem.d + 1, 16)
    rows = attended if chosen == "attention" else problem.copied(size)
    why = f"K would take {show_bytes(problem.stored(size))} and {show_bytes(problem.free)} may be used"
    reasons = [iterations, f"{chosen}: {why}, so it is formed again for every product" if engine is None else chosen]
    while rank > LEAST_RANK and not problem.fits(rows + problem.vectors + problem.preconditioner(rank, block, size)):
        rank = max(LEAST_RANK, rank // 2)
    needed = rows + problem.vectors + problem.preconditioner(rank, block, size)
    if not problem.fits(needed):
        raise _too_large(problem, needed, "use fewer rows, or algorithm='nystrom' with few centres")
    if rank < usual:
        reasons.append(f"a preconditioner of rank {rank} rather than {usual}, to fit")
    return replace(_plan(problem, algorithm, chosen, size, rank, needed, *reasons), block=block)


def _in_float64(problem: Problem, iterative: MixedConjugateGradients) -> Plan:
    why = (
        f"the ridge {problem.ridge:.1e} is too small beside the diagonal {problem.diagonal:.1e} for K in float32, "
        "so float64 is worked in"
    )
    if problem.n <= LARGEST_FACTOR and problem.fits(problem.stored(8) + problem.vectors):
        return _factorisation(problem, 8, why)
    plan = conjugate_gradients_plan(problem, torch.float64, algorithm=iterative)
    return replace(plan, reasons=(*plan.reasons, why))


def _with_features(problem: Problem, width: int, algorithm: Algorithm) -> Plan:
    rank = min(width, default_rank(problem.n))
    needed = problem.vectors + 8 * problem.n * width + problem.preconditioner(rank, default_block(problem.n), 8)
    if not problem.fits(needed):
        raise _too_large(problem, needed, "use fewer rows")
    why = f"the kernel has {width} features, fewer than {problem.n:,} rows: K is never formed"
    return _plan(problem, algorithm, "features", 8, rank, needed, why)


def _plan(
    problem: Problem,
    algorithm: Algorithm,
    engine: str,
    size: int,
    rank: int,
    needed: int,
    *reasons: str,
    exact: bool = False,
) -> Plan:
    if not problem.fits(needed):
        raise _too_large(problem, needed, "use algorithm='mixed_pcg', which forms K by tiles")
    working = "float32" if size == 4 else "float64"
    bits = problem.bits if engine == "triangle" else 0
    return Plan(algorithm, engine, working, rank, exact, needed, problem.free, reasons, bits=bits)


def _too_large(problem: Problem, needed: int, advice: str) -> InputError:
    return InputError(
        f"{problem.n:,} rows of {problem.d} features with {problem.columns} targets need about {show_bytes(needed)} "
        f"beside the data, and {show_bytes(problem.free)} may be used: {advice}."
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe(kernel: Kernel, X: Tensor, columns: int, ridge: float, free: int, tol: float = 1e-10) -> Problem:
    """Return the problem a plan is made for."""
    own = diagonal64(kernel, X)
    used = own[own > 0]
    span = (float(used.min()), float(used.max())) if len(used) else (1.0, 1.0)
    features = kernel.feature_map(X[:1]).shape[1] if isinstance(kernel, FeatureKernel) else None
    mean = float(own.mean())
    return Problem(kernel, len(X), X.shape[1], columns, X.dtype, X.device, ridge, mean, features, free, tol, span)
