"""Kernel ridge regression in ball arithmetic: every float is taken as the exact number it is.

Kernels are evaluated from their definition, by rational dot products and python-flint's balls, and share no code with
the library. Elimination widens the balls, so a solution that is not known precisely enough is computed again with twice
the bits. A comparison that the balls cannot decide raises `UndecidedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from flint import arb, arb_mat, ctx, fmpq
from torch import Tensor

from ridgeformer.kernels import DotProduct, Exponential, Gaussian, GramPower, Kernel, ReluNTK

__all__ = ["BITS", "ExactRegression", "UndecidedError", "exceeds", "kernel_ball", "norm"]

BITS, MOST_BITS = 3000, 48_000
"""Precision of the balls at first, and at most: twice as many bits are taken until `SURE` of a solution are right."""

SURE = 1500
"""Bits of a solution, relative to its largest entry, that are right: a prediction that cancels to 1e-300 has 500."""

Rows = list[list[fmpq]]


class UndecidedError(ArithmeticError):
    """Two balls overlap, so which number is larger cannot be said at this precision."""


def exceeds(left: Any, right: float) -> bool:
    """Return whether an exact quantity is larger than a float bound; an infinite bound is exceeded by nothing."""
    if right == float("inf"):
        return False
    ball = arb(right)
    if left > ball:
        return True
    if left <= ball or left.rel_accuracy_bits() > 100 or left.rad() < arb(2) ** -1200:
        return False  # not above it, or equal to it in more digits than any float has
    raise UndecidedError(f"{left.str(10)} and {right} cannot be told apart at {BITS} bits")


def norm(values: Sequence[Any]) -> Any:
    """Return the 2-norm of balls."""
    total = arb(0)
    for value in values:
        total += value * value
    return total.sqrt() if total > 0 else abs(total).upper().sqrt()


def rational(X: Tensor) -> Rows:
    """Return the entries as the rational numbers that the floats are."""
    return [[fmpq(*value.as_integer_ratio()) for value in row] for row in X.detach().double().tolist()]


def dot(x: list[fmpq], z: list[fmpq]) -> fmpq:
    """Return the exact dot product."""
    return sum((a * b for a, b in zip(x, z, strict=True)), fmpq(0))


def transformed(kernel: Kernel, rows: Rows) -> tuple[Rows, Rows]:
    """Return the rows as they stand left and right in a kernel's dot products: U x, or x and C^(order-1) x."""
    if isinstance(kernel, Exponential | Gaussian) and kernel.projection is not None:
        U = rational(kernel.projection)
        rows = [[dot(u, x) for u in U] for x in rows]
    if not isinstance(kernel, GramPower):
        return rows, rows
    context, right = rational(kernel.context), rows
    columns = [[row[k] for row in context] for k in range(len(context[0]))]
    for _ in range(kernel.order - 1):  # z <- C z with C = context'context
        right = [[dot(column, [dot(c, z) for c in context]) for column in columns] for z in right]
    return rows, right


def kernel_ball(kernel: Kernel, x: list[fmpq], z: list[fmpq]) -> Any:
    """Return k(x, z) as a ball, given x as it stands on the left and z on the right."""
    if isinstance(kernel, DotProduct | GramPower):
        return arb(dot(x, z))
    if isinstance(kernel, Exponential):
        return (arb(dot(x, z)) / arb(kernel.temperature) - arb(kernel.log_scale)).exp()
    if isinstance(kernel, Gaussian):
        gap = [a - b for a, b in zip(x, z, strict=True)]
        return (-arb(dot(gap, gap)) / (2 * arb(kernel.temperature))).exp()
    if isinstance(kernel, ReluNTK):
        return _relu(dot(x, z), dot(x, x), dot(z, z), kernel.both_layers)
    raise TypeError(f"no exact form of {kernel!r}")


def _relu(inner: fmpq, xx: fmpq, zz: fmpq, both_layers: bool) -> Any:
    """Return the tangent kernel; |x| |z| sin t is the square root of a rational number >= 0."""
    sine = arb(xx * zz - inner * inner).sqrt()
    angle = arb.atan2(sine, arb(inner)) if xx * zz else arb.pi() / 2
    first = arb(inner) * (arb.pi() - angle) / (2 * arb.pi())
    return first + (sine + (arb.pi() - angle) * arb(inner)) / (2 * arb.pi()) if both_layers else first


