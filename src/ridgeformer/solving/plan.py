"""The plan of a solve: algorithm and engine by size, width, outputs and free memory, with the arithmetic shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, sqrt

import torch

from ridgeformer.algorithms import Algorithm, Auto, Centres, Direct, MixedConjugateGradients, MixedDirect
from ridgeformer.core.errors import InputError
from ridgeformer.core.memory import show_bytes
from ridgeformer.kernels import FeatureKernel, Kernel, LogitKernel
from ridgeformer.solving import system
from ridgeformer.solving.engines import Engine, strips
from ridgeformer.solving.engines.tiles import COPIED_BYTES, TILE
from ridgeformer.solving.engines.triangle import SPAN, lost, tile_size
from ridgeformer.solving.preconditioners.pivoted_cholesky import PROPOSALS, default_block, default_rank
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Plan", "Planner"]

SMALL_ROWS = 1500
"""Largest n at which a float64 Cholesky is cheap enough to always use."""

DIRECT_ROWS = 10_000
"""Largest n at which a float32 Cholesky is faster than conjugate gradients."""

LARGEST_FACTOR = 25_000
"""Largest n for a float64 Cholesky when float32 is too inaccurate."""

NARROW = 64
"""Largest number of features at which fused attention is faster than tiles."""

LEAST_RANK = 32

LEAN = 0.75
"""Where K is not stored, the preconditioner takes this part of the rank it would have ..."""

LEAN_BLOCKS = 32
"""... and blocks of n over this many rows, at least 600: a step costs more there, and memory matters."""

JUDGED = 0.1
"""A residual may err by this part of the tolerance it is compared with."""

SIZE = {torch.float32: 4, torch.float64: 8}


@dataclass(frozen=True)
class Plan:
    """How a system is solved.

    Attributes:
        algorithm: the one that runs; never `Auto`.
        engine: how products with K are formed: features, stored, tiles, attention, or an engine of your own.
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


