"""Conjugate gradients on the normal equations of a fit on centres, as a state that can be saved and resumed.

Rows are seen through two functions only: a product with K_c'K_c and a float64 gradient. They may be in memory, on disk
or on the workers of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import log, sqrt
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.products import add_product
from ridgeformer.kernels.base import BLOCK_ENTRIES, Kernel
from ridgeformer.solving.direct import factorise_in_place

__all__ = [
    "ACCURACY", "CYCLE_STEPS", "ROUGHLY", "Descent", "Forecast", "NormalEquations", "Told", "factor_of", "gram_rows",
    "sampled_gram",
]  # fmt: skip

ACCURACY, CYCLES, CYCLE_STEPS = 5e-4, 6, 30
"""The residual of the normal equations, in the norm of the preconditioner, at which they are solved; cycles against the
float64 residual at most, and steps in float32 of each."""

ROUGHLY = 1e-2
"""The same for a fit that only serves to judge another. One that round-off stops before this is called unsolved; one
that it stops after says in its distance from the fit of all rows how far it is from the solution on its centres."""

PATIENCE = 4
"""Steps in float32 that may pass without a smaller residual."""

GRAM_ROWS = (4, 8, 16, 32)
"""Rows a centre from which the preconditioner may be made."""

PASS = 24
"""Time that one entry of K takes in a step, over that of a multiplication and addition of the preconditioner's."""

USUAL_STEPS, DEARER = 8, 3.0
"""Steps that are assumed, and how much longer a float64 pass takes, until passes say better."""

Told: TypeAlias = Callable[[str, float, float | None], None]
"""Called with what is done now, the fraction done of it, and the seconds that all of it will still take, if known."""