def _sure(column: list[Any]) -> bool:
    """Return whether a column of balls is known to `SURE` bits of its largest entry, or is exactly zero."""
    if not all(value.is_finite() for value in column):
        return False
    largest = max(abs(value).upper() for value in column)
    return bool(all(value.rad() <= largest * arb(2) ** -SURE for value in column))


class ExactRegression:
    """(K + ridge I) alpha = y, solved in balls."""

    def __init__(self, kernel: Kernel, X: Tensor, y: Tensor, ridge: float) -> None:
        self.kernel, self.ridge, n = kernel, ridge, len(X)
        self.left, self.rows = transformed(kernel, self.read(X))
        self.y = [[arb(value) for value in row] for row in y.double().reshape(n, -1).tolist()]
        self.outputs = len(self.y[0])
        self.alpha = self._solve(self.y)

    def _solve(self, sides: list[list[Any]]) -> Any:
        """Return A^-1 sides, computed with as many bits as it takes; K and A stay as precise as that."""
        n, ctx.prec = len(self.rows), BITS
        while ctx.prec <= MOST_BITS:
            self.K = arb_mat(n, n, [kernel_ball(self.kernel, x, z) for x in self.left for z in self.rows])
            self.A = self.K + arb(self.ridge) * arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
            try:
                found = self.A.solve(arb_mat(n, len(sides[0]), [value for row in sides for value in row]))
            except ZeroDivisionError:  # no pivot is known not to be zero
                found = None
            if found is not None and all(_sure([found[i, c] for i in range(n)]) for c in range(len(sides[0]))):
                return found
            ctx.prec *= 2
        raise UndecidedError(f"the exact solution is not known to {SURE} bits at {MOST_BITS} bits")

    def read(self, X: Tensor) -> Rows:
        """Return rows as the kernel is given them."""
        return rational(X)

    def predictions(self, Xq: Tensor) -> list[list[Any]]:
        """Return f*(x) for every query and output."""
        n = len(self.rows)
        left, _ = transformed(self.kernel, self.read(Xq))
        cross = [kernel_ball(self.kernel, x, z) for x in left for z in self.rows]
        found = arb_mat(len(Xq), n, cross) * self.alpha
        return [[found[q, c] for c in range(self.outputs)] for q in range(len(Xq))]

    def coefficient_errors(self, alpha: Tensor, scale: Any) -> list[Any]:
        """Return ||alpha - scale alpha*|| per output."""
        given = self._given(alpha)
        n = len(self.rows)
        return [norm([given[i][c] - scale * self.alpha[i, c] for i in range(n)]) for c in range(self.outputs)]

    def residuals(self, alpha: Tensor, scale: Any) -> list[Any]:
        """Return ||y - (K + ridge I) alpha / scale|| per output."""
        given = self._given(alpha)
        n = len(self.rows)
        product = self.A * arb_mat(n, self.outputs, [value / scale for row in given for value in row])
        return [norm([self.y[i][c] - product[i, c] for i in range(n)]) for c in range(self.outputs)]

    def target_norms(self) -> list[Any]:
        """Return ||y|| per output."""
        return [norm([row[c] for row in self.y]) for c in range(self.outputs)]

    def fit_difference(self, alpha: Tensor, scale: Any) -> list[Any]:
        """Return, per output, the root mean square over the training rows of K alpha / scale - K alpha*."""
        given, n = self._given(alpha), len(self.rows)
        gap = [given[i][c] / scale - self.alpha[i, c] for i in range(n) for c in range(self.outputs)]
        moved = self.K * arb_mat(n, self.outputs, gap)
        return [norm([moved[i, c] for i in range(n)]) / arb(n).sqrt() for c in range(self.outputs)]

    def leave_one_out(self) -> list[list[Any]]:
        """Return y_i - f_{-i}(x_i) for every row and output, as alpha*_i / R_ii."""
        n, m = len(self.rows), self.outputs
        found = self._solve([[*row, *(arb(int(i == j)) for j in range(n))] for i, row in enumerate(self.y)])
        return [[found[i, c] / found[i, m + i] for c in range(m)] for i in range(n)]

    def _given(self, alpha: Tensor) -> list[list[Any]]:
        values = alpha.detach().to(torch.float64).reshape(len(self.rows), -1).tolist()
        return [[arb(value) for value in row] for row in values]
