"""Conjugate gradients with products in a lower precision than their sums: large systems at float32 speed.

Iterates and residuals are float64; only the product with K and the preconditioner are not. Claim B3 says what
that costs: the true residual is the recursive one plus sum_j gamma_j e_j exactly, e_j the error of product j. So
once the step lengths travelled, times the error of a product as it was measured, come near the residual, the
residual is computed anew and the iteration goes on from it, keeping its direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.solvers.iterate import divide
from ridgeformer.solvers.preconditioners import Preconditioner
from ridgeformer.solvers.run import Callback, Run
from ridgeformer.solvers.semidefinite import refuse_negative
from ridgeformer.solvers.solution import Status
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["mixed_pcg"]

AIM = 0.6
"""The recursive residual is brought below this part of the tolerance, as the true one lies a little above it."""

REACH = 5e-7
"""What one pass in float32 can take off a residual; more is left to the next pass."""

DRIFT = 0.3
"""The residual is computed anew once the drift may be this part of it ..."""

FALL = 0.1
"""... and it has fallen to this part of what it was the last time: more often would cost more than it gives."""


def mixed_pcg(
    system: RidgeSystem,
    precondition: Preconditioner,
    y: Tensor,
    *,
    tol: float,
    max_steps: int,
    callback: Callback | None = None,
    keep: bool = False,
) -> Run:
    """Solve A alpha = y for every column until the float64 residual is below tol ||y||.

    Columns share each product with K; one that is done leaves the block. The residual that decides is
    `RidgeSystem.residual`, with K evaluated in float64; if it is not there yet another pass works on it, as long as
    each pass at least halves it.
    """
    scale = y.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    record = Run(torch.zeros_like(y), y, relative=[y.norm(dim=0) / scale])
    before = float("inf")
    while True:
        finished = _Pass(system, precondition, record, scale, tol).run(max_steps, callback, keep)
        record.alpha = record.alpha.to(system.X.dtype).to(torch.float64)  # what is handed out, so what is judged
        record.residual = system.residual(record.alpha, y)
        reached = float((record.residual.norm(dim=0) / scale).max())
        if reached <= tol and record.status is not Status.STOPPED:
            record.status = Status.CONVERGED
        elif finished and not reached <= before / 2:
            record.status = Status.BREAKDOWN
        elif finished:
            before = reached
            continue
        return record


@dataclass
class _Pass:
    """One pass of conjugate gradients on the residual that is left, over the columns that are still open."""

    system: RidgeSystem
    precondition: Preconditioner
    record: Run
    scale: Tensor
    tol: float

    def run(self, max_steps: int, callback: Callback | None, keep: bool) -> bool:
        """Advance the record until every column's own residual is small (True) or something ends the run (False)."""
        record, target = self.record, self.record.residual
        record.gammas, record.betas = [], []
        relative = target.norm(dim=0) / self.scale
        aim = torch.clamp(REACH * relative, min=AIM * self.tol)
        base, gained = record.alpha, torch.zeros_like(target)
        open_ = (relative > aim).nonzero()[:, 0]
        if len(open_) == 0:
            return True
        r = target[:, open_]
        z = self.precondition(r)
        p, rho = z, (r * z).sum(0)
        product_error = self._product_error(p)
        travelled, fresh = torch.zeros_like(rho), r.norm(dim=0)
        while record.steps < max_steps:
            u = self.system.apply(p)
            pu = (p * u).sum(0)
            if self._indefinite(pu, p):
                return False
            gamma = divide(rho, pu)
            gained[:, open_] += gamma * p
            r = r - gamma * u
            travelled = travelled + gamma.abs() * p.norm(dim=0)
            size = r.norm(dim=0)
            if bool(((product_error * travelled > DRIFT * size) & (size < FALL * fresh)).any()):
                r, travelled = self._anew(target[:, open_], gained[:, open_]), torch.zeros_like(travelled)
                fresh = r.norm(dim=0)
            record.steps += 1
            relative[open_] = r.norm(dim=0) / self.scale[open_]
            record.relative.append(relative.clone())
            record.alpha = base + gained
            if keep:
                record.iterates.append(record.alpha)
            if not bool(torch.isfinite(relative).all()):
                record.status = Status.DIVERGED
                return False
            if callback is not None and callback(record.steps, record.alpha, relative.clone()):
                record.status = Status.STOPPED
                return False
            stay = relative[open_] > aim[open_]
            if not bool((stay & (gamma != 0)).any()):
                return True
            z = self.precondition(r)
            rho, previous = (r * z).sum(0), rho
            if bool((rho < 0).any()):  # round-off has made the preconditioner indefinite
                record.status = Status.BREAKDOWN
                return False
            beta = divide(rho, previous)
            if len(stay) == len(aim):
                record.gammas.append(float(gamma[0]))
                record.betas.append(float(beta[0]))
            p = (z + beta * p)[:, stay]
            r, rho, open_ = r[:, stay], rho[stay], open_[stay]
            travelled, fresh = travelled[stay], fresh[stay]
        return False

    def _product_error(self, p: Tensor) -> float:
        """Return ||e|| / ||p|| of one product, measured: the largest over the columns."""
        if self.system.engine.dtype == torch.float64:
            return 0.0
        error = self.system.engine.matmat(p) - self.system.engine.accurate(p)
        return float(divide(error.norm(dim=0), p.norm(dim=0)).max())

    def _anew(self, target: Tensor, gained: Tensor) -> Tensor:
        return target - self.system.engine.accurate(gained).add_(gained, alpha=self.system.ridge)

    def _indefinite(self, pu: Tensor, p: Tensor) -> bool:
        lowest = divide(pu, (p * p).sum(0))
        if not bool((lowest < 0).any()):
            return False
        if self.system.engine.dtype == self.system.X.dtype:
            refuse_negative(float(lowest.min()) - self.system.ridge, self.system)
        self.record.status = Status.BREAKDOWN
        return True
