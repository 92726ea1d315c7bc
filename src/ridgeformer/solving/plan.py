"""The plan of a solve: algorithm and engine by size, width, outputs and free memory, with the arithmetic shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

import torch

from ridgeformer.algorithms import Algorithm, Auto, Centres, Direct, MixedConjugateGradients, MixedDirect
from ridgeformer.core.compiled import worthwhile
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import show_bytes
from ridgeformer.kernels import LogitKernel
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.engines import Engine, strips
from ridgeformer.solving.engines.fused import fuses
from ridgeformer.solving.engines.tiles import COPIED_BYTES, TILE
from ridgeformer.solving.engines.triangle import SPAN, lost, tile_size
from ridgeformer.solving.engines.whole_numbers import exact_products
from ridgeformer.solving.preconditioners.pivoted_cholesky import PROPOSALS, default_block, default_rank
from ridgeformer.solving.preconditioners.rounded_cholesky import RoundedCholesky
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Plan", "choose_plan", "float32_serves", "plan_in_float64", "rounding_serves"]

SMALL_ROWS = 1500
"""Largest n at which a float64 Cholesky is cheap enough to always use."""

DIRECT_ROWS = 13_000
"""Largest n at which a float32 Cholesky is faster than conjugate gradients."""

ROUNDED = 1e-5
"""Of sqrt(n) k(x, x): from this ridge on a Cholesky factor may have products of 8-bit numbers. On 10,000 pictures 6 to
11 steps of conjugate gradients are left then; smaller ridges leave more, and at last no positive definite matrix."""

LARGEST_FACTOR = 25_000
"""Largest n for a float64 Cholesky when float32 is too inaccurate."""

NARROW = 64
"""Largest number of features at which fused attention is faster than tiles, without Numba."""

LEAST_RANK = 32

FACTORISED = 2**26
"""Entries of the columns at the centres up to which they are kept and factorised."""

FIRST_CENTRES = 256
"""Where doubling begins."""

SAMPLED_ROWS, LOCAL_ROWS = 512, 1000
"""Rows from which the error of a fit on centres is estimated, where their columns are factorised and where not."""

BLOCK = 2**18
"""Rows that a pass over them works on before the next are touched; they may be on disk."""

TEMPORARIES = 10
"""Copies of a block of entries that a kernel makes of it on the way, at most, where it is not fused."""

LEAN = 0.75
"""Where K is not stored, the preconditioner takes this part of the rank it would have ..."""

LEAN_BLOCKS = 32
"""... and blocks of n over this many rows, at least 600: a step costs more there, and memory matters."""

JUDGED = 0.1
"""A residual may err by this part of the tolerance it is compared with."""


@dataclass(frozen=True)
class Plan:
    """How a system is solved.

    Attributes:
        algorithm: the one that runs; never `Auto`.
        engine: how products with K are formed: features, stored, tiles, fused, attention, or an engine of your own.
        working: the precision of those products, or of the factorisation; the reported residual is float64 always.
        rank: of the preconditioner at most, or the number of centres; 0 where there is none.
        exact: whether K is kept for float64 residuals, beside its factor or its working precision.
        needed: bytes beyond X and y, as budgeted.
        free: bytes that may be used.
        reasons: one sentence for each decision.
        block: rows of a block of the preconditioner at most; 0 leaves it to the preconditioner.
        bits: kept by the triangle engine of what float32 leaves out of an entry; 0 where there is none.
    """

    algorithm: Algorithm
    engine: str
    working: str
    rank: int
    exact: bool
    needed: int
    free: int
    reasons: tuple[str, ...]
    block: int = 0
    bits: int = 0

    def __str__(self) -> str:
        head = f"{self.algorithm.name} on the {self.engine} engine, working in {self.working}: about "
        return "\n".join(
            [f"{head}{show_bytes(self.needed)} of {show_bytes(self.free)}", *(f"- {reason}" for reason in self.reasons)]
        )


def choose_plan(system: RidgeSystem, algorithm: Algorithm, engine: str | Engine | None = None) -> Plan:
    """Return the plan for a system with targets, an algorithm and an engine, as far as it is given.

    Raises:
        InputError: not even the leanest plan fits, with the numbers.
    """
    if isinstance(algorithm, Direct | MixedDirect) and engine is not None:
        raise InputError(
            f"algorithm {algorithm.name!r} factorises K and takes no engine: leave it out, or use 'mixed_pcg'."
        )
    if isinstance(algorithm, Auto | MixedConjugateGradients):
        iterative = MixedConjugateGradients(steps=algorithm.steps, preconditioner=algorithm.preconditioner)
        if isinstance(engine, Engine):
            return _for_engine(system, iterative, engine, default_rank(system.n))
        if engine == "dask":
            where = "rows, tiles of K and the preconditioner are the workers' of a Dask cluster"
            return _plan(system, iterative, "dask", _working(system), default_rank(system.n), _vectors(system), where)
        if isinstance(algorithm, Auto):
            return _automatic(system, iterative, engine)
        return _conjugate_gradients(system, iterative, _working(system), engine)
    if isinstance(algorithm, Centres):
        asked = FIRST_CENTRES if isinstance(algorithm.count, str) else algorithm.count
        if isinstance(algorithm.count, int) and algorithm.count > system.n:
            raise InputError(
                f"count is {algorithm.count:,} centres and there are {system.n:,} rows: centres are rows, so take at "
                "most as many, or algorithm='auto' for the fit of all rows."
            )
        count = min(asked or default_rank(system.n), system.n)
        if isinstance(engine, Engine):
            return _for_engine(system, algorithm, engine, count)
        return _on_centres(system, algorithm, engine or "tiles", count)
    if isinstance(engine, Engine):
        return _for_engine(system, algorithm, engine, 0)
    if isinstance(algorithm, MixedDirect):
        return _factorisation(system, _working(system), "asked for")
    return _in_precision_of_rows(system, algorithm, engine, "asked for")


def plan_in_float64(system: RidgeSystem, plan: Plan) -> Plan | None:
    """Return a plan in float64 for a solve that float32 could not finish, or None where there is nothing better."""
    if plan.working == "float64" or isinstance(plan.algorithm, Direct | Centres):
        return None  # centres were chosen where all rows would take too long, and that has not changed
    again = f"{plan.algorithm.name} in float32 came to a halt, so float64 is worked in"
    if plan.engine == "dask":
        return replace(plan, working="float64", reasons=(*plan.reasons, again))
    same = plan.algorithm if isinstance(plan.algorithm, MixedConjugateGradients) else MixedConjugateGradients()
    return _in_float64(system, same, again)


def float32_serves(system: RidgeSystem) -> bool:
    """Whether rounding K to float32 moves no eigenvalue by a good part of the ridge, as errors of entries add up.

    Independent errors of up to 2^-24 k_ii make a matrix of norm about 2^-24 sqrt(n) k_ii. Larger errors make
    refinement stall, which is noticed; they cannot make a wrong answer pass.
    """
    held = SPAN[0] <= system.span[0] and system.span[1] <= SPAN[1]
    size = system.mean_diagonal
    representable = 1e-12 <= size <= 1e12 and system.ridge <= 1e12  # squares must be, too
    return held and representable and system.ridge >= 4 * 2.0**-24 * sqrt(system.n) * size


def rounding_serves(system: RidgeSystem) -> bool:
    """Whether a Cholesky factor with products of 8-bit numbers is computed fast here and is near A as a whole."""
    fast = system.X.device.type == "cpu" and worthwhile(system.n) and exact_products()
    return fast and system.ridge >= ROUNDED * sqrt(system.n) * system.mean_diagonal


def _working(system: RidgeSystem) -> torch.dtype:
    return torch.float32 if float32_serves(system) else torch.float64


# -- bytes ---------------------------------------------------------------------------------------------


def _vectors(system: RidgeSystem) -> int:
    """Return the bytes of the iterates, and of a tile with its rows as they are scaled, all in float64."""
    return 12 * 8 * system.n * system.outputs + 8 * TILE * (2 * TILE + 4 * system.d)


def _copied(system: RidgeSystem, size: int) -> int:
    """Return the bytes of the rows once more, `size` a number, where an engine copies them; twice if converted."""
    copies = 1 if size <= system.X.dtype.itemsize else 2
    small = system.X.dtype.itemsize * system.n * system.d <= COPIED_BYTES
    return copies * size * system.n * system.d if small else 0


def _assembled(system: RidgeSystem) -> int:
    """Return the bytes beside K while it is formed: the rows in float64, and with dense and sparse features apart."""
    return _copied(system, 8) + (8 * system.n * system.d if _copied(system, 8) else 0)


def _bits(system: RidgeSystem) -> int:
    """Return how many bits to keep of what float32 leaves out of an entry: enough to judge a residual of `tol`.

    What is lost has either sign, so a residual errs by about sqrt(n) times that and ||alpha|| <= ||y|| / ridge.
    """
    wrong = lost(16) * sqrt(system.n) * system.mean_diagonal / system.ridge
    return 16 if wrong <= JUDGED * system.tol else 32


def _triangle(system: RidgeSystem) -> int:
    """Return the bytes of the tiles on and below the diagonal of K."""
    size = tile_size(system.n)
    filled = size * ceil(system.n / size)
    return (4 + _bits(system) // 8) * filled * (filled + size) // 2


def preconditioner_bytes(n: int, rank: int, block: int, size: int) -> int:
    """Return the bytes of the factor, and of the blocks and the core or, before them, of proposed columns."""
    blocks = size * n * ceil(n / ceil(n / block)) + 16 * rank**2
    return size * n * rank + max(blocks, 3 * PROPOSALS * size * n)


def _roomy(system: RidgeSystem) -> int:
    """Return the bytes of a float32 factorisation with K kept for the residuals."""
    return _triangle(system) + max(4 * system.n**2, _assembled(system)) + _vectors(system)


def _held(system: RidgeSystem) -> str:
    kept, size = _bits(system), show_bytes(_triangle(system))
    return f"the lower triangle of K with 32 + {kept} bits an entry takes {size} and fits"


# -- plans ---------------------------------------------------------------------------------------------


def _for_engine(system: RidgeSystem, algorithm: Algorithm, engine: Engine, rank: int) -> Plan:
    """Return the plan for an engine that is ready: it has its own way with memory."""
    reasons = ("the engine was given",)
    return Plan(algorithm, engine.name, _name(engine.dtype), rank, False, 0, system.memory, reasons)


def _automatic(system: RidgeSystem, iterative: MixedConjugateGradients, engine: str | None) -> Plan:
    n, width = system.n, system.feature_width
    if width is not None and (engine == "features" or (engine is None and SMALL_ROWS < n > 4 * width)):
        rank = min(width, default_rank(n))
        needed = _vectors(system) + 8 * n * width + preconditioner_bytes(n, rank, default_block(n), 8)
        why = f"the kernel has {width} features, fewer than {n:,} rows: K is never formed"
        return _plan(system, iterative, "features", torch.float64, rank, needed, why, advice="use fewer rows")
    if engine in (None, "stored"):
        if n <= SMALL_ROWS:
            few = "few rows: one Cholesky factorisation in the precision of X"
            return _in_precision_of_rows(system, Direct(), None, few)
        if not float32_serves(system):
            why = (
                f"the ridge {system.ridge:.1e} is too small beside the diagonal {system.mean_diagonal:.1e} for K in "
                "float32, so float64 is worked in"
            )
            return _in_float64(system, iterative, why)
        if n <= DIRECT_ROWS and _roomy(system) <= system.memory:
            if rounding_serves(system) and iterative.preconditioner == "pivoted":
                rounded = replace(iterative, preconditioner=RoundedCholesky())
                why = (
                    f"up to {DIRECT_ROWS:,} rows a Cholesky factorisation is fastest; products of 8-bit numbers take "
                    "less time for it and leave a few steps of conjugate gradients"
                )
                return _plan(system, rounded, "triangle", torch.float32, 0, _roomy(system), why, _held(system))
            fastest = f"up to {DIRECT_ROWS:,} rows a refined float32 Cholesky is fastest"
            return _factorisation(system, torch.float32, fastest)
    return _conjugate_gradients(system, iterative, _working(system), engine)


def _in_float64(system: RidgeSystem, iterative: MixedConjugateGradients, why: str) -> Plan:
    if system.n <= LARGEST_FACTOR and 8 * system.n**2 + _vectors(system) <= system.memory:
        return _factorisation(system, torch.float64, why)
    plan = _conjugate_gradients(system, iterative, torch.float64)
    return replace(plan, reasons=(*plan.reasons, why))


def _factorisation(system: RidgeSystem, working: torch.dtype, why: str) -> Plan:
    roomy = _roomy(system)
    if working == torch.float32 and roomy <= system.memory:
        return _plan(system, MixedDirect(), "triangle", working, 0, roomy, why, _held(system), exact=True)
    beside = "residuals form K again by tiles, so that only the factor is held"
    needed = working.itemsize * system.n**2 + _vectors(system)
    return _plan(system, MixedDirect(), "tiles", working, 0, needed, why, beside)


def _in_precision_of_rows(system: RidgeSystem, algorithm: Algorithm, engine: str | None, why: str) -> Plan:
    """Return the plan of an algorithm that works in the precision of X, with K held as `RidgeSystem` does it."""
    n, working, width = system.n, system.X.dtype, system.feature_width
    size = working.itemsize
    if engine is None:
        narrow = width is not None and width < n
        engine = "features" if narrow else "stored" if system.few_entries else "tiles"
    held = {"stored": (8 + size % 8) * n**2, "features": size * n * (width or 0)}
    needed = 3 * size * n**2 if isinstance(algorithm, Direct) else held.get(engine, 0) + _vectors(system)
    return _plan(system, algorithm, engine, working, 0, needed, why, exact=engine == "stored")


def _on_centres(system: RidgeSystem, algorithm: Centres, engine: str, count: int) -> Plan:
    n, working = system.n, _working(system)
    size = working.itemsize
    if n * count > FACTORISED:
        # per row the targets in their unit, coefficients, what is left and copies; the diagonal and what entries err by
        needed = 8 * (n * (7 * system.outputs + 4) + 6 * count**2 + 3 * LOCAL_ROWS**2 + 4 * BLOCK * system.outputs)
        fused = isinstance(system.kernel, LogitKernel) and fuses(system.X)
        needed += 0 if fused else 8 * TEMPORARIES * BLOCK_ENTRIES
        why = f"{count:,} centres of {n:,} rows: their columns of K are formed again for every product"
        return _plan(system, algorithm, engine, torch.float32, count, needed, why, advice="use fewer centres")
    # the factor in the working precision and in float64, a block of proposals, the core and the sampled rows
    needed = _vectors(system) + n * (count * (size + 8) + 2 * PROPOSALS * size + SAMPLED_ROWS * 8) + 16 * count**2
    needed += n * system.d * (8 if system.X.dtype != torch.float64 else size % 8)
    why = f"{count:,} centres of {n:,} rows: n centres^2 operations, K is never formed"
    return _plan(system, algorithm, engine, working, count, needed, why)


def _conjugate_gradients(
    system: RidgeSystem, algorithm: MixedConjugateGradients, working: torch.dtype, engine: str | None = None
) -> Plan:
    """Return the plan for `mixed_pcg`: K stored if it fits, else formed again, at a lower rank if need be."""
    n, size, rank = system.n, working.itemsize, default_rank(system.n)
    base = _vectors(system) + preconditioner_bytes(n, rank, default_block(n), size)
    iterations = f"{n:,} rows: conjugate gradients cost less than a factorisation"
    halves = _triangle(system) + max(base, _assembled(system))  # the copies are gone before the rest
    if engine in (None, "triangle") and working == torch.float32 and halves <= system.memory:
        how = strips.describe(n, system.X.device)
        return _plan(system, algorithm, "triangle", working, rank, halves, iterations, _held(system), *how)
    full = size * n**2 + max(base, _assembled(system))
    if engine == "stored" or (engine is None and working == torch.float64 and full <= system.memory):
        held = f"K takes {show_bytes(size * n**2)} in {_name(working)} and fits"
        return _plan(system, algorithm, "stored", working, rank, full, iterations, held)
    if engine == "triangle" and working != torch.float32:
        raise InputError(
            f"engine 'triangle' multiplies in float32, which does not serve at ridge {system.ridge:.1e} and k(x, x) "
            f"between {system.span[0]:.1e} and {system.span[1]:.1e}: use engine='stored' or 'tiles'."
        )
    if engine == "triangle":
        raise _too_large(system, halves, "engine='tiles' forms K again for every product")
    return _matrix_free(system, algorithm, working, engine, iterations)


def _matrix_free(
    system: RidgeSystem, algorithm: Algorithm, working: torch.dtype, engine: str | None, iterations: str
) -> Plan:
    n, d, size = system.n, system.d, working.itemsize
    rank = usual = ceil(LEAN * default_rank(n))
    block = max(600, n // LEAN_BLOCKS)
    logits = isinstance(system.kernel, LogitKernel)
    attends = logits and (d <= NARROW or system.X.device.type == "cuda")
    fused = logits and fuses(system.X) and worthwhile(n)
    chosen = engine or ("fused" if fused else "attention" if attends else "tiles")
    # attention keeps queries, keys, values and outputs of all rows
    rows = 5 * size * n * max(d + 1, 16) if chosen == "attention" else _copied(system, size)
    why = f"K would take {show_bytes(size * n**2)} and {show_bytes(system.memory)} may be used"
    how = f"{chosen}: {why}, so it is formed again for every product" if engine is None else chosen
    base = rows + _vectors(system)
    while rank > LEAST_RANK and base + preconditioner_bytes(n, rank, block, size) > system.memory:
        rank = max(LEAST_RANK, rank // 2)
    needed = base + preconditioner_bytes(n, rank, block, size)
    leaner = (f"a preconditioner of rank {rank} rather than {usual}, to fit",) if rank < usual else ()
    fewer = "use fewer rows, or algorithm='nystrom' with few centres"
    return _plan(system, algorithm, chosen, working, rank, needed, iterations, how, *leaner, block=block, advice=fewer)


def _plan(
    system: RidgeSystem,
    algorithm: Algorithm,
    engine: str,
    working: torch.dtype,
    rank: int,
    needed: int,
    *reasons: str,
    exact: bool = False,
    block: int = 0,
    advice: str = "use algorithm='mixed_pcg', which forms K by tiles",
) -> Plan:
    """Return the plan if it fits; refuse it with the advice if not."""
    if needed > system.memory:
        raise _too_large(system, needed, advice)
    bits = _bits(system) if engine == "triangle" else 0
    return Plan(algorithm, engine, _name(working), rank, exact, needed, system.memory, reasons, block, bits)


def _too_large(system: RidgeSystem, needed: int, advice: str) -> InputError:
    return InputError(
        f"{system.n:,} rows of {system.d} features with {system.outputs} targets need about {show_bytes(needed)} "
        f"beside the data, and {show_bytes(system.memory)} may be used: {advice}."
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
