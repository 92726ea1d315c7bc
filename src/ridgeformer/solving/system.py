"""The linear system of ridge regression, (K + ridge I) alpha = y, as an operator on columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.core.errors import InputError, LogitRangeError, NotPositiveSemidefiniteError
from ridgeformer.core.memory import free_bytes, show_bytes
from ridgeformer.kernels import FeatureKernel, Kernel
from ridgeformer.kernels.base import gamma, underflow
from ridgeformer.solving.engines import Engine, Features, Stored, Tiles
from ridgeformer.solving.engines.tiles import TILE, diagonal64

__all__ = [
    "STORED_ENTRIES", "RidgeSystem", "check_memory", "exact_unit", "refuse_negative", "require_range", "scaled_system",
]  # fmt: skip

STORED_ENTRIES = 2**27
"""K is stored while it has at most this many entries (1 GiB in float64), otherwise formed by blocks."""

SCALED = 4
"""Roundings of a ridge that was rescaled together with its kernel: of the exponential, and of the product with it."""

SAFE = {torch.float32: 1e-15, torch.float64: 1e-120}
"""Sizes of K + ridge I between this and its inverse leave room for squares, sums and a ridge far below them."""

TESTED_ROWS = 4000
"""Largest n at which a kernel that is not known to be positive semidefinite is tested by a factorisation."""


@dataclass(frozen=True, eq=False)
class RidgeSystem:
    """A = K + ridge I for the rows X, applied to any number of columns at once, the targets, and limits to a solve.

    Products with K are the engine's. Unless one is given, K is never formed where it has a feature map narrower
    than n; it is stored while it is small; it is formed by tiles otherwise. Solvers work on targets of order one.

    Attributes:
        given_engine: products with K.
        targets: (n, outputs), in float64; each output is divided by a power of two, `unit`.
        tol: relative residual to reach.
        memory: bytes that a solve may use beside the data.
        coefficient_dtype: the precision in which coefficients are returned, by default that of X.
    """

    kernel: Kernel
    X: Float[Tensor, "n d"] = field(repr=False)
    ridge: float
    given_engine: Engine | None = field(default=None, repr=False)
    targets: Float[Tensor, "n r"] | None = field(default=None, repr=False)
    tol: float = 1e-10
    memory: int = 0
    coefficient_dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", self.X.detach())

    def with_engine(self, engine: Engine) -> RidgeSystem:
        """Return the same system with products by this engine."""
        require_range(engine)
        system = replace(self, given_engine=engine)
        for name in {"own", "span", "mean_diagonal", "unit", "y", "norms", "_of_rows"} & self.__dict__.keys():
            system.__dict__[name] = self.__dict__[name]  # none of them is the engine's, and some are as long as y
        return system

    def in_range(self) -> RidgeSystem:
        """Return the system in a precision that holds squares of its entries: that of X, or else float64.

        Rows in float32 are converted exactly; the coefficients are rounded to float32 at the end, and judged then.

        Raises:
            InputError: not even float64 holds them.
        """
        largest = float(self.own.max())
        size, safe = max(largest, self.ridge), SAFE[self.X.dtype]
        if safe <= size <= 1 / safe and self.ridge >= safe**1.5:
            return self
        if self.X.dtype != torch.float64:
            return replace(self, X=self.X.to(torch.float64), coefficient_dtype=self.dtype).in_range()
        if size < safe or size > 1 / safe:
            raise InputError(
                f"k(x, x) reaches {largest:.1e} beside a ridge of {self.ridge:.1e}; float64 needs the larger one "
                f"between {safe:.0e} and {1 / safe:.0e}: scale the rows and the ridge."
            )
        return self

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.X.shape[0]

    @property
    def d(self) -> int:
        """The number of features of a row."""
        return self.X.shape[1]

    @property
    def few_entries(self) -> bool:
        """Whether K in float64 is small enough to be kept for its products alone."""
        return self.n**2 <= STORED_ENTRIES

    @cached_property
    def feature_width(self) -> int | None:
        """The width of the kernel's feature map, if it has one."""
        return self.kernel.feature_map(self.X[:1]).shape[1] if isinstance(self.kernel, FeatureKernel) else None

    @cached_property
    def mean_diagonal(self) -> float:
        """The mean of k(x_i, x_i), which the ridge is compared with."""
        return float(self.own.mean())

    @cached_property
    def span(self) -> tuple[float, float]:
        """The least k(x_i, x_i) > 0, and the largest."""
        used = self.own[self.own > 0]
        return (float(used.min()), float(used.max())) if len(used) else (1.0, 1.0)

    # -- targets and coefficients ------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        assert self.targets is not None, "this system has no targets"
        return self.targets.shape[1]

    @cached_property
    def unit(self) -> Float[Tensor, " r"]:
        """The power of two by which each output is divided."""
        assert self.targets is not None, "this system has no targets"
        return exact_unit(self.targets)

    @cached_property
    def y(self) -> Float[Tensor, "n r"]:
        """The targets in float64, each output divided by its unit."""
        assert self.targets is not None, "this system has no targets"
        return self.targets / self.unit

    @cached_property
    def norms(self) -> Float[Tensor, " r"]:
        """||y|| per output, and 1 where y = 0: what residuals are relative to."""
        norms = self.y.norm(dim=0)
        return torch.where(norms > 0, norms, 1.0)

    @property
    def dtype(self) -> torch.dtype:
        """The precision in which coefficients are returned."""
        return self.coefficient_dtype or self.X.dtype

    def values(self, alpha: Tensor) -> Tensor:
        """Return coefficients as the caller gets them; what the precision cannot hold becomes infinite."""
        return (alpha.to(torch.float64) * self.unit).to(self.dtype)

    def rounded(self, alpha: Tensor) -> Tensor:
        """Return, in float64 and in the unit of `y`, the very numbers that the caller gets."""
        return self.values(alpha).to(torch.float64) / self.unit

    # -- products ----------------------------------------------------------------------------------

    @cached_property
    def engine(self) -> Engine:
        """Products with K."""
        if self.given_engine is not None:
            return self.given_engine
        if isinstance(self.kernel, FeatureKernel):
            features = Features(self.kernel, self.X, self.X.dtype)
            if features.phi.shape[1] < self.n:
                return features
        if self.few_entries:
            return Stored(self.kernel, self.X, self.X.dtype, exact=True)
        return Tiles(self.kernel, self.X, self.X.dtype)

    @cached_property
    def matrix(self) -> Float[Tensor, "n n"]:
        """K itself, in the precision of X."""
        if isinstance(self.engine, Stored) and self.engine.dtype == self.X.dtype:
            return self.engine.K
        return self.kernel.dense(self.X, self.X)

    @cached_property
    def own(self) -> Float[Tensor, " n"]:
        """The diagonal of K in float64."""
        return diagonal64(self.kernel, self.X)

    @property
    def diagonal(self) -> Float[Tensor, " n"]:
        """The diagonal of K, in the precision of X."""
        return self.own.to(self.X.dtype)

    def apply_kernel(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return K V."""
        return self.engine.matmat(V)

    def apply(self, V: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return (K + ridge I) V."""
        return self.apply_kernel(V).add_(V, alpha=self.ridge)

    def residual(self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        """Return y - A alpha in float64, with the kernel evaluated in float64 on the rows as given."""
        alpha = alpha.to(torch.float64)
        return y.to(torch.float64) - self.engine.matmat64(alpha).add_(alpha, alpha=self.ridge)

    # -- round-off ---------------------------------------------------------------------------------

    def residual_roundoff(
        self, alpha: Float[Tensor, "n r"], y: Float[Tensor, "n r"], ridge: float | None = None
    ) -> Float[Tensor, " r"]:
        """Return a bound on how far `residual` can be from that of exact arithmetic, in 2-norm per column.

        `bounds.residual_roundoff` covers the rounding of the sums; on top of it the entries of K themselves err by at
        most w_i w_j (`Kernel.entry_error`), and every operation may underflow. `ridge` replaces the system's.
        """
        (w, roots, finite), d = self._of_rows, self.X.shape[1]
        norms, extra = y.to(torch.float64).norm(dim=0), d + SCALED + self.engine.rounding
        if not finite:
            return torch.full_like(norms, torch.inf)
        size = alpha.to(torch.float64).abs()
        length, moved = roots.norm(), w.norm() * (w @ size)
        trace, weighted, ridge = float(length.square()), (roots @ size).cpu(), ridge or self.ridge
        sums = bounds.residual_roundoff_from_sums(
            self.n, trace, weighted, size.norm(dim=0).cpu(), norms.cpu(), ridge, extra=extra
        )
        lost = underflow(self.n + d + 8, torch.float64) * (self.n**0.5 + d**0.5 * length)
        return (torch.from_numpy(sums).to(w.device) + moved + lost).nan_to_num(nan=torch.inf, posinf=torch.inf)

    @cached_property
    def _of_rows(self) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], bool]:
        """What `residual_roundoff` needs of every row: `entry_error`, the root of K_ii, and whether all are finite."""
        w, roots = (self.X.new_empty(self.n, dtype=torch.float64) for _ in range(2))
        for rows, place, other in zip(self.X.split(TILE), w.split(TILE), roots.split(TILE), strict=True):
            place.copy_(self.kernel.entry_error(rows.to(torch.float64)))
            other.copy_(self.kernel.roots(rows))
        return w, roots, bool(torch.isfinite(w.max()) and torch.isfinite(roots.norm().square()))

    @cached_property
    def kernel_roundoff(self) -> float:
        """The size below which an eigenvalue of the computed K cannot be told from zero."""
        sums = gamma(self.n + self.X.shape[1] + 8, self.X.dtype) * float(self.own.norm(1))
        return sums + sum(float(self.kernel.entry_error(rows).square().sum()) for rows in self.X.split(TILE))

    @property
    def spectrum_roundoff(self) -> float:
        """How far a computed eigenvalue of K + ridge I, less the ridge, can be from that of K."""
        return self.kernel_roundoff + gamma(self.n + self.X.shape[1] + 8, self.X.dtype) * self.ridge


