"""Ways to fit kernel ridge regression, ours and others', as someone who uses them would write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ridgeformer.algorithms import Centres
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve
from ridgeformer.solving.engines.panels import uses_wide_vectors

__all__ = ["ENVIRONMENT", "RIVALS", "Task"]


@dataclass(frozen=True)
class Task:
    """Unit rows X, targets y, and the problem: k(x, z) = exp((x.z - 1) / temperature)."""

    X: np.ndarray
    y: np.ndarray
    temperature: float
    ridge: float
    tol: float

    @property
    def gamma(self) -> float:
        """The same kernel as a Gaussian: exp(-gamma |x - z|^2)."""
        return 1 / (2 * self.temperature)

    def matrix(self) -> torch.Tensor:
        """K in float64, formed in place."""
        X = torch.from_numpy(self.X)
        return (X @ X.T).sub_(1).div_(self.temperature).exp_()


REFINEMENTS = 50
"""Passes of refinement after which a factor in float32 is given up."""

Answer = tuple[Any, str]
"""Coefficients (n, outputs), or a function from test rows to outputs; and a note."""


def ours(task: Task, **options: Any) -> Answer:
    """Solve as the library chooses, or as it is told."""
    kernel = Exponential(task.temperature, log_scale=1 / task.temperature)
    fit = solve(kernel, torch.from_numpy(task.X), task.y, task.ridge, tol=task.tol, **options)
    assert fit.plan is not None
    note = f"{fit.status.value}: {fit.algorithm.name}, {fit.plan.engine}, {fit.steps} steps"
    return fit.alpha, note


def on_centres(task: Task) -> Answer:
    """Subset regression on 2000 pivoted centres."""
    kernel = Exponential(task.temperature, log_scale=1 / task.temperature)
    centres = min(2000, len(task.X))
    fit = solve(kernel, torch.from_numpy(task.X), task.y, task.ridge, algorithm=Centres(count=centres))
    assert fit.fit_error is not None
    note = f"{centres} centres, estimated error {float(fit.fit_error.max()):.1e}"
    return lambda test: fit.predict(np.array(test)).numpy(), note


def kernel_ridge(task: Task) -> Answer:
    """scikit-learn's own."""
    from sklearn.kernel_ridge import KernelRidge

    return KernelRidge(alpha=task.ridge, kernel="rbf", gamma=task.gamma).fit(task.X, task.y).dual_coef_, "float64"


def nystroem(task: Task) -> Answer:
    """scikit-learn's Nystroem features and a linear ridge."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    centres = min(2000, len(task.X))
    features = Nystroem(kernel="rbf", gamma=task.gamma, n_components=centres, random_state=0)
    model = make_pipeline(features, Ridge(alpha=task.ridge, fit_intercept=False)).fit(task.X, task.y)
    return model.predict, f"{centres} centres, another model"


def torch_cholesky(task: Task) -> Answer:
    """One float64 factorisation."""
    K = task.matrix()
    K.diagonal().add_(task.ridge)
    return torch.cholesky_solve(torch.from_numpy(task.y), torch.linalg.cholesky(K)), "float64"


def torch_mixed(task: Task) -> Answer:
    """A float32 factorisation, refined against the float64 residual until the tolerance is met."""
    K, y = task.matrix(), torch.from_numpy(task.y)
    A = K.float()
    A.diagonal().add_(task.ridge)
    factor = torch.linalg.cholesky(A)
    del A
    alpha, residual, scale = torch.zeros_like(y), y, y.norm(dim=0)
    for passes in range(REFINEMENTS + 1):
        if bool((residual.norm(dim=0) <= task.tol * scale).all()):
            return alpha, f"float32 factor, {passes} refinements"
        unit = residual / residual.norm(dim=0).clamp_min(torch.finfo(torch.float64).tiny)
        alpha = alpha + torch.cholesky_solve(unit.float(), factor).double() * residual.norm(dim=0)
        residual = y - K @ alpha - task.ridge * alpha
    return alpha, f"not converged in {REFINEMENTS} refinements"


def tuned_cholesky(task: Task) -> Answer:
    """SciPy's factorisation in float64, in place, with OpenBLAS told to use vectors of 512 bits (`ENVIRONMENT`)."""
    from scipy.linalg import cho_factor, cho_solve

    K = _tuned_matrix(task)
    K.flat[:: len(K) + 1] += task.ridge
    return cho_solve(cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False), task.y), "float64"


