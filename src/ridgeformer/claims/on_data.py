"""The claims on a user's own data: which bounds say something there, how wide, how deep, which ridge."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil, log, sqrt
from typing import Any

import numpy as np
import torch

from ridgeformer import bounds
from ridgeformer.datasets import Dataset, Split
from ridgeformer.regime.spectra import Spectra, examine_spectra
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.tuning import choose_attention

__all__ = ["FLOAT32_CONDITION", "Applied", "AppliedClaim", "apply_claims", "examine_claims", "float32_ridge"]

FLOAT32_CONDITION = 1e3
"""The condition number up to which float32 is safe without more steps (claim A8)."""

DEPTH_ACCURACY = 1e-3


@dataclass(frozen=True)
class AppliedClaim:
    """One claim on these data: what it says here, the number, and whether that is more than a triviality."""

    claim: str
    what: str
    value: float
    informative: bool


@dataclass(frozen=True)
class Applied:
    """The claims on one dataset.

    Attributes:
        name: Of the dataset.
        sentences: The answer in words.
        rows: One a claim.
        widths, errors, guarantee: The worst relative in-sample error of the best model of each width, and claim
            W4's guarantee.
    """

    name: str
    sentences: tuple[str, ...]
    rows: tuple[AppliedClaim, ...]
    widths: tuple[int, ...]
    errors: tuple[float, ...]
    guarantee: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def apply_claims(dataset: Dataset, *, max_rows: int = 2000, preprocessing: str = "auto", seed: int = 0) -> Applied:
    """Fit the dataset as an audit does, and evaluate the claims there; options as for `Split.of`.

    Example:
        >>> from ridgeformer import datasets
        >>> applied = apply_claims(datasets.load("wine"))
        >>> [row.value for row in applied.rows if row.claim == "W4"][0] > 1
        True
    """
    split = Split.of(dataset, max_rows=max_rows, preprocessing=preprocessing, seed=seed)
    kernel, ridge = choose_attention(split, seed=seed)
    fit = solve(kernel, split.X, split.y, ridge, algorithm="direct")
    return examine_claims(split, fit, examine_spectra(fit.X, fit.eigenvalues, fit.ridge))


def examine_claims(data: Split, fit: Fit, spectra: Spectra) -> Applied:
    """Evaluate the claims on training and held-out rows with a direct fit to the former."""
    widths = np.unique(np.round(np.geomspace(1, len(spectra.kernel), 60)).astype(int))
    rows = (*_width(data, fit, spectra), *_depth(fit, spectra), *_trust(fit, spectra))
    return Applied(
        name=data.dataset.name,
        sentences=_sentences(data, spectra),
        rows=tuple(AppliedClaim(*row) for row in rows),
        widths=tuple(int(m) for m in widths),
        errors=tuple(float(bounds.pca_relative_error(spectra.kernel, int(m), spectra.ridge)) for m in widths),
        guarantee=tuple(min(1.0, float(bounds.pca_relative_error_bound(spectra.d_eff, int(m)))) for m in widths),
    )


def float32_ridge(largest: float, smallest: float, condition: float = FLOAT32_CONDITION) -> float:
    """Return the smallest ridge that keeps the condition number of K + ridge I at or below `condition`.

    Example:
        >>> round(float32_ridge(1000.0, 0.0), 3)
        1.001
    """
    return max(0.0, (largest - condition * smallest) / (condition - 1))


def _width(data: Split, fit: Fit, spectra: Spectra) -> list[tuple[str, str, float, bool]]:
    K, ridge, n = spectra.kernel, spectra.ridge, len(spectra.kernel)
    m = spectra.measured_10
    dropped = bounds.sketch_error_floor(K, m)
    share = ridge * float(bounds.resolvent_error_bound(dropped, ridge))
    worst = _dropped_query(fit, data, m)
    target = float(data.y.norm(dim=0).max())
    typical = float(fit.predict(data.Xt).square().mean().sqrt())
    prediction = float(bounds.simple_prediction_bound(ridge, worst, target))
    return [
        ("W2", f"resolvent error of the best model of width {m}, as a share of the most possible", share,
            share < 0.5),
        ("W3", f"error of any held-out prediction at width {m}, over a typical output",
            prediction / typical if typical else 0.0,
            prediction < typical),
        ("W4", "width that guarantees a relative error of 10 %", float(spectra.width_10), spectra.width_10 < n),
        ("W4", "width at which the best model reaches it", float(m), m < n),
        ("W5", f"mean squared in-sample error at width {m}, over the number of rows",
            float(bounds.pca_expected_squared_error(K, m, ridge)) / n, True),
        _logits(data, fit, spectra),
    ]  # fmt: skip


def _dropped_query(fit: Fit, data: Split, width: int) -> float:
    """Return the largest norm(phi_perp(x)) over the held-out rows, for the top `width` directions of K."""
    values, vectors = torch.linalg.eigh(fit.K)
    kept = slice(len(values) - width, None)
    kernel = fit.kernel
    k = kernel(data.Xt, data.X).to(torch.float64) @ vectors[:, kept]
    carried = (k.square() / values[kept]).sum(1)
    return sqrt(max(0.0, float((kernel.diagonal(data.Xt).to(torch.float64) - carried).max())))


def _logits(data: Split, fit: Fit, spectra: Spectra) -> tuple[str, str, float, bool]:
    """Return claim W6 for rows projected to the directions that carry 99 % of their energy."""
    X = data.X / sqrt(getattr(fit.kernel, "temperature", 1.0))
    projected = X @ torch.linalg.svd(X, full_matrices=False).Vh[: spectra.energy_rank].T
    scale = float((X @ X.T).diagonal().max())  # the kernel of the fit is scaled alike
    error = bounds.logit_sketch_bound(X @ X.T, projected @ projected.T) if scale < 600 else np.inf
    share = error / float(torch.linalg.eigvalsh((X @ X.T).exp())[-1]) if np.isfinite(error) else np.inf
    what = f"kernel error of softmax attention at {spectra.energy_rank} logit directions, over norm(K)"
    return "W6", what, float(share), share < 1


def _depth(fit: Fit, spectra: Spectra) -> list[tuple[str, str, float, bool]]:
    kappa, ridge, n = spectra.system_condition, spectra.ridge, len(spectra.kernel)
    conjugate, gradient = bounds.cg_steps(kappa, DEPTH_ACCURACY), bounds.richardson_steps(kappa, DEPTH_ACCURACY)
    largest = float(fit.K.sum(1).max())
    vanilla = ceil(log(DEPTH_ACCURACY) / log(1 - ridge / (ridge + largest)))
    return [
        ("A3", "norm(K) over the ridge; a Neumann series needs less than 1", spectra.kernel[0] / ridge,
            bool(spectra.kernel[0] < ridge)),
        ("A5", "steps of gradient descent that are enough for an error of 0.1 %", float(gradient), gradient < n),
        ("B2", "steps of conjugate gradients that are enough for it", float(conjugate), conjugate < n),
        ("A6", "layers of the attention-only network that are enough for it", float(vanilla), vanilla < n),
        ("A8", "smallest ridge that makes float32 safe", float32_ridge(spectra.kernel[0], spectra.kernel[-1]),
            kappa <= FLOAT32_CONDITION),
        ("B3", "error of each attention product that costs all accuracy, 1/kappa", 1 / kappa, kappa < 1e12),
    ]  # fmt: skip


def _trust(fit: Fit, spectra: Spectra) -> list[tuple[str, str, float, bool]]:
    K = fit.K
    diagonal = K.diagonal()
    spread = float(diagonal.max() / diagonal.min())
    gram = spectra.condition
    return [
        ("B4", "largest over smallest diagonal entry of K; at 1 a Jacobi preconditioner does nothing", spread,
            spread > 1.5),
        ("L1", "condition number of linearised attention on these rows, kappa(G)^3", gram**3, gram**3 < 1e12),
        ("L2", "rank of the rows, out of the most possible",
            spectra.rank / min(len(K), fit.X.shape[1]), True),
        ("I2", "largest leverage; leave-one-out is the infinitesimal influence over 1 minus it",
            float(fit.leverage.max()), True),
    ]  # fmt: skip


def _sentences(data: Split, spectra: Spectra) -> tuple[str, ...]:
    n, ridge = len(spectra.kernel), spectra.ridge
    safe = float32_ridge(spectra.kernel[0], spectra.kernel[-1])
    guaranteed = f"width {spectra.width_10:,} is guaranteed to be enough"
    if spectra.width_10 >= n:
        guaranteed = "no width below the number of rows is guaranteed to be enough"
    steps = bounds.cg_steps(spectra.system_condition, DEPTH_ACCURACY)
    depth = f"{steps:,} steps of conjugate gradients are guaranteed to be enough"
    if steps >= n:
        depth = f"conjugate gradients are guaranteed nothing better than their {n:,} steps, one a row"
    best = f"the best model does it with {spectra.measured_10:,}"
    if spectra.measured_10 >= n:
        best = "and no smaller width does it: every row counts"
    float32 = f"Softmax attention in float32 is safe from ridge {safe:.3g} on; the one chosen here is {ridge:.3g}" + (
        ", large enough." if ridge >= safe else ": below it, float64 or more steps are needed."
    )
    return (
        f"How wide: to keep the worst in-sample error on {data.dataset.name} below 10 %, {guaranteed} "
        f"(effective dimension {spectra.d_eff:.0f}); {best}.",
        f"How deep: for an error of 0.1 %, {depth}.",
        float32,
    )
