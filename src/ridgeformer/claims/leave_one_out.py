"""Claims I1 to I3: the influence of one training row on a kernel ridge regression."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.checks import drawn, within
from ridgeformer.claims.claim import Claim, Figure, Origin, Pieces, Plot, Trial, Verdict, corrected
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.exact import Influence, influence
from ridgeformer.kernels import Exponential, Kernel, ReluNTK
from ridgeformer.solving import solve
from ridgeformer.solving.ridge_path import leave_one_out_path

KERNELS: tuple[Kernel, ...] = (Exponential(0.5), ReluNTK())


def labelled_digits(n: int, queries: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rows of unit length, their parity as +-1, and other rows to predict."""
    data = datasets.load("digits").sample(n + queries, seed)
    X = torch.from_numpy(datasets.unit_rows(data.X))
    y = 1.0 - 2.0 * torch.from_numpy(data.y % 2)
    return X[:n], y[:n].double(), X[n:]


I1_ROWS, I1_QUERIES = 25, 5
I1_RIDGES = (0.01, 1.0)


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


def check_i1(cases: int) -> Pieces:
    """Compare closed forms with refits, at queries and at the row left out."""
    errors, residuals = [], []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, I1_RIDGES):
        X, y, Z = labelled_digits(I1_ROWS, I1_QUERIES, seed)
        found = influence(kernel, X, y, Z, ridge)
        again = refitted(kernel, X, y, torch.cat([Z, X]), ridge)
        full = kernel(Z, X) @ solve(kernel, X, y, ridge).alpha
        errors.append((full[:, None] - again[:I1_QUERIES] - found.leave_one_out.T).abs())
        left_out = y - again[I1_QUERIES:].diagonal()
        residuals.append((left_out - leave_one_out_path(kernel(X), y[:, None], [ridge])[0, :, 0]).abs())
        residuals.append((left_out - found.residual).abs())
    yield within("f(x) - f_{-i}(x) = (R k(x))_i alpha_i/R_ii", torch.stack(errors), 1e-11)
    yield within("y_i - f_{-i}(x_i) = alpha_i/R_ii", torch.stack(residuals), 1e-11)
    yield Figure("largest difference from refits, at queries", float(torch.stack(errors).max()))
    yield Figure("largest difference from refits, at the row left out", float(torch.stack(residuals).max()))


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
    check=check_i1,
)


I2_ROWS, I2_QUERIES = 40, 5
I2_RIDGES = (0.01, 1.0)


def by_autograd(kernel: Kernel, X: Tensor, y: Tensor, Z: Tensor, ridge: float) -> Tensor:
    """Return df(x)/dw_i at w = 1 of the fit that weighs the squared error of row i by w_i: (queries, n)."""
    K, across = kernel(X), kernel(Z, X)

    def predict(w: Tensor) -> Tensor:
        return across @ torch.linalg.solve(K + ridge * torch.diag(1 / w), y)

    return torch.autograd.functional.jacobian(predict, torch.ones_like(y))


def check_i2(cases: int) -> Pieces:
    """Compare with automatic differentiation in the weights, and with leave-one-out."""
    slopes, quotients, unlike, total, leverages = [], [], 0, 0, []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, I2_RIDGES):
        X, y, Z = labelled_digits(I2_ROWS, I2_QUERIES, seed)
        found = influence(kernel, X, y, Z, ridge)
        slope, left_out = found.infinitesimal.T, found.leave_one_out.T
        leverage = torch.linalg.solve(kernel(X) + ridge * torch.eye(I2_ROWS, dtype=X.dtype), kernel(X)).diagonal()
        slopes.append((slope - by_autograd(kernel, X, y, Z, ridge)).abs())
        quotients.append((slope / (1 - leverage) - left_out).abs())
        unlike += int((slope.sign() != left_out.sign()).sum())
        total += slope.numel()
        leverages.append(leverage)
    yield within("df(x)/dw_i = l (R k(x))_i alpha_i", torch.stack(slopes), 1e-11)
    yield within("leave-one-out is that over 1 - h_ii", torch.stack(quotients), 1e-11)
    yield Trial("the two have the same sign", total, unlike)
    yield within("0 <= h_ii < 1", (torch.stack(leverages) - 0.5).abs(), 0.5)
    yield Figure("largest difference from automatic differentiation", float(torch.stack(slopes).max()))
    yield Figure("largest leave-one-out over infinitesimal", float(1 / (1 - torch.stack(leverages).max())))


