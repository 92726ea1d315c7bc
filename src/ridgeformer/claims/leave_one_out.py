"""Claims I1 to I3: the influence of one training row on a kernel ridge regression."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.checks import corrected, drawn, stated
from ridgeformer.claims.claim import Claim, Figure, Origin, Pieces, Verdict, plot
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.exact import Influence, influence
from ridgeformer.kernels import Exponential, Kernel, ReluNTK
from ridgeformer.solving import solve
from ridgeformer.solving.ridge_path import leave_one_out_path

RIDGES, TENTHS = (0.01, 1.0), 10
KERNELS: tuple[Kernel, ...] = (Exponential(0.5), ReluNTK())


def labelled_digits(n: int, queries: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw rows of unit length, their parity as +-1, and other rows to predict."""
    data = datasets.load("digits").sample(n + queries, seed)
    X = torch.from_numpy(datasets.unit_rows(data.X))
    y = 1.0 - 2.0 * torch.from_numpy(data.y % 2)
    return X[:n], y[:n].double(), X[n:]


@Claim(
    source="influence, closed form",
    origin=Origin.OWN,
    stated="What a fit without row i would change at x follows from one inverse: no refit is needed.",
    formula=r"f(x) - f_{-i}(x) = \frac{(R\,k(x))_i\, \alpha_i}{R_{ii}}, \qquad y_i - f_{-i}(x_i) = "
    r"\frac{\alpha_i}{R_{ii}}, \qquad R = (K+\lambda I)^{-1}",
    verdict=Verdict.TRUE,
    condition="l > 0 is kept the same when a row is left out; one target column at a time.",
)
def i1(cases: int) -> Pieces:
    """Leave-one-out in closed form."""
    errors, residuals = [], []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, RIDGES):
        X, y, Z = labelled_digits(25, 5, seed)
        found = influence(solve(kernel, X, y, ridge, algorithm="direct"), Z)
        places, columns = torch.cat([Z, X]), []
        for i in range(len(X)):  # f_{-i} by n fits, each without one row
            rest = torch.arange(len(X)) != i
            columns.append(kernel(places, X[rest]) @ solve(kernel, X[rest], y[rest], ridge).alpha)
        again = torch.stack(columns, 1)
        full = kernel(Z, X) @ solve(kernel, X, y, ridge).alpha
        errors.append((full[:, None] - again[: len(Z)] - found.leave_one_out.T).abs())
        left_out = y - again[len(Z) :].diagonal()
        residuals.append((left_out - leave_one_out_path(kernel(X), y[:, None], [ridge])[0, :, 0]).abs())
        residuals.append((left_out - found.residual).abs())
    yield stated.within("f(x) - f_{-i}(x) = (R k(x))_i alpha_i/R_ii", torch.stack(errors), 1e-11)
    yield stated.within("y_i - f_{-i}(x_i) = alpha_i/R_ii", torch.stack(residuals), 1e-11)
    yield Figure("largest difference from refits, at queries", float(torch.stack(errors).max()))
    yield Figure("largest difference from refits, at the row left out", float(torch.stack(residuals).max()))