def scaled_system(
    kernel: Kernel, X: Tensor, ridge: float, targets: Tensor | None = None, tol: float = 1e-10, memory: int = 0
) -> tuple[RidgeSystem, float]:
    """Return the system in a range the precision holds, and c: e^-c K and e^-c ridge have the same predictions.

    Raises:
        LogitRangeError: the ridge is too small beside the logits.
        NotPositiveSemidefiniteError: the kernel is none.
    """
    safe = kernel.within_range(X)
    log_scale = safe.log_scale - kernel.log_scale
    scaled = ridge * exp(-log_scale)
    if scaled < torch.finfo(torch.float64).tiny:
        raise LogitRangeError(
            f"with logits up to {safe.log_scale:.4g} a ridge of {ridge:g} is too small to be represented beside them: "
            "raise the temperature, scale the rows (datasets.unit_rows), or set the kernel's log_scale and give the "
            "ridge relative to it."
        )
    system = RidgeSystem(safe, safe.check_range(X, "X"), scaled, targets=targets, tol=tol, memory=memory)
    _require_semidefinite(system)
    return system, log_scale


def exact_unit(columns: Tensor) -> Tensor:
    """Return, per column, the power of two that makes it of order one: an exact change of unit."""
    largest = columns.abs().amax(0)
    mantissa, exponent = torch.frexp(torch.where(largest > 0, largest, 1.0))
    return torch.ldexp(torch.ones_like(mantissa), exponent - 1)


