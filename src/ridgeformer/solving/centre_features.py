"""A fit on centres as what it is: ridge regression in as many features as there are centres, with its exact formulas.

With K_cc = L L' the features of a row are f(x) = L^-1 k_c(x), and the fit is kernel ridge regression with the kernel
f(x)'f(z). Everything that is exact for a kernel is exact here, with matrices of the number of centres: two passes over
the rows, which may be on disk. Leaving a row out leaves its target out; where the row is a centre, it stays one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer import intervals
from ridgeformer.intervals import Interval
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving.direct import factorise_in_place
from ridgeformer.solving.engines.base import LinAlgError

__all__ = ["CentreFeatures"]

UNPROVED = "; not proved here, as the centres were chosen by a look at all rows, or are left out themselves"
"""Added to the guarantee of jackknife+ where its theorem does not hold as it stands."""


class CentreFeatures:
    """Ridge regression of y on the features of m centres, in float64.

    Args:
        kernel: the kernel.
        X: all rows, (n, d).
        y: their targets, (n, outputs).
        centres: the numbers of the rows that are centres.
        ridge: lambda > 0.
        uniform: whether the centres were drawn at random, without a look at the rows.

    Raises:
        LinAlgError: the centres are dependent beyond what rounding explains.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Float[Tensor, "n d"],
        y: Float[Tensor, "n r"],
        centres: Int[Tensor, " m"],
        ridge: float,
        uniform: bool,
    ) -> None:
        self.kernel, self.X, self.y, self.ridge, self.centres, self.uniform = kernel, X, y, ridge, centres, uniform
        self.Z = X[centres].to(torch.float64)
        K = kernel.dense(self.Z, self.Z)
        jitter = torch.finfo(torch.float64).eps * float(K.diagonal().sum())
        while not factorise_in_place(half := K.clone(), jitter):
            jitter *= 10
        half.tril_()
        gram, pull = torch.zeros_like(K), torch.zeros(len(K), y.shape[1], dtype=torch.float64, device=K.device)
        for rows, cross in self._blocks():
            F = torch.linalg.solve_triangular(half, cross, upper=False)
            gram.addmm_(F, F.T)
            pull.addmm_(F, y[rows].to(torch.float64))
        gram.diagonal().add_(ridge)
        core, info = torch.linalg.cholesky_ex(gram)
        if int(info) != 0:
            raise LinAlgError("the Gram matrix of the features is not positive definite")
        self.lower: Float[Tensor, "m m"] = half @ core
        """The Cholesky factor of K_c'K_c + ridge K_cc, made of two factors that are each well determined."""
        self.b: Float[Tensor, "m r"] = torch.linalg.solve_triangular(
            half.T, torch.cholesky_solve(pull, core), upper=True
        )

    def _blocks(self, rows: Tensor | None = None) -> Iterator[tuple[slice | Tensor, Tensor]]:
        """Yield some rows at a time, all or those of these numbers, and k_c(x) of them as columns."""
        size = max(1, 4 * BLOCK_ENTRIES // len(self.Z))
        count = len(self.X) if rows is None else len(rows)
        for start in range(0, count, size):
            some = slice(start, start + size) if rows is None else rows[start : start + size]
            yield some, self.kernel.dense(self.X[some].to(torch.float64), self.Z).T

    @cached_property
    def _second(self) -> tuple[Tensor, Tensor]:
        """What the fit leaves of the targets, (n, outputs), and the weight of every row in its own prediction."""
        left = torch.empty(len(self.X), self.b.shape[1], dtype=torch.float64, device=self.b.device)
        weight = torch.empty_like(left[:, 0])
        for rows, cross in self._blocks():
            left[rows] = self.y[rows].to(torch.float64) - cross.T @ self.b
            weight[rows] = torch.linalg.solve_triangular(self.lower, cross, upper=False).square().sum(0)
        return left, weight

    @property
    def alpha(self) -> Float[Tensor, "n r"]:
        """(K^ + ridge I)^-1 y, K^ being the kernel matrix of the features: what the fit leaves, over the ridge."""
        return self._second[0] / self.ridge

    @property
    def inverse_diagonal(self) -> Float[Tensor, " n"]:
        """The diagonal of (K^ + ridge I)^-1."""
        return (1 - self._second[1]).clamp_min(torch.finfo(torch.float64).eps) / self.ridge

    @property
    def leave_one_out(self) -> Float[Tensor, "n r"]:
        """y_i - f_{-i}(x_i), the residual at each row of the fit without its target."""
        return self.alpha / self.inverse_diagonal[:, None]

    def predict(self, Xq: Float[Tensor, "q d"]) -> Float[Tensor, "q r"]:
        """Return f(x) for every query, in float64."""
        return self.kernel.product(Xq.to(torch.float64), self.Z, self.b)

    def weights(self, Xq: Float[Tensor, "q d"]) -> Float[Tensor, "n q"]:
        """Return the derivative of f(x) in every target, (K^ + ridge I)^-1 k^(x): one pass over the rows."""
        u = torch.cholesky_solve(self.kernel.dense(self.Z, Xq.to(torch.float64)), self.lower)
        found = torch.empty(len(self.X), len(Xq), dtype=torch.float64, device=u.device)
        for rows, cross in self._blocks():
            found[rows] = cross.T @ u
        return found

    def leave_group_out(self, Xq: Float[Tensor, "q d"], group: Int[Tensor, " g"]) -> Float[Tensor, "q r"]:
        """Return f(x) - f_{-B}(x) for a group B of rows whose targets are left out."""
        cross = torch.cat([columns for _, columns in self._blocks(group)], 1)
        half = torch.linalg.solve_triangular(self.lower, cross, upper=False)
        asked = torch.linalg.solve_triangular(self.lower, self.kernel.dense(self.Z, Xq.to(torch.float64)), upper=False)
        inverse = torch.eye(len(group), dtype=torch.float64, device=half.device) - half.T @ half
        left = self.y[group].to(torch.float64) - cross.T @ self.b
        return asked.T @ (half @ torch.linalg.solve(inverse, left))

    def jackknife_plus(self, Xq: Float[Tensor, "q d"], level: float, centred: bool) -> list[Interval]:
        """Return jackknife+ intervals, one for every output, from the fits without a target; queries a few at a time.

        Rows that are centres are not left out, if there are enough others: given centres drawn at random, the fit is a
        symmetric function of the other rows, and the theorem holds for them. Where targets are centred, leaving row i
        out moves their mean by -y_i / (n - 1), as in `fit_interval`.
        """
        used = torch.ones(len(self.X), dtype=torch.bool, device=self.b.device)
        used[self.centres] = False
        proved = self.uniform and int(used.sum()) >= intervals.rows_needed(level)
        if int(used.sum()) < intervals.rows_needed(level):
            used[:] = True
        n, y, residuals = len(self.X), self.y.to(torch.float64), self.leave_one_out
        moved = -y / (n - 1) * centred
        constant = self._coefficients(torch.ones_like(y[:, :1]))  # of the fit to targets of one
        if centred:
            lost = torch.cat([1 - cross.T @ constant for _, cross in self._blocks()])
            residuals = (self._second[0] - moved * lost) / (self.ridge * self.inverse_diagonal)[:, None]
        parts: list[list[Interval]] = [[] for _ in range(y.shape[1])]
        for some in Xq.split(max(1, 4 * BLOCK_ENTRIES // n)):
            W, values = self.weights(some), self.predict(some)
            for c, kept in enumerate(parts):
                left_out = values[:, c] - W * residuals[:, c : c + 1]
                if centred:
                    reach = 1 - self.kernel.product(some.to(torch.float64), self.Z, constant)[:, 0]
                    left_out.addr_(moved[:, c], reach)
                kept.append(intervals.jackknife_plus(residuals[used, c], left_out[used], level))
        return [
            Interval(
                torch.cat([one.low for one in kept]), torch.cat([one.high for one in kept]), level, kept[0].method,
                kept[0].guarantee if proved else kept[0].guarantee + UNPROVED,
            )
            for kept in parts
        ]  # fmt: skip

    def _coefficients(self, y: Float[Tensor, "n r"]) -> Float[Tensor, "m r"]:
        """Return the coefficients for other targets."""
        pull = torch.zeros(len(self.Z), y.shape[1], dtype=torch.float64, device=self.Z.device)
        for rows, cross in self._blocks():
            pull.addmm_(cross, y[rows])
        return torch.cholesky_solve(pull, self.lower)
