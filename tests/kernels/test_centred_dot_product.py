"""The bound on a kernel entry covers projected and centred rows: held against exact rational arithmetic."""

from fractions import Fraction

import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import CentredDotProduct


def rows(count, what):
    return 0.5 * torch.randn(count, 5, generator=torch_generator(0, what), dtype=torch.float64)


def exactly(rows, projection, centred):
    """Return the features as fractions."""
    rows = [[Fraction(float(value)) for value in row] for row in rows]
    if centred is not None:
        mean = [sum(Fraction(float(v)) for v in column) / len(centred) for column in centred.T]
        rows = [[a - m for a, m in zip(row, mean, strict=True)] for row in rows]
    if projection is None:
        return rows
    columns = [[Fraction(float(v)) for v in column] for column in projection]
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in rows]


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("centre", [False, True])
def test_entry_error_bounds_the_error(centre, projected, shift):
    X, Xq = rows(7, "X"), rows(4, "Xq")
    X, Xq = X + shift, Xq + shift
    kernel = CentredDotProduct(rows(3, "U") if projected else None, X if centre else None)
    computed, w = kernel.dense(Xq, X), (kernel.entry_error(Xq), kernel.entry_error(X))
    left, right = (exactly(rows, kernel.projection, kernel.centred) for rows in (Xq, X))
    worst = 0.0
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            truth = sum(p * q for p, q in zip(a, b, strict=True))
            worst = max(worst, float(abs(Fraction(float(computed[i, j])) - truth)) / float(w[0][i] * w[1][j]))
        own = sum(p * p for p in a)
        assert Fraction(float(kernel.roots(Xq)[i])) ** 2 >= own
    assert worst <= 1
    assert worst > (1e-4 if shift == 0 else 1e-12)  # it is no empty bound, though centring pays for the worst case


def test_without_centring_or_projection_it_is_the_dot_product():
    X = rows(6, "X")
    torch.testing.assert_close(CentredDotProduct().dense(X, X), X @ X.T)
