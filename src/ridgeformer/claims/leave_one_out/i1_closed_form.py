"""I1: leaving one row out without fitting again."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Evidence, Figure, Origin, Verdict
from ridgeformer.claims.leave_one_out._influence import KERNELS, labelled_digits
from ridgeformer.claims.trials import within
from ridgeformer.influence.exact import influence
from ridgeformer.kernels import Kernel
from ridgeformer.solving import solve
from ridgeformer.solving.ridge_path import leave_one_out_path

ROWS, QUERIES = 25, 5
RIDGES = (0.01, 1.0)


def _without(X: Tensor, i: int) -> Tensor:
    return torch.cat([X[:i], X[i + 1 :]])


def refitted(kernel: Kernel, X: Tensor, y: Tensor, Z: Tensor, ridge: float) -> Tensor:
    """Return f_{-i} at the queries by n fits, each without one row: (queries, n)."""
    columns = []
    for i in range(len(X)):
        rows = _without(X, i)
        alpha = solve(kernel, rows, _without(y, i), ridge).alpha
        columns.append(kernel(Z, rows) @ alpha)
    return torch.stack(columns, 1)


def check(cases: int) -> Evidence:
    """Compare closed forms with refits, at queries and at the row left out."""
    errors, residuals = [], []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, RIDGES):
        X, y, Z = labelled_digits(ROWS, QUERIES, seed)
        found = influence(kernel, X, y, Z, ridge)
        again = refitted(kernel, X, y, torch.cat([Z, X]), ridge)
        full = kernel(Z, X) @ solve(kernel, X, y, ridge).alpha
        errors.append((full[:, None] - again[:QUERIES] - found.leave_one_out.T).abs())
        left_out = y - again[QUERIES:].diagonal()
        residuals.append((left_out - leave_one_out_path(kernel(X), y[:, None], [ridge])[0, :, 0]).abs())
        residuals.append((left_out - found.residual).abs())
    return Evidence(
        stated=(
            within("f(x) - f_{-i}(x) = (R k(x))_i alpha_i/R_ii", torch.stack(errors), 1e-11),
            within("y_i - f_{-i}(x_i) = alpha_i/R_ii", torch.stack(residuals), 1e-11),
        ),
        figures=(
            Figure("largest difference from refits, at queries", float(torch.stack(errors).max())),
            Figure("largest difference from refits, at the row left out", float(torch.stack(residuals).max())),
        ),
    )


I1 = Claim(
    id="I1",
    source="influence, closed form",
    origin=Origin.OWN,
    title="Leave-one-out in closed form",
    stated="What a fit without row i would change at x follows from one inverse: no refit is needed.",
    formula=r"f(x) - f_{-i}(x) = \frac{(R\,k(x))_i\, \alpha_i}{R_{ii}}, \qquad y_i - f_{-i}(x_i) = "
    r"\frac{\alpha_i}{R_{ii}}, \qquad R = (K+\lambda I)^{-1}",
    verdict=Verdict.TRUE,
    condition="l > 0 is kept the same when a row is left out; one target column at a time.",
    check=check,
)