I2 = Claim(
    id="I2",
    source="influence, closed form",
    origin=Origin.OWN,
    title="Infinitesimal influence is leave-one-out times 1 - h_ii",
    stated="The derivative of a prediction in the weight of row i has a closed form, and leave-one-out is that over "
    "one minus the leverage: the two always have the same sign.",
    formula=r"\frac{\partial f(x)}{\partial w_i} = \lambda\,(R\,k(x))_i\,\alpha_i, \qquad f(x) - f_{-i}(x) = "
    r"\frac{\lambda\,(R\,k(x))_i\,\alpha_i}{1-h_{ii}}, \qquad h = KR",
    verdict=Verdict.TRUE,
    condition="l > 0, so that 1 - h_ii = l R_ii > 0; w_i multiplies the squared error of row i.",
    check=check_i2,
)


I3_ROWS, I3_QUERIES, RIDGE = 150, 20, 0.1
NOISES = (0.003, 0.01, 0.03, 0.1)
TENTHS = 10


def nudged(X: Tensor, size: float) -> Tensor:
    """Return X with random signs of this size added to every entry: the control of an l_inf attack."""
    signs = torch.randint(0, 2, X.shape, generator=torch_generator(0, "I3"), dtype=torch.int64) * 2 - 1
    return X + size * signs.to(X.dtype)


def flips(before: Influence, after: Influence) -> Tensor:
    """Return which leave-one-out influences changed sign, (n, queries)."""
    return before.leave_one_out.sign() != after.leave_one_out.sign()


def one_factor_changed(before: Influence, after: Influence) -> Tensor:
    """Return where exactly one of (R k(x))_i and alpha_i changed sign."""
    query = before.weights.sign() != after.weights.sign()
    alpha = before.alpha.sign() != after.alpha.sign()
    return query ^ alpha


def rate_by_size(before: Influence, flipped: Tensor) -> list[float]:
    """Return the share of flips in each tenth of the influences by absolute size, the smallest first."""
    order = before.leave_one_out.abs().flatten().argsort()
    return [float(part.double().mean()) for part in flipped.flatten()[order].tensor_split(TENTHS)]


def check_i3(cases: int) -> Pieces:
    """Nudge the rows at random, and sort the flips by the factor that caused them and by size."""
    total, wrong = 0, 0
    found: dict[tuple[str, float], list[list[float]]] = {}
    for seed, kernel in product(range(drawn(cases, 1)), KERNELS):
        X, y, Z = labelled_digits(I3_ROWS, I3_QUERIES, seed)
        before = influence(kernel, X, y, Z, RIDGE)
        for noise in NOISES:
            after = influence(kernel, nudged(X, noise), y, Z, RIDGE)
            flipped = flips(before, after)
            wrong += int((flipped != one_factor_changed(before, after)).sum())
            total += flipped.numel()
            found.setdefault((kernel.name, noise), []).append(rate_by_size(before, flipped))
    rates = {key: [sum(tenth) / len(tenth) for tenth in zip(*each, strict=True)] for key, each in found.items()}
    free = [tenths[0] <= tenths[-1] for tenths in rates.values()]
    low, high = (rates["exponential", 0.01][tenth] for tenth in (0, -1))
    yield Trial("an influence flips where exactly one factor does, and only there", total, wrong)
    yield corrected(Trial("random noise flips the smallest tenth oftener than the largest", len(free), sum(free)))
    yield Figure("flips under random noise of .01, smallest tenth", low)
    yield Figure("flips under random noise of .01, largest tenth", high)
    yield Plot(
        x="tenth of the influences by absolute size (10 = largest)", y="fraction whose sign changed",
        at=range(1, TENTHS + 1),
        solid={f"noise {noise:g}": found for (name, noise), found in rates.items() if name == "exponential"},
        caption="Noise alone flips the near-zero influences: a flip rate means something beside this control only.",
    )  # fmt: skip


I3 = Claim(
    id="I3",
    source="influence, closed form",
    origin=Origin.OWN,
    title="A sign flip means that exactly one factor changed sign",
    stated="As R_ii is positive, an influence changes sign exactly where one of its two factors does and the other "
    "does not.",
    formula=r"\operatorname{sign}\big(f(x) - f_{-i}(x)\big) = \operatorname{sign}(R\,k(x))_i\;"
    r"\operatorname{sign}\alpha_i",
    verdict=Verdict.TRUE,
    condition="l > 0. Near-zero influences flip for free: report flips on the largest by absolute size, beside random "
    "noise of the same size.",
    check=check_i3,
)
