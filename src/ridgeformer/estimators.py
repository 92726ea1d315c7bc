"""The scikit-learn interface: the same algorithms and kernels under `fit`, `predict` and `score`."""

from __future__ import annotations

import warnings
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ridgeformer.core.checks import cast, positive
from ridgeformer.core.errors import InputError, LogitRangeError, unknown_name
from ridgeformer.kernels import Kernel, build_kernel, mean_square_length
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.solving import Fit, Status, solve
from ridgeformer.solving.selection import RIDGES, choose_ridge, least

__all__ = [
    "AttentionKernelClassifier",
    "AttentionKernelClassifierCV",
    "AttentionKernelRidge",
    "AttentionKernelRidgeCV",
    "NadarayaWatsonRegressor",
]

Array = NDArray[Any]
FLOATS = (np.float64, np.float32)


class _KernelFit(BaseEstimator):  # type: ignore[misc]
    """What the regressor and the classifier share: parameters, and the solve behind `fit`.

    Parameters of any type are stored verbatim and checked by `fit`, as scikit-learn's contract wants.
    """

    def __init__(
        self,
        kernel: Any = "exponential",
        *,
        temperature: Any = "auto",
        order: Any = 3,
        ridge: Any = 1.0,
        algorithm: Any = "auto",
        tol: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.temperature = temperature
        self.order = order
        self.ridge = ridge
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state

    def _solve(self, X: Array, targets: Array) -> None:
        rows = torch.from_numpy(np.array(X))
        kernel = self.kernel
        if isinstance(kernel, str):
            kernel = build_kernel(kernel, rows, temperature=self.temperature, order=self.order)
        self.solution_: Fit = solve(
            kernel,
            rows,
            targets,
            self._choose_ridge(kernel, rows, targets),
            algorithm=self.algorithm,
            tol=self.tol,
            seed=self._seed(),
        )
        self.kernel_ = self.solution_.kernel
        self.dual_coef_ = self.solution_.alpha.numpy()
        self.n_iter_ = self.solution_.steps
        self.bound_ = float(self.solution_.uniform_bound.max())
        if self.solution_.status not in (Status.CONVERGED, Status.SUBSET):
            warnings.warn(self.solution_.advice, ConvergenceWarning, stacklevel=3)

    def _choose_ridge(self, kernel: Kernel, rows: torch.Tensor, targets: Array) -> Any:
        """Return the ridge to solve with: the one given."""
        return self.ridge

    def _seed(self) -> Any:
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31))
        return self.random_state

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self, "solution_")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return self.solution_.predict(torch.from_numpy(np.array(X))).numpy()


class AttentionKernelRidge(MultiOutputMixin, RegressorMixin, _KernelFit):  # type: ignore[misc]
    """Kernel ridge regression with an attention kernel: f(x) = k(x)'(K + ridge I)^-1 y.

    Args:
        kernel: a name (dot_product, exponential, gaussian, gram_power, relu_ntk, relu_ntk_both) or a `Kernel`.
        temperature: of the exponential or Gaussian kernel; "auto" is the mean squared row length.
        order: of the Gram-power kernel.
        ridge: lambda > 0.
        algorithm: auto chooses by size and free memory and says so in `solution_.plan`; or an `Algorithm` such as
            `ConjugateGradients(steps=50)`, or its shorthand.
        tol: relative residual; None is 1e-10 in float64 and 1e-5 in float32.
        random_state: seed of the randomised preconditioner: a number, a RandomState, or None.

    Attributes:
        solution_: the `Fit`, with status, advice, residuals and `prediction_bound(X)`.
        bound_: |f(x) - f*(x)| is at most this for every x no longer than the training rows.
        dual_coef_: alpha.
        n_iter_: steps taken.
        n_features_in_: features seen by `fit`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = AttentionKernelRidge(ridge=1.0).fit(X[:300], y[:300])
        >>> bool(model.score(X[300:], y[300:]) > 0.45), bool(model.bound_ < 1e-6)
        (True, True)
    """

    def fit(self, X: Any, y: Any) -> AttentionKernelRidge:
        """Solve for the coefficients; warns if the solver did not converge."""
        X, y = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True)
        self._solve(X, y)
        return self

    def predict(self, X: Any) -> Array:
        """Return f(x) for every row, (n,) or (n, outputs)."""
        return self._outputs(X)