@Claim(
    source="influence, closed form",
    origin=Origin.OWN,
    stated="The derivative of a prediction in the weight of row i has a closed form, and leave-one-out is that over "
    "one minus the leverage: the two always have the same sign.",
    formula=r"\frac{\partial f(x)}{\partial w_i} = \lambda\,(R\,k(x))_i\,\alpha_i, \qquad f(x) - f_{-i}(x) = "
    r"\frac{\lambda\,(R\,k(x))_i\,\alpha_i}{1-h_{ii}}, \qquad h = KR",
    verdict=Verdict.TRUE,
    condition="l > 0, so that 1 - h_ii = l R_ii > 0; w_i multiplies the squared error of row i.",
)
def i2(cases: int) -> Pieces:
    """Infinitesimal influence is leave-one-out times 1 - h_ii."""
    slopes, quotients, same_sign, leverages = [], [], [], []
    for seed, kernel, ridge in product(range(drawn(cases, 1)), KERNELS, RIDGES):
        X, y, Z = labelled_digits(40, 5, seed)
        K, across = kernel(X), kernel(Z, X)

        def predict(w: Tensor, K: Tensor = K, across: Tensor = across, y: Tensor = y, ridge: float = ridge) -> Tensor:
            """Fit with the squared error of row i weighed by w_i."""
            return across @ torch.linalg.solve(K + ridge * torch.diag(1 / w), y)

        found = influence(solve(kernel, X, y, ridge, algorithm="direct"), Z)
        slope, left_out = found.infinitesimal.T, found.leave_one_out.T
        leverage = torch.linalg.solve(K + ridge * torch.eye(len(X), dtype=X.dtype), K).diagonal()
        slopes.append((slope - torch.autograd.functional.jacobian(predict, torch.ones_like(y))).abs())
        quotients.append((slope / (1 - leverage) - left_out).abs())
        same_sign += (slope.sign() == left_out.sign()).flatten().tolist()
        leverages.append(leverage)
    yield stated.within("df(x)/dw_i = l (R k(x))_i alpha_i", torch.stack(slopes), 1e-11)
    yield stated.within("leave-one-out is that over 1 - h_ii", torch.stack(quotients), 1e-11)
    yield stated.holds("the two have the same sign", same_sign)
    yield stated.within("0 <= h_ii < 1", (torch.stack(leverages) - 0.5).abs(), 0.5)
    yield Figure("largest difference from automatic differentiation", float(torch.stack(slopes).max()))
    yield Figure("largest leave-one-out over infinitesimal", float(1 / (1 - torch.stack(leverages).max())))


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


@Claim(
    source="influence, closed form",
    origin=Origin.OWN,
    stated="As R_ii is positive, an influence changes sign exactly where one of its two factors does and the other "
    "does not.",
    formula=r"\operatorname{sign}\big(f(x) - f_{-i}(x)\big) = \operatorname{sign}(R\,k(x))_i\;"
    r"\operatorname{sign}\alpha_i",
    verdict=Verdict.TRUE,
    condition="l > 0. Near-zero influences flip for free: report flips on the largest by absolute size, beside random "
    "noise of the same size.",
)
def i3(cases: int) -> Pieces:
    """A sign flip means that exactly one factor changed sign."""
    explained: list[bool] = []
    found: dict[tuple[str, float], list[list[float]]] = {}
    for seed, kernel in product(range(drawn(cases, 1)), KERNELS):
        X, y, Z = labelled_digits(150, 20, seed)
        before = influence(solve(kernel, X, y, 0.1, algorithm="direct"), Z)
        signs = torch.randint(0, 2, X.shape, generator=torch_generator(0, "I3"), dtype=torch.int64) * 2 - 1
        for noise in (0.003, 0.01, 0.03, 0.1):  # the control of an l_inf attack
            after = influence(solve(kernel, X + noise * signs.to(X.dtype), y, 0.1, algorithm="direct"), Z)
            flipped = flips(before, after)
            explained += (flipped == one_factor_changed(before, after)).flatten().tolist()
            found.setdefault((kernel.name, noise), []).append(rate_by_size(before, flipped))
    rates = {key: [sum(tenth) / len(tenth) for tenth in zip(*each, strict=True)] for key, each in found.items()}
    free = [tenths[0] > tenths[-1] for tenths in rates.values()]
    low, high = (rates["exponential", 0.01][tenth] for tenth in (0, -1))
    yield stated.holds("an influence flips where exactly one factor does, and only there", explained)
    yield corrected.holds("random noise flips the smallest tenth oftener than the largest", free)
    yield Figure("flips under random noise of .01, smallest tenth", low)
    yield Figure("flips under random noise of .01, largest tenth", high)
    yield plot(
        "tenth of the influences by absolute size (10 = largest)", "fraction whose sign changed", range(1, TENTHS + 1),
        solid={f"noise {noise:g}": found for (name, noise), found in rates.items() if name == "exponential"},
        caption="Noise alone flips the near-zero influences: a flip rate means something beside this control only.",
    )  # fmt: skip