@dataclass
class Descent:
    """Where conjugate gradients are: all that the next step depends on, to the last bit.

    Matrices are contiguous, as they are when they come from a file: sums depend on the layout.

    Attributes:
        b: the best coefficients so far, (m, r), as a float64 pass has judged them ...
        gradient: ... the gradient there ...
        reached: ... and its size over that at zero, `start`, the largest over the outputs.
        working: the precision of products.
        single: the error of a product in float32, in the same measure, over the size of what it was made from ...
        scale: ... which is this: that of the gradient at zero, or of the one that the last float64 pass found.
        cycle, step: how many are done; steps of this cycle.
        found, r, p, rho: the recursion of this cycle; None between cycles.
        relative: what the recursion said after every step.
        seconds: spent so far.
        done: whether nothing is left to do.
        at_zero: while the fit on half of the centres is made, the gradient of that on all at zero.
        half: coefficients of the fit on half of the centres, (m, r) with zeros for the others.
    """

    b: Tensor
    gradient: Tensor
    start: Tensor
    reached: float = 1.0
    working: str = "float32"
    single: float = 0.0
    scale: float = 1.0
    cycle: int = 0
    step: int = 0
    found: Tensor | None = None
    r: Tensor | None = None
    p: Tensor | None = None
    rho: Tensor | None = None
    relative: list[Tensor] = field(default_factory=list)
    seconds: float = 0.0
    done: bool = False
    at_zero: Tensor | None = None
    half: Tensor | None = None

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return its arrays, and everything else as plain values."""
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        held["relative"] = torch.stack(self.relative) if self.relative else None
        arrays = {name: value.contiguous() for name, value in held.items() if isinstance(value, Tensor)}
        return arrays, {name: value for name, value in held.items() if isinstance(value, str | int | float)}

    @classmethod
    def unpack(cls, arrays: dict[str, Tensor], facts: dict[str, Any]) -> Descent:
        """Return what `pack` was called on."""
        held: dict[str, Any] = {name: value.clone() for name, value in arrays.items()}  # aligned, unlike in a file
        return cls(**{**held, **facts, "relative": list(held.get("relative", ()))})


@dataclass(frozen=True)
class NormalEquations:
    """(K_c'K_c + ridge K_cc) b = K_c'y, preconditioned by a Cholesky factor of the same matrix from some rows.

    Attributes:
        K: K_cc.
        lower: the factor.
        ridge: lambda > 0.
        normal: (P, precision) to K_c'K_c P.
        judge: b to b as the caller gets it, and the gradient there, K_c'(y - K_c b) - ridge K_cc b in float64.
    """

    K: Float[Tensor, "m m"]
    lower: Float[Tensor, "m m"]
    ridge: float
    normal: Callable[[Tensor, torch.dtype], Tensor]
    judge: Callable[[Tensor], tuple[Tensor, Tensor]]

    def size(self, gradient: Float[Tensor, "m r"]) -> Float[Tensor, " r"]:
        """Return the norm of a gradient in that of the preconditioner, per output."""
        return torch.linalg.solve_triangular(self.lower, gradient, upper=False).norm(dim=0)

    def begin(self, b: Tensor, gradient: Tensor, at_zero: Tensor) -> Descent:
        """Return the descent from b, where the gradient is given; residuals are relative to that at zero."""
        start = self.size(at_zero)
        start = torch.where(start > 0, start, 1.0)
        reached = float((self.size(gradient) / start).max())
        return Descent(b.contiguous(), gradient.contiguous(), start, reached)

    def gradient(self, b: Tensor, at_zero: Tensor, precision: str) -> Tensor:
        """Return the gradient at b, given that at zero, from a product in a precision: float32 may be a rough one."""
        if not bool(b.any()):
            return at_zero
        size = b.abs().amax(0).clamp_min(torch.finfo(torch.float32).tiny)
        return at_zero - self.normal(b / size, getattr(torch, precision)) * size - self.ridge * (self.K @ b)

    def solve(self, at: Descent, note: Callable[[Descent], bool]) -> None:
        """Go on from a state until the float64 gradient is small or does not get smaller.

        Products are float32, and a cycle goes no further than they carry. Then a pass in float64 says what is left, and
        the next cycle works on that, in float64 if float32 gained nothing. `note` is called after every step
        and every cycle; it stops the descent by returning True.
        """
        while at.cycle < CYCLES and not at.done and at.reached > ACCURACY:
            carried = at.single * at.scale if at.working == "float32" else 0.0
            stopped = self._advance(at, max(ACCURACY / 2, carried), note)
            b, gradient = self.judge(at.b + self.change(at))
            now = float((self.size(gradient) / at.start).max())
            halved, lower = now < at.reached / 2, now < at.reached
            if halved or (lower and (stopped or at.working == "float64")):
                at.b, at.gradient, at.reached = b.contiguous(), gradient.contiguous(), now
            elif at.cycle == 0:  # what float32 has gained is its own round-off; the gradient it began with may be, too
                at.gradient = self.judge(at.b)[1].contiguous()
                at.reached = float((self.size(at.gradient) / at.start).max())
            at.scale = at.reached
            at.done = at.reached <= ACCURACY or stopped or (at.working == "float64" and not halved)
            at.working = "float64" if stalls(at) or not halved else at.working
            at.cycle, at.step, at.found, at.r, at.p, at.rho = at.cycle + 1, 0, None, None, None, None
            if not stopped:
                note(at)
        at.done = True

    def approach(self, at: Descent, note: Callable[[Descent], bool]) -> Float[Tensor, "m r"]:
        """Return coefficients from one cycle that nobody judges: a rough solution, cheaply."""
        self._advance(at, ROUGHLY, note)
        return at.b + self.change(at)

    def _advance(self, at: Descent, accuracy: float, note: Callable[[Descent], bool]) -> bool:
        """Take steps until the recursion's residual is that small; return whether `note` stopped them."""
        if at.r is None:
            at.r = torch.linalg.solve_triangular(self.lower, at.gradient, upper=False).contiguous()
            at.found, at.p, at.rho = torch.zeros_like(at.r), at.r.clone(), at.r.square().sum(0)
        stopped = False
        while not stopped and not self._ends(at, accuracy):
            self._step(at)
            stopped = note(at)
        return stopped

    def _ends(self, at: Descent, accuracy: float) -> bool:
        """Whether the cycle has reached its aim, or its last step, or nothing any more."""
        assert at.r is not None
        small = bool((at.r.norm(dim=0) / at.start <= accuracy).all())
        return small or at.step >= CYCLE_STEPS or stalls(at)

    def change(self, at: Descent) -> Float[Tensor, "m r"]:
        """Return what the cycle has added to b so far."""
        return torch.zeros_like(at.b) if at.found is None else torch.linalg.solve_triangular(
            self.lower.T, at.found, upper=True
        )  # fmt: skip

    def _step(self, at: Descent) -> None:
        """Take one step of conjugate gradients in the basis of the preconditioner."""
        assert at.found is not None
        assert at.r is not None
        assert at.p is not None
        assert at.rho is not None
        P = torch.linalg.solve_triangular(self.lower.T, at.p, upper=True)
        size = P.abs().amax(0).clamp_min(torch.finfo(torch.float32).tiny)  # of order one in float32
        product = self.normal(P / size, getattr(torch, at.working)) * size + self.ridge * (self.K @ P)
        q = torch.linalg.solve_triangular(self.lower, product, upper=False)
        curvature = (at.p * q).sum(0)
        gamma = torch.where(curvature > 0, at.rho / torch.where(curvature > 0, curvature, 1.0), 0.0)
        at.found, at.r = at.found + gamma * at.p, (at.r - gamma * q).contiguous()
        new = at.r.square().sum(0)
        at.p, at.rho = at.r + new / torch.where(at.rho > 0, at.rho, 1.0) * at.p, new
        at.step += 1
        at.relative.append(at.r.norm(dim=0) / at.start)


def stalls(at: Descent) -> bool:
    """Whether the last steps in float32 have not even halved the residual: its round-off is in the way."""
    if at.working == "float64" or at.step <= PATIENCE:
        return False
    sizes = [float(one.max()) for one in at.relative[-at.step :]]
    return min(sizes[-PATIENCE:]) > min(sizes[:-PATIENCE]) / 2


def gram_rows(n: int, m: int) -> int:
    """Return of how many rows to make the preconditioner of m centres: more of them save steps and cost a product.

    From c rows a centre the eigenvalues of the preconditioned matrix are (1 +- 1 / sqrt(c))^2 at most, and conjugate
    gradients gain a factor of about sqrt(2 c) a step, as measured.

    Example:
        >>> gram_rows(10**6, 5000) // 5000, gram_rows(5 * 10**6, 2000) // 2000
        (4, 32)
    """

    def price(c: int) -> float:
        return c * m**2 + PASS * n * log(2 / ACCURACY) / log(sqrt(2 * c))

    return min(n, m * min(GRAM_ROWS, key=price))


def sampled_gram(
    kernel: Kernel, rows: Float[Tensor, "s d"], Z: Float[Tensor, "m d"], K: Tensor, ridge: float, n: int
) -> Float[Tensor, "m m"]:
    """Return (n / s) K_s'K_s + ridge K_cc from s sampled rows of n, in float64; its lower triangle."""
    gram = torch.zeros_like(K)
    for some in rows.split(max(1, BLOCK_ENTRIES // len(Z))):
        block = kernel.dense(some.to(torch.float64), Z)
        add_product(gram, block.T, block, lower=True)
    return gram.mul_(n / len(rows)).add_(K, alpha=ridge)


def factor_of(gram: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """Return a Cholesky factor of a matrix of which the lower triangle is given, its diagonal raised if need be."""
    jitter = torch.finfo(torch.float64).eps * float(gram.diagonal().sum())
    while not factorise_in_place(lower := gram.clone(), jitter):
        jitter *= 10
    return lower.tril_()


class Forecast:
    """How long a descent will still take, from the time of its passes and how fast its residual falls."""

    def __init__(self, rows: int, tell: Told | None) -> None:
        self.rows, self.tell = rows, tell
        self.rates: dict[str, float] = {}
        self.kind, self.judging, self.begun, self.seen = "float64", True, time.perf_counter(), 0
        self.at: Descent | None = None

    def begin(self, kind: str, *, judging: bool = False) -> None:
        """Say that a pass in this precision begins: a step, or one that judges how far the steps have come."""
        self.kind, self.judging, self.begun, self.seen = kind, judging, time.perf_counter(), 0

    def advance(self, rows: int) -> None:
        """Count these rows of the pass as done, and report the progress."""
        self.seen += rows
        self.rates[self.kind] = (time.perf_counter() - self.begun) / self.seen * self.rows
        if self.tell is not None:
            step = 0 if self.at is None else len(self.at.relative)
            early = "half of the centres" if self.at is None else f"step {step + 1}"
            what = f"float64 residual after step {step}" if self.judging else early
            self.tell(what, self.seen / self.rows, self.remaining)

    @property
    def remaining(self) -> float:
        """Seconds that are left: steps by the rate at which the residual has fallen, and a float64 pass at the end."""
        single = self.rates.get("float32", self.rates.get("float64", 0.0) / DEARER)
        double = self.rates.get("float64", DEARER * single)
        single = double if self.at is not None and self.at.working == "float64" else single
        left, relative = (1 - self.seen / self.rows) * self.rates.get(self.kind, single), self.at and self.at.relative
        if relative and self.judging:  # the pass that decides
            return left
        steps = float(USUAL_STEPS)
        if relative and (now := float(relative[-1].max())) > 0:
            steps = max(0.0, log(ACCURACY / 2) / log(min(0.9, now)) - 1) * len(relative)
        return left + max(0.0, steps - (not self.judging)) * single + double