class AttentionKernelClassifier(ClassifierMixin, _KernelFit):  # type: ignore[misc]
    """Classification by kernel ridge regression on +1/-1 targets, one column a class (one for two classes).

    Parameters and attributes are those of `AttentionKernelRidge`, and `classes_`.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_wine(return_X_y=True)
        >>> X = StandardScaler().fit_transform(X)
        >>> float(AttentionKernelClassifier(ridge=0.1).fit(X[::2], y[::2]).score(X[1::2], y[1::2])) > 0.95
        True
    """

    def fit(self, X: Any, y: Any) -> AttentionKernelClassifier:
        """Solve for the coefficients of every class; warns if the solver did not converge."""
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y has only one class ({self.classes_[0]!r}); a classifier needs at least two.")
        targets = np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        self._solve(X, targets[:, 1] if len(self.classes_) == 2 else targets)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the regression outputs: (n,) for two classes, (n, classes) otherwise."""
        return self._outputs(X)

    def predict(self, X: Any) -> Array:
        """Return the class with the largest output."""
        scores = self._outputs(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)
        return self.classes_[codes]


class _OwnRidge:
    """Chooses the ridge of least leave-one-out error; among equals the largest."""

    ridges: Any
    by_class = False

    def _choose_ridge(self, kernel: Kernel, rows: torch.Tensor, targets: Array) -> float:
        default = isinstance(self.ridges, str)
        if default and self.ridges != "auto":
            raise unknown_name("ridges", self.ridges, ["auto"])
        grid = RIDGES if default else self.ridges
        chosen = choose_ridge(
            kernel,
            rows,
            targets,
            grid,
            rule=least,
            misclassified=self.by_class,
            absolute=not default,
        )
        path = chosen.path
        assert path is not None
        lost = ~path.trusted
        if bool(lost[chosen.place]) or (bool(lost.any()) and not default):
            warnings.warn(
                f"the leave-one-out errors of {int(lost.sum())} of {len(lost)} ridges (up to "
                f"{float(path.ridges[lost].max()):.1e}) are not determined in float64, so they are not chosen: "
                "leave them out.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.path_, self.on_edge_, self.ridge_ = path, chosen.on_edge, chosen.ridge
        self.loo_errors_: Array = (path.misclassified if self.by_class else path.mean_squared).numpy()
        return chosen.ridge


class AttentionKernelRidgeCV(_OwnRidge, AttentionKernelRidge):
    """`AttentionKernelRidge` whose ridge has the least mean squared leave-one-out error of a grid (claim I1).

    Every ridge is judged from one reduction of K, no refit is made; the best one is then solved for as
    `AttentionKernelRidge` would. K is held in memory.

    Args:
        kernel: as for `AttentionKernelRidge`, like every parameter but `ridges`.
        ridges: the grid, each > 0, which is then searched as it is; "auto" starts with 20 ridges from 1e-4 to 100 times
            the mean diagonal of K and widens that while the choice lies on its edge.
        temperature: see there.
        order: see there.
        algorithm: see there; for the fit at the ridge chosen.
        tol: see there.
        random_state: see there.

    Attributes:
        ridge_: the ridge chosen.
        on_edge_: whether it is the least or the largest that was tried, so that a better one may lie beyond.
        loo_errors_: the mean squared leave-one-out error of every ridge, over rows and outputs.
        path_: the `RidgePath`, with every leave-one-out residual and what its error is.
        solution_: of the ridge chosen; it and the others are as in `AttentionKernelRidge`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = AttentionKernelRidgeCV(ridges=[0.1, 10.0, 1000.0]).fit(X, y)
        >>> model.ridge_, int(model.loo_errors_.argmin())
        (10.0, 1)
    """

    def __init__(
        self,
        kernel: Any = "exponential",
        *,
        ridges: Any = "auto",
        temperature: Any = "auto",
        order: Any = 3,
        algorithm: Any = "auto",
        tol: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.ridges = ridges
        self.temperature = temperature
        self.order = order
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state


class AttentionKernelClassifierCV(_OwnRidge, AttentionKernelClassifier):
    """`AttentionKernelClassifier` whose ridge misclassifies the fewest rows that were left out.

    Parameters and attributes are those of `AttentionKernelRidgeCV`, and `classes_`; `loo_errors_` are fractions of
    rows. Ridges that are equal in that are compared by their mean squared error.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_wine(return_X_y=True)
        >>> model = AttentionKernelClassifierCV().fit(StandardScaler().fit_transform(X), y)
        >>> bool(model.loo_errors_.min() < 0.03)
        True
    """

    __init__ = AttentionKernelRidgeCV.__init__
    by_class = True


class NadarayaWatsonRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What a single softmax attention head computes: the kernel-weighted mean of the targets.

    f(x) = sum_j k(x, x_j) y_j / sum_j k(x, x_j) with the exponential kernel. It shares the geometry of
    kernel ridge regression and differs in prediction for every ridge (claim A4).

    Args:
        temperature: tau > 0; "auto" is the mean squared row length over sqrt(features), which for features
            of unit variance is attention's own 1/sqrt(d) scaling.

    Example:
        >>> float(NadarayaWatsonRegressor().fit([[0.0], [1.0]], [1.0, 3.0]).predict([[0.0]])[0])
        2.0
    """

    def __init__(self, temperature: Any = "auto") -> None:
        self.temperature = temperature

    def fit(self, X: Any, y: Any) -> NadarayaWatsonRegressor:
        """Remember the rows and targets."""
        X, y = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True)
        self.X_fit_ = torch.from_numpy(np.array(X))
        self.y_fit_ = cast(torch.from_numpy(np.array(y, dtype=np.float64)), self.X_fit_, "y")
        tau = self.temperature
        if isinstance(tau, str) and tau == "auto":
            tau = mean_square_length(self.X_fit_) / sqrt(X.shape[1])
        self.temperature_ = positive(tau, "temperature", "logits are divided by it")
        return self

    def predict(self, X: Any) -> Array:
        """Return the attention-weighted mean of the targets, for logits of any size that the precision can hold."""
        check_is_fitted(self, "X_fit_")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        query = torch.from_numpy(np.array(X)).to(self.X_fit_.dtype)
        keys = self.X_fit_ / sqrt(self.temperature_)
        largest = float((query / sqrt(self.temperature_)).norm(dim=1).max()) * float(keys.norm(dim=1).max())
        if not largest < torch.finfo(keys.dtype).max / 4:
            raise LogitRangeError(
                f"logits overflow {keys.dtype}: scale the rows, or raise the temperature (now {self.temperature_:g})."
            )
        rows = max(1, BLOCK_ENTRIES // len(keys))
        blocks = (block / sqrt(self.temperature_) for block in query.split(rows))
        return torch.cat([(block @ keys.T).softmax(dim=1) @ self.y_fit_ for block in blocks]).numpy()