class Planner:
    """Makes plans for one system and one budget of memory.

    Args:
        kernel: the kernel.
        n: rows.
        d: features of a row.
        columns: outputs.
        dtype: precision of the rows.
        device: where they are.
        ridge: the ridge.
        diagonal: the mean of k(x_i, x_i), which the ridge is compared with.
        features: width of the kernel's feature map, if it has one.
        free: bytes that may be used.
        tol: relative residual asked for.
        span: the least k(x_i, x_i) > 0, and the largest.
    """

    def __init__(
        self,
        kernel: Kernel,
        n: int,
        d: int,
        columns: int,
        dtype: torch.dtype,
        device: torch.device,
        ridge: float,
        diagonal: float,
        features: int | None,
        free: int,
        tol: float = 1e-10,
        span: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.kernel, self.n, self.d, self.columns, self.dtype, self.device = kernel, n, d, columns, dtype, device
        self.ridge, self.diagonal, self.features, self.free, self.tol, self.span = (
            ridge, diagonal, features, free, tol, span,
        )  # fmt: skip

    @classmethod
    def of(cls, system: RidgeSystem, free: int, tol: float) -> Planner:
        """Return the planner for a system with targets."""
        X, kernel, used = system.X, system.kernel, system.own[system.own > 0]
        span = (float(used.min()), float(used.max())) if len(used) else (1.0, 1.0)
        features = kernel.feature_map(X[:1]).shape[1] if isinstance(kernel, FeatureKernel) else None
        return cls(
            kernel, len(X), X.shape[1], system.y.shape[1], X.dtype, X.device, system.ridge, float(system.own.mean()),
            features, free, tol, span,
        )  # fmt: skip

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
        """Whether this many bytes may be used."""
        return needed <= self.free

    def float32_serves(self) -> bool:
        """Whether rounding K to float32 moves no eigenvalue by a good part of the ridge, as errors of entries add up.

        Independent errors of up to 2^-24 k_ii make a matrix of norm about 2^-24 sqrt(n) k_ii. Larger errors make
        refinement stall, which is noticed; they cannot make a wrong answer pass.
        """
        low, high = SPAN
        held = low <= self.span[0] and self.span[1] <= high
        representable = 1e-12 <= self.diagonal <= 1e12 and self.ridge <= 1e12  # squares must be, too
        return held and representable and self.ridge >= 4 * 2.0**-24 * sqrt(self.n) * self.diagonal

    def choose(self, algorithm: Algorithm | None = None, engine: str | None = None) -> Plan:
        """Return the plan for an algorithm and an engine, as far as they are given; the rest is chosen.

        Raises:
            InputError: not even the leanest plan fits, with the numbers.
        """
        algorithm = algorithm or Auto()
        if isinstance(algorithm, Direct | MixedDirect) and engine is not None:
            raise _takes_no_engine(algorithm)
        if isinstance(algorithm, Centres):
            return self._on_centres(engine, algorithm)
        if isinstance(algorithm, Auto | MixedConjugateGradients):
            iterative = MixedConjugateGradients(steps=algorithm.steps, preconditioner=algorithm.preconditioner)
            if engine == "dask":
                return self._on_cluster(iterative)
            if isinstance(algorithm, Auto):
                return self._automatic(iterative, engine)
            return self.conjugate_gradients_plan(self._working(), engine, iterative)
        if isinstance(algorithm, MixedDirect):
            return self._factorisation(SIZE[self._working()], "asked for")
        return self._as_asked(algorithm, engine)

    def choose_for(self, engine: Engine, algorithm: Algorithm) -> Plan:
        """Return the plan for an engine that is ready: it has its own way with memory."""
        if isinstance(algorithm, Direct | MixedDirect):
            raise _takes_no_engine(algorithm)
        if isinstance(algorithm, Auto):
            algorithm = MixedConjugateGradients(steps=algorithm.steps, preconditioner=algorithm.preconditioner)
        rank = 0
        if isinstance(algorithm, MixedConjugateGradients | Centres):
            rank = default_rank(self.n)
        if isinstance(algorithm, Centres) and algorithm.count is not None:
            rank = min(algorithm.count, self.n)
        reasons = ("the engine was given",)
        return Plan(algorithm, engine.name, _name(engine.dtype), rank, False, 0, self.free, reasons)

    def in_float64(self, plan: Plan) -> Plan | None:
        """Return a plan in float64 for a solve that float32 could not finish, or None where there is nothing better."""
        if plan.working == "float64" or isinstance(plan.algorithm, Direct):
            return None
        again = f"{plan.algorithm.name} in float32 came to a halt, so float64 is worked in"
        if plan.engine == "dask":
            return replace(plan, working="float64", reasons=(*plan.reasons, again))
        if self.n <= LARGEST_FACTOR and self.fits(self.stored(8) + self.vectors):
            return self._factorisation(8, again)
        same = plan.algorithm if isinstance(plan.algorithm, MixedConjugateGradients) else None
        longer = self.conjugate_gradients_plan(torch.float64, algorithm=same)
        return replace(longer, reasons=(*longer.reasons, again))

    def _on_cluster(self, algorithm: Algorithm) -> Plan:
        """Return the plan for rows that live elsewhere: only iterates are held here."""
        where = "rows, tiles of K and the preconditioner are the workers' of a Dask cluster"
        return self._plan(algorithm, "dask", SIZE[self._working()], default_rank(self.n), self.vectors, where)

    def _automatic(self, iterative: MixedConjugateGradients, engine: str | None) -> Plan:
        few = self.features is not None and SMALL_ROWS < self.n > 4 * self.features
        if self.features is not None and (engine == "features" or (engine is None and few)):
            return self._with_features(self.features, iterative)
        if engine in (None, "stored"):
            if self.n <= SMALL_ROWS:
                return self._as_asked(Direct(), None, "few rows: one Cholesky factorisation in the precision of X")
            if not self.float32_serves():
                return self._in_float64(iterative)
            if self.n <= DIRECT_ROWS and self.fits(self._roomy()):
                return self._factorisation(4, f"up to {DIRECT_ROWS:,} rows a refined float32 Cholesky is fastest")
        return self.conjugate_gradients_plan(self._working(), engine, iterative)

    def _working(self) -> torch.dtype:
        return torch.float32 if self.float32_serves() else torch.float64

    def _factorisation(self, size: int, *reasons: str) -> Plan:
        if size == 4 and self.fits(self._roomy()):
            return self._plan(MixedDirect(), "triangle", size, 0, self._roomy(), *reasons, self._held(), exact=True)
        beside = "residuals form K again by tiles, so that only the factor is held"
        return self._plan(MixedDirect(), "tiles", size, 0, self.stored(size) + self.vectors, *reasons, beside)

    def _roomy(self) -> int:
        """Return the bytes of a float32 factorisation with K kept for the residuals."""
        return self.triangle + max(self.stored(4), self.assembled) + self.vectors

    def _held(self) -> str:
        return f"the lower triangle of K with 32 + {self.bits} bits an entry takes {show_bytes(self.triangle)} and fits"

    def _as_asked(self, algorithm: Algorithm, engine: str | None, *reasons: str) -> Plan:
        """Return the plan of an algorithm that works in the precision of X, with K held as `RidgeSystem` does it."""
        size = SIZE[self.dtype]
        if engine is None:
            few = self.features is not None and self.features < self.n
            engine = "features" if few else "stored" if self.few_entries else "tiles"
        held = {"stored": self.stored(8 + size % 8), "features": size * self.n * (self.features or 0)}
        needed = 3 * self.stored(size) if isinstance(algorithm, Direct) else held.get(engine, 0) + self.vectors
        reasons = reasons or ("asked for",)
        return self._plan(algorithm, engine, size, 0, needed, *reasons, exact=engine == "stored")

    def _on_centres(self, engine: str | None, algorithm: Centres) -> Plan:
        count = min(algorithm.count or default_rank(self.n), self.n)
        working = self._working()
        size = SIZE[working]
        # the factor in the working precision and in float64, a block of proposals, the core and the sampled rows
        needed = self.vectors + self.n * (count * (size + 8) + 2 * PROPOSALS * size + 512 * 8) + 16 * count**2
        needed += self.n * self.d * (8 if self.dtype != torch.float64 else size % 8)
        why = f"{count:,} centres of {self.n:,} rows: n centres^2 operations, K is never formed"
        return self._plan(algorithm, engine or "tiles", size, count, needed, why)

    def conjugate_gradients_plan(
        self,
        working: torch.dtype,
        engine: str | None = None,
        algorithm: MixedConjugateGradients | None = None,
    ) -> Plan:
        """Return the plan for `mixed_pcg`: K stored if it fits, else formed again, at a lower rank if need be."""
        algorithm = algorithm or MixedConjugateGradients()
        size, rank, block = SIZE[working], default_rank(self.n), default_block(self.n)
        base = self.vectors + self.preconditioner(rank, block, size)
        iterations = f"{self.n:,} rows: conjugate gradients cost less than a factorisation"
        halves = self.triangle + max(base, self.assembled)  # the copies are gone before the rest
        if engine in (None, "triangle") and working == torch.float32 and self.fits(halves):
            how = strips.describe(self.n, self.device)
            return self._plan(algorithm, "triangle", size, rank, halves, iterations, self._held(), *how)
        full = self.stored(size) + max(base, self.assembled)
        if engine == "stored" or (engine is None and working == torch.float64 and self.fits(full)):
            held = f"K takes {show_bytes(self.stored(size))} in {_name(working)} and fits"
            return self._plan(algorithm, "stored", size, rank, full, iterations, held)
        if engine == "triangle" and working != torch.float32:
            raise InputError(
                f"engine 'triangle' multiplies in float32, which does not serve at ridge {self.ridge:.1e} and k(x, x) "
                f"between {self.span[0]:.1e} and {self.span[1]:.1e}: use engine='stored' or 'tiles'."
            )
        if engine == "triangle":
            raise self._too_large(halves, "engine='tiles' forms K again for every product")
        return self._matrix_free(working, engine, algorithm, iterations)

    def _matrix_free(self, working: torch.dtype, engine: str | None, algorithm: Algorithm, iterations: str) -> Plan:
        size, usual = SIZE[working], ceil(LEAN * default_rank(self.n))
        rank, block = usual, max(600, self.n // LEAN_BLOCKS)
        fused = isinstance(self.kernel, LogitKernel) and (self.d <= NARROW or self.device.type == "cuda")
        chosen = engine or ("attention" if fused else "tiles")
        # attention keeps queries, keys, values and outputs of all rows
        attended = 5 * size * self.n * max(self.d + 1, 16)
        rows = attended if chosen == "attention" else self.copied(size)
        why = f"K would take {show_bytes(self.stored(size))} and {show_bytes(self.free)} may be used"
        reasons = [
            iterations,
            f"{chosen}: {why}, so it is formed again for every product" if engine is None else chosen,
        ]
        while rank > LEAST_RANK and not self.fits(rows + self.vectors + self.preconditioner(rank, block, size)):
            rank = max(LEAST_RANK, rank // 2)
        needed = rows + self.vectors + self.preconditioner(rank, block, size)
        if not self.fits(needed):
            raise self._too_large(needed, "use fewer rows, or algorithm='nystrom' with few centres")
        if rank < usual:
            reasons.append(f"a preconditioner of rank {rank} rather than {usual}, to fit")
        return replace(self._plan(algorithm, chosen, size, rank, needed, *reasons), block=block)

    def _in_float64(self, iterative: MixedConjugateGradients) -> Plan:
        why = (
            f"the ridge {self.ridge:.1e} is too small beside the diagonal {self.diagonal:.1e} for K in float32, "
            "so float64 is worked in"
        )
        if self.n <= LARGEST_FACTOR and self.fits(self.stored(8) + self.vectors):
            return self._factorisation(8, why)
        plan = self.conjugate_gradients_plan(torch.float64, algorithm=iterative)
        return replace(plan, reasons=(*plan.reasons, why))

    def _with_features(self, width: int, algorithm: Algorithm) -> Plan:
        rank = min(width, default_rank(self.n))
        needed = self.vectors + 8 * self.n * width + self.preconditioner(rank, default_block(self.n), 8)
        if not self.fits(needed):
            raise self._too_large(needed, "use fewer rows")
        why = f"the kernel has {width} features, fewer than {self.n:,} rows: K is never formed"
        return self._plan(algorithm, "features", 8, rank, needed, why)

    def _plan(
        self,
        algorithm: Algorithm,
        engine: str,
        size: int,
        rank: int,
        needed: int,
        *reasons: str,
        exact: bool = False,
    ) -> Plan:
        if not self.fits(needed):
            raise self._too_large(needed, "use algorithm='mixed_pcg', which forms K by tiles")
        working = "float32" if size == 4 else "float64"
        bits = self.bits if engine == "triangle" else 0
        return Plan(algorithm, engine, working, rank, exact, needed, self.free, reasons, bits=bits)

    def _too_large(self, needed: int, advice: str) -> InputError:
        return InputError(
            f"{self.n:,} rows of {self.d} features with {self.columns} targets need about {show_bytes(needed)} "
            f"beside the data, and {show_bytes(self.free)} may be used: {advice}."
        )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _takes_no_engine(algorithm: Algorithm) -> InputError:
    return InputError(
        f"algorithm {algorithm.name!r} factorises K and takes no engine: leave it out, or use 'mixed_pcg'."
    )