def tuned_mixed(task: Task) -> Answer:
    """SciPy's in float32, told the same, refined against the float64 residual until the tolerance is met."""
    from scipy.linalg import cho_factor, cho_solve

    K, y = _tuned_matrix(task), task.y
    A = K.astype(np.float32)
    A.flat[:: len(K) + 1] += np.float32(task.ridge)
    factor = cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
    alpha, residual, scale = np.zeros_like(y), y, np.linalg.norm(y, axis=0)
    for passes in range(REFINEMENTS + 1):
        left = np.linalg.norm(residual, axis=0)
        if (left <= task.tol * scale).all():
            return alpha, f"float32 factor, {passes} refinements"
        unit = left.clip(np.finfo(np.float64).tiny)
        alpha = alpha + cho_solve(factor, (residual / unit).astype(np.float32)).astype(np.float64) * unit
        residual = y - K @ alpha - task.ridge * alpha
    return alpha, f"not converged in {REFINEMENTS} refinements"


def _tuned_matrix(task: Task) -> np.ndarray:
    """K in float64, its dot products by the OpenBLAS of NumPy and its exponentials by PyTorch, in place."""
    K = task.X @ task.X.T
    torch.from_numpy(K).sub_(1).div_(task.temperature).exp_()
    return K


def scipy_cg(task: Task) -> Answer:
    """Conjugate gradients, a target at a time, K stored in float64."""
    from scipy.sparse.linalg import LinearOperator, cg

    K = task.matrix().numpy()
    A = LinearOperator(K.shape, matvec=lambda v: K @ v + task.ridge * v, dtype=np.float64)
    found = [cg(A, column, rtol=task.tol, maxiter=5000) for column in task.y.T]
    return np.stack(
        [alpha for alpha, _ in found], 1
    ), f"converged {sum(info == 0 for _, info in found)} of {len(found)}"


def linear_operator_cg(task: Task) -> Answer:
    """linear_operator's block CG with its tolerances set, K stored in float64."""
    from linear_operator.utils import linear_cg

    K, y = task.matrix(), torch.from_numpy(task.y)
    alpha = linear_cg(
        lambda V: K @ V + task.ridge * V, y, tolerance=task.tol / 10, eps=1e-30, stop_updating_after=1e-15,
        max_iter=3000, max_tridiag_iter=0,
    )  # fmt: skip
    return alpha, "tolerance set"


def gpytorch(task: Task) -> Answer:
    """GPyTorch: the mean of a Gaussian process at its default tolerance raised to the one asked for."""
    import gpytorch
    from linear_operator.operators import to_linear_operator

    X, y = torch.from_numpy(task.X), torch.from_numpy(task.y)
    covariance = gpytorch.kernels.RBFKernel().double()
    covariance.lengthscale = task.temperature**0.5
    settings = gpytorch.settings
    with torch.no_grad(), settings.cg_tolerance(task.tol / 10), settings.max_cg_iterations(3000):
        return to_linear_operator(covariance(X)).add_diagonal(torch.tensor(task.ridge)).solve(y), "tolerance set"


def keops(task: Task) -> Answer:
    """KeOps' conjugate gradients on a symbolic matrix."""
    from pykeops.torch import LazyTensor

    X, y = torch.from_numpy(task.X), torch.from_numpy(task.y)
    K = (((LazyTensor(X[:, None, :]) | LazyTensor(X[None, :, :])) - 1.0) / task.temperature).exp()
    return K.solve(y, alpha=task.ridge, eps=task.tol), "float64"


RIVALS: dict[str, Callable[[Task], Answer]] = {
    "ridgeformer": ours,
    "ridgeformer tiles": lambda task: ours(task, algorithm="mixed_pcg", engine="tiles"),
    "ridgeformer nystrom": on_centres,
    "scikit-learn KernelRidge": kernel_ridge,
    "scikit-learn Nystroem": nystroem,
    "torch cholesky": torch_cholesky,
    "torch mixed cholesky": torch_mixed,
    "scipy cholesky, AVX-512": tuned_cholesky,
    "scipy mixed cholesky, AVX-512": tuned_mixed,
    "scipy cg": scipy_cg,
    "linear_operator": linear_operator_cg,
    "gpytorch": gpytorch,
    "pykeops": keops,
}

WIDE = ("scipy cholesky, AVX-512", "scipy mixed cholesky, AVX-512")
ENVIRONMENT = {name: {"OPENBLAS_CORETYPE": "SKYLAKEX"} for name in WIDE} if uses_wide_vectors() else {}
"""Where a processor has such vectors, OpenBLAS may not use them unless it is told, as on those of AMD: what a rival's
process is told. Few users know, so the plain ones stand beside these."""
