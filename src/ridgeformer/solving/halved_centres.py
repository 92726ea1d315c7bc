"""A fit on centres and a rough one on half of them, of rows that may be anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solving.centre_products import CentreProducts
from ridgeformer.solving.distance import estimate_distance, sampled_distance
from ridgeformer.solving.normal_equations import ACCURACY, ROUGHLY, Descent, NormalEquations, factor_of, sampled_gram

__all__ = ["HalvedCentres", "Passes", "independent"]

SPANNED = {torch.float32: 1e-7, torch.float64: 1e-12}
"""Part of the largest k(x, x) below which a centre's distance from the span of others counts as none, by the precision
of the rows: coefficients would cancel each other beyond what float32 passes carry, and float64 ones cost several times
as much."""

PROBED = 8192
"""Rows from which the error of a pass in float32 is estimated."""


@runtime_checkable
class Passes(Protocol):
    """All that a fit needs of its n rows and their r targets: passes over them, for one set of centres."""

    def normal(self, P: Tensor, dtype: torch.dtype) -> Tensor:
        """Return K_c'K_c P, entries and the sums of some rows in `dtype`."""

    def pull(self) -> Tensor:
        """Return K_c'y in float32, (m, r)."""

    def residual(self, B: Tensor) -> Tensor:
        """Return K_c'(y - K_c b) in float64 for every set b of r columns of B."""

    def judged(self, B: Tensor, S: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return k(S, X)(y - K_c b) for two sets b of r columns, and two sums over all rows.

        One is of the squares of what the first set leaves, the other of the squared differences between both.
        """

    def others(self, Z: Tensor) -> Passes:
        """Return the same rows with other centres."""


class HalvedCentres:
    """The normal equations of centres and of the first half of them.

    Args:
        kernel, ridge: what is solved.
        n: the number of rows.
        Z: the centres, (m, d) in float64.
        first: which of them are the first half.
        sampled: rows of which the preconditioner is made.
        passes: over all rows.
        rounded: coefficients to the same as the caller gets them.
    """

    def __init__(
        self,
        kernel: Kernel,
        ridge: float,
        n: int,
        Z: Float[Tensor, "m d"],
        first: Int[Tensor, " h"],
        sampled: Float[Tensor, "s d"],
        passes: Passes,
        rounded: Callable[[Tensor], Tensor],
    ) -> None:
        self.kernel, self.n, self.Z, self.first, self.passes, self._rounded = kernel, n, Z, first, passes, rounded
        K = kernel.dense(Z, Z)
        gram = sampled_gram(kernel, sampled, Z, K, ridge, n)
        self.whole, self._probed = len(sampled) >= n, sampled[:PROBED]
        self.equations = NormalEquations(K, factor_of(gram), ridge, passes.normal, self.judge)
        self._gram, self.half = gram[first][:, first], torch.zeros_like(Z[:, :0])
        self._judged: tuple[Tensor, Tensor] | None = None

    def judge(self, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return b as the caller gets it, and the gradient there; the half is passed over with it."""
        b = self._rounded(b).contiguous()
        return b, self._gradient(torch.cat([b, self.half], 1))[:, : b.shape[1]]

    def _gradient(self, columns: Tensor) -> Tensor:
        """Return K_c'(y - K_c b) - ridge K_cc b in float64 for every set b of columns: known if it was judged last."""
        if self._judged is None or not torch.equal(self._judged[0], columns):
            gradient = self.passes.residual(columns) - self.equations.ridge * (self.equations.K @ columns)
            self._judged = columns, gradient
        return self._judged[1]

    def begin(self, warm: Tensor | None) -> Descent:
        """Return the descent on half of the centres, from coefficients on all of them or from zero."""
        h, equations, at_zero = self.first, self._first_half(), self.passes.pull()
        single = self.error_in_float32(at_zero)
        working = "float32" if single <= ROUGHLY else "float64"
        if working == "float64":
            at_zero = self.passes.residual(torch.zeros_like(at_zero))
        b = torch.zeros_like(at_zero[h]) if warm is None else warm[h]
        at = equations.begin(b, equations.gradient(b, at_zero[h], working), at_zero[h])
        at.at_zero, at.single, at.working = at_zero, single, working
        return at

    def error_in_float32(self, at_zero: Tensor) -> float:
        """Return the error of a pass in float32 over the gradient at zero, in the norm of the preconditioner.

        It is measured on some rows, at about the solution. Errors of rows are independent: their sum grows as a root.
        """
        size, products = self.equations.size, CentreProducts(self.kernel, self._probed, self.Z)
        b = torch.cholesky_solve(at_zero, self.equations.lower)
        unit = b.abs().amax(0).clamp_min(torch.finfo(torch.float32).tiny)
        gap = products.normal(b, torch.float64) - products.normal(b / unit, torch.float32) * unit
        start = size(at_zero)
        relative = torch.where(start > 0, size(gap) / start, 0.0).max()
        return float(relative) * (self.n / len(self._probed)) ** 0.5

    def second_half(self, at: Descent, save: Callable[[Descent], bool]) -> Descent:
        """Finish the half, and return the descent on all centres that starts from it."""
        assert at.at_zero is not None
        half = torch.zeros_like(at.at_zero)
        if len(self.first):
            half[self.first] = self._first_half().approach(at, save)
        carried = at.working == "float32" and at.single <= ACCURACY / 2  # else one more cycle would follow
        gradient = self.equations.gradient(half, at.at_zero, "float32") if carried else self.judge(half)[1]
        start = self.equations.begin(half.clone(), gradient, at.at_zero)
        start.scale = 1.0 if carried else start.reached
        start.half, start.single, start.working = half, at.single, at.working
        save(start)
        return start

    def _first_half(self) -> NormalEquations:
        h, ridge = self.first, self.equations.ridge
        passes = self.passes.others(self.Z[h]) if len(h) else self.passes
        lower = factor_of(self._gram) if len(h) else self._gram
        return NormalEquations(self.equations.K[h][:, h], lower, ridge, passes.normal, self.judge)

    def left_out(self, b: Tensor, S: Float[Tensor, "s d"], y: Float[Tensor, "s r"]) -> Float[Tensor, "s r"]:
        """Return leave-one-out residuals of some rows, a row's weight in its own prediction from the preconditioner."""
        cross = self.kernel.dense(S, self.Z)
        weight = torch.linalg.solve_triangular(self.equations.lower, cross.T, upper=False).square().sum(0)
        if not self.whole:  # the factor is of other rows: with its own term, a row's weight stays below one
            weight = weight / (1 + weight)
        return (y - cross @ b) / (1 - weight.clamp(0, 0.99))[:, None]

    def distance(self, b: Tensor, S: Float[Tensor, "s d"]) -> Float[Tensor, " r"]:
        """Return the estimate of `solving.distance`, from some rows; one pass over all of them.

        v = K a - f is E a only where the gradient is zero. The fit on half of the centres is a rough one: at a small
        ridge what its gradient adds to v would hide the rest. It is taken off; it lies in the span of the centres. What
        the gradient of the fit itself says of its distance from the solution on these centres is added.
        """
        K, ridge, r, cross = self.equations.K, self.equations.ridge, b.shape[1], self.kernel.dense(S, self.Z)
        columns = torch.cat([b, self.half], 1)
        gradient = self._gradient(columns)
        pull, squares, change = self.passes.judged(columns, S)
        v = pull / ridge - cross @ columns
        own, found = self.kernel.dense(S, S), []
        for chosen, place in ((slice(None), slice(r)), (self.first, slice(r, None))):
            among, part, E = K[chosen][:, chosen], v[:, place], own
            if len(among):
                lower = factor_of(among)
                half = torch.linalg.solve_triangular(lower, cross[:, chosen].T, upper=False)
                E = own - half.T @ half
                added = torch.linalg.solve_triangular(lower, gradient[chosen][:, place] / ridge, upper=False)
                part = part - half.T @ added
            found.append(sampled_distance(E, part, ridge, self.n)["g"])
        # b is not the minimiser on its centres: how far it is from that is another part, orthogonal to the first
        unsolved = self.equations.size(gradient[:, :r]) / self.n**0.5
        estimate = estimate_distance(found[0], found[1], (change / self.n).sqrt()).hypot(unsolved)
        # the penalised error J is strongly convex: a squared distance from its minimiser is at most the excess of J
        excess = squares + ridge * (b * (K @ b)).sum(0)
        return torch.minimum(estimate, (excess / self.n).clamp_min(0).sqrt())


def independent(kernel: Kernel, rows: Float[Tensor, "m d"]) -> Int[Tensor, " k"]:
    """Return the numbers of rows that the others do not span to the digits of their dtype."""
    from scipy.linalg.lapack import dpstrf

    Z = rows.to(torch.float64)
    K = kernel.dense(Z, Z).cpu().numpy()
    _, pivots, rank, _ = dpstrf(K, tol=SPANNED[rows.dtype] * float(K.diagonal().max()))
    return torch.from_numpy(pivots[:rank] - 1).long().to(Z.device)
