"""L1: linearised attention cubes the Gram matrix and its condition number."""

from __future__ import annotations

import torch
from torch import Tensor

from ridgeformer import datasets
from ridgeformer.claims.cases import drawn
from ridgeformer.claims.claim import Claim, Curve, Evidence, Figure, Origin, Plot, Trial, Verdict
from ridgeformer.claims.trials import within
from ridgeformer.kernels import GramPower

SIZE = 5
CONDITIONS = (1e1, 3e1, 1e2, 3e2, 1e3, 1e4, 1e5, 1e6)


def _rows(condition: float, seed: int) -> Tensor:
    """Return square X whose Gram matrix has eigenvalues from 1 down to 1/condition."""
    return torch.from_numpy(datasets.synthetic(SIZE, SIZE, condition_number=condition, seed=seed).X)


def _smallest_formed(X: Tensor, dtype: torch.dtype) -> float:
    """Return the smallest eigenvalue of G^3 multiplied out in this precision; eigenvalues are taken in float64."""
    G = (X @ X.T).to(dtype)
    return float(torch.linalg.eigvalsh((G @ G @ G).double())[0])


def check(cases: int) -> Evidence:
    """Compare kernels, condition numbers, and the smallest eigenvalue by three ways of computing it."""
    kernels, conditions, spectra, formed = [], [], [], []
    for seed in range(drawn(cases, 20)):
        X = _rows(100.0, seed)
        G, attended = X @ X.T, X @ X.T @ X
        cube = G @ G @ G
        kernels.append(float((attended @ attended.T - cube).norm() / cube.norm()))
        singular = torch.linalg.svdvals(attended)
        conditions.append(abs(float((singular[0] / singular[-1]) ** 2) / 100.0**3 - 1))
        hard = _rows(1e3, seed)
        spectra.append(abs(float(GramPower(3, hard).spectrum()[-1]) * 1e9 - 1))
        formed.append(_smallest_formed(hard, torch.float32))
    lost = float(torch.tensor(formed).mul(1e9).sub(1).abs().median())
    X = _rows(100.0, 0)
    figures = (
        Figure(
            "condition number of G^3 where that of G is 100", _condition(GramPower(3, X).spectrum()), shown="1000000"
        ),
        Figure("smallest eigenvalue at condition 1e3, sixth powers", _smallest(1e3)),
        Figure("the same, G^3 multiplied out in float32, lowest of all draws", min(formed)),
        Figure("median relative error in float32", lost),
        Figure("fraction of float32 draws in which it is negative", sum(value < 0 for value in formed) / len(formed)),
    )
    return Evidence(
        stated=(
            within("the features X X'X have the Gram matrix G^3", kernels, 1e-13),
            within("its condition number is that of G cubed, nonzero spectrum", conditions, 1e-9),
        ),
        corrected=(
            within("sixth powers of singular values keep the smallest eigenvalue at 1e3", spectra, 1e-10),
            Trial("G^3 multiplied out in float32 errs there by more than all of it, in the median", 1, int(lost <= 1)),
        ),
        figures=figures,
        plot=_plot(),
    )


def _condition(spectrum: Tensor) -> float:
    return float(spectrum[0] / spectrum[-1])


def _smallest(condition: float) -> float:
    return float(GramPower(3, _rows(condition, 0)).spectrum()[-1])


def _plot() -> Plot:
    error: dict[str, list[float]] = {"float32": [], "float64": [], "sixth powers": []}
    for condition in CONDITIONS:
        X, exact = _rows(condition, 0), condition**-3
        error["float32"].append(abs(_smallest_formed(X, torch.float32) / exact - 1))
        error["float64"].append(abs(_smallest_formed(X, torch.float64) / exact - 1))
        error["sixth powers"].append(abs(_smallest(condition) / exact - 1))
    names = {"float32": "formed in float32", "float64": "formed in float64", "sixth powers": "sixth powers"}
    return Plot(
        tuple(Curve(names[key], CONDITIONS, tuple(values)) for key, values in error.items()),
        "condition number of G", "relative error of the smallest eigenvalue of G^3",
        "Above 1 nothing is left of it: float32 is lost by 1e3, float64 by 1e6, sixth powers never here.",
        log_x=True, log_y=True,
    )  # fmt: skip


L1 = Claim(
    id="L1",
    source="linearized-attention study, theorems 4.1 and 4.7",
    origin=Origin.QUOTED,
    quote="spectral amplification analysis shows that the attention transformation cubes the Gram matrix's condition "
    "number",
    title="Linearised attention has the kernel G^3 and cubes the condition number",
    stated="Parameter-free linearised attention maps the rows X to X X'X. The Gram matrix of these features is the "
    "cube of G = XX', and so is its condition number.",
    formula=r"(XX^\top X)(XX^\top X)^\top = G^3, \qquad \kappa(G^3) = \kappa(G)^3",
    verdict=Verdict.TRUE,
    condition="The condition number counts the nonzero spectrum only. G^3 is never to be multiplied out: take sixth "
    "powers of the singular values of X, in float64.",
    check=check,
)
