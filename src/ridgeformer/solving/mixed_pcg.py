"""Block conjugate gradients with products in a lower precision than their sums: large systems at float32 speed.

All targets share one Krylov space: each step goes to the best point in the span of everyone's directions, which takes
fewer steps than each column on its own (O'Leary 1980), at the same price for a step.

Iterates and residuals are float64; only the product with K and the preconditioner are not. Claim B3 says what
that costs: the true residual is the recursive one plus the sum of the errors of the products times the steps taken
along them, exactly. So once the distance travelled, times the error of a product as it was measured, comes near the
residual, the residual is computed anew and the iteration goes on from it, keeping its directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer.algorithms.base import Precondition, divide
from ridgeformer.solving.engines.tiles import TILE
from ridgeformer.solving.run import Run, Status, refine
from ridgeformer.solving.system import refuse_negative

__all__ = ["mixed_pcg"]

AIM = 0.9
"""The recursive residual is brought below this part of the tolerance, as the true one lies a little above it."""

REACH = 5e-7
"""What one pass in float32 can take off a residual; more is left to the next pass."""

DRIFT = 0.3
"""The residual is computed anew once the drift may be this part of it ..."""

FALL = 0.1
"""... and it has fallen to this part of what it was the last time: more often would cost more than it gives."""

LANES = 16
"""A product with this many columns takes as long as with half of them, and all columns share one Krylov space."""

CHECKED_ROWS = 128
"""Rows of a product that are computed in float64 too, to see how far it errs."""


def mixed_pcg(run: Run, precondition: Precondition, steps: int) -> None:
    """Solve A alpha = y for every column until the float64 residual is below tol ||y||.

    Columns share each product with K and each other's directions; one that is done leaves a wide block. The residual
    that decides is `RidgeSystem.residual`, with K evaluated in float64; if it is not there yet another pass works on
    it, as long as each pass at least halves it.
    """
    refine(run, lambda: _Pass(run, precondition).advance(steps))


class _Pass:
    """One pass of block conjugate gradients on the residual that is left, over the columns that are still open.

    Per open column it carries the residual r, the distance travelled since it was last computed, and how large it was
    then; for the block, directions p with orthonormal columns, u = A p, and the Cholesky factor of p'u. Any basis of
    the directions gives the same iterates; an orthonormal one stays independent when residuals become alike.
    """

    def __init__(self, run: Run, precondition: Precondition) -> None:
        self.run, self.system, self.precondition = run, run.system, precondition
        self.target, self.base = run.residual, run.alpha
        self.gained = torch.zeros_like(self.target)
        self.relative = run.relative_norms(self.target)
        self.aim = torch.clamp(REACH * self.relative, min=AIM * run.system.tol)
        self.open = (self.relative > self.aim).nonzero()[:, 0]

    def _start(self) -> None:
        self.r = self.target[:, self.open]
        self.p = torch.linalg.qr(self.precondition(self.r)).Q
        self.travelled, self.fresh = self.r.new_zeros(len(self.open)), self.r.norm(dim=0)
        self.product_error: float | None = None

    def _step(self) -> Tensor | None:
        """Go to the best point along p; return how far each column went, or None if A is not positive along p."""
        product = self.system.apply_kernel(self.p)
        if self.product_error is None:
            self.product_error = self._error_of(product)
        self.u = product.add_(self.p, alpha=self.system.ridge)
        core = self.p.T @ self.u
        self.factor, info = torch.linalg.cholesky_ex((core + core.T) / 2)
        if int(info) != 0 or not bool(torch.isfinite(self.factor).all()):
            finite = bool(torch.isfinite(core).all())
            self.run.status = Status.BREAKDOWN if finite else Status.DIVERGED
            if finite and self.system.engine.dtype == self.system.X.dtype:
                refuse_negative(float(torch.linalg.eigvalsh(core)[0]) - self.system.ridge, self.system)
            return None
        gamma = torch.cholesky_solve(self.p.T @ self.r, self.factor)
        step = self.p @ gamma
        advanced = step.norm(dim=0)
        self.gained[:, self.open] += step
        self.r = self.r - self.u @ gamma
        self.travelled = self.travelled + advanced
        size = self.r.norm(dim=0)
        if bool(((self.product_error * self.travelled > DRIFT * size) & (size < FALL * self.fresh)).any()):
            gained = self.gained[:, self.open]
            product = self.system.engine.accurate(gained).add_(gained, alpha=self.system.ridge)
            self.r = self.target[:, self.open] - product
            self.travelled, self.fresh = torch.zeros_like(self.travelled), self.r.norm(dim=0)
        self.relative[self.open] = self.r.norm(dim=0) / self.system.norms[self.open]
        return advanced

    def advance(self, steps: int) -> bool:
        """Advance the run until every column's own residual is small (True) or something ends the run (False)."""
        if len(self.open) == 0:
            return True
        self._start()
        while self.run.steps < steps:
            advanced = self._step()
            if advanced is None or not self.run.note(self.base + self.gained, self.relative.clone()):
                return False
            stay = self.relative[self.open] > self.aim[self.open]
            if not bool((stay & (advanced > 0)).any()):
                return True
            if len(self.open) > LANES:  # a narrower block would not cost as much
                self.open, self.r = self.open[stay], self.r[:, stay]
                self.travelled, self.fresh = self.travelled[stay], self.fresh[stay]
            z = self.precondition(self.r)
            if not bool(((self.r * z).sum(0) >= 0).all()):  # round-off has made the preconditioner indefinite
                self.run.status = Status.BREAKDOWN
                return False
            self.p = torch.linalg.qr(z - self.p @ torch.cholesky_solve(self.u.T @ z, self.factor)).Q
        return False

    def _error_of(self, product: Tensor) -> float:
        """Return ||e|| / ||p|| of a product K p, judged by some of its rows: the largest over the columns."""
        system = self.system
        if system.engine.dtype == torch.float64:
            return 0.0
        rows = torch.linspace(0, system.n - 1, min(CHECKED_ROWS, system.n), device=product.device).long()
        left, exact = system.X[rows].to(torch.float64), torch.zeros_like(product[rows])
        for some, p in zip(system.X.split(TILE), self.p.split(TILE), strict=True):
            exact += system.kernel.dense(left, some.to(torch.float64)) @ p
        error = (product[rows] - exact).norm(dim=0) * (system.n / len(rows)) ** 0.5
        return float(divide(error, self.p.norm(dim=0)).max())