def check_memory(n: int, dtype: torch.dtype) -> None:
    """Refuse a direct solve whose matrices do not fit: K, its factor and a working copy."""
    needed = 3 * n * n * (torch.finfo(dtype).bits // 8)
    free = free_bytes()
    if needed > free:
        raise InputError(
            f"a direct solve of {n:,} rows needs about {show_bytes(needed)} and {show_bytes(free)} are free: "
            "use algorithm='auto', which takes a plan that fits, or fewer rows."
        )


def require_range(engine: Engine) -> None:
    """Refuse an engine whose float64 products are not accurate on a kernel of this size."""
    low, high = engine.span
    if (low, high) == Engine.span:
        return
    own = engine.diagonal()
    used = own[own > 0]
    if len(used) and not low <= float(used.min()) <= float(used.max()) <= high:
        raise InputError(
            f"k(x, x) lies between {float(used.min()):.1e} and {float(used.max()):.1e}, and the engine "
            f"{engine.name!r} is right from {low:.1e} to {high:.1e}: use engine='stored' or 'tiles', or scale the rows."
        )


def _require_semidefinite(system: RidgeSystem) -> None:
    """Test a kernel that is not known to be positive semidefinite: symmetric, and with a Cholesky factor.

    Round-off is added to the diagonal first. Decisive up to `TESTED_ROWS` rows; above, a negative eigenvalue is
    reported only if a solver meets it.
    """
    if system.kernel.semidefinite or system.n > TESTED_ROWS:
        return
    K, slack = system.kernel.dense(system.X, system.X), system.kernel_roundoff
    if not bool(torch.isfinite(K).all()):
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} has entries on X that are not finite: scale the rows, or mend it."
        )
    gap = float((K - K.T).abs().max())
    if not gap <= slack + 1e3 * torch.finfo(K.dtype).eps * float(K.abs().max()):
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} is not symmetric: k(x, z) and k(z, x) differ by {gap:.3g}."
        )
    _, info = torch.linalg.cholesky_ex(K + 2 * slack * torch.eye(system.n, dtype=K.dtype, device=K.device))
    if int(info) != 0:
        refuse_negative(float(torch.linalg.eigvalsh(K)[0]), system)


def refuse_negative(rayleigh: float, system: RidgeSystem) -> None:
    """Raise if a Rayleigh quotient of K, computed from K + ridge I, is negative by more than round-off can explain.

    A kernel that is semidefinite by theory is never refused: only round-off can make it look otherwise.
    """
    if not system.kernel.semidefinite and rayleigh < -system.spectrum_roundoff:
        raise NotPositiveSemidefiniteError(
            f"the kernel {system.kernel.name!r} is not positive semidefinite: some v has v'Kv = {rayleigh:.3g} |v|^2, "
            f"and round-off explains only {system.spectrum_roundoff:.1g}. Use a positive semidefinite kernel; "
            "a larger ridge would hide the fault, not mend it."
        )
