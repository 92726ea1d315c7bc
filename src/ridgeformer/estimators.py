"""The scikit-learn interface: the same algorithms and kernels under `fit`, `predict` and `score`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ridgeformer.algorithms import Algorithm
from ridgeformer.core.checks import ArrayLike, cast, positive
from ridgeformer.core.errors import InputError, LogitRangeError, unknown_name
from ridgeformer.intervals import Posterior
from ridgeformer.kernels import Kernel, build_kernel, mean_square_length
from ridgeformer.kernels.base import BLOCK_ENTRIES
from ridgeformer.kernels.weighted import Weighted
from ridgeformer.solving import Fit, Status, solve
from ridgeformer.solving.engines.tiles import COPIED_BYTES
from ridgeformer.solving.uncertainty import fit_interval

__all__ = [
    "AttentionKernelClassifier",
    "AttentionKernelRidge",
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
        kernel: str | Kernel = "exponential",
        *,
        temperature: float | str = "auto",
        order: int = 3,
        ridge: float = 1.0,
        scale: float | str = "auto",
        fit_intercept: bool = True,
        algorithm: str | Algorithm = "auto",
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.temperature = temperature
        self.order = order
        self.ridge = ridge
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state

    def _solve(self, X: Array, targets: Array, weight: Array | None) -> None:
        """Solve on the rows of positive weight; equal weights of one are no weights."""
        if weight is not None:
            kept = weight > 0
            X, targets, weight = X[kept], targets[kept], weight[kept]
            if not len(X):
                raise InputError("every sample_weight is zero: give at least one row a positive weight.")
        self.weighted_ = weight is not None and bool((weight != 1).any())
        rows, root = _as_rows(X), np.ones(len(X))
        if weight is not None and self.weighted_:
            root = np.sqrt(weight)
            rows = torch.cat([rows, torch.from_numpy(root)[:, None].to(rows)], dim=1)
        flat = np.asarray(targets, dtype=np.float64).reshape(len(X), -1)
        mean = np.average(flat, axis=0, weights=root**2) if self.fit_intercept else np.zeros(flat.shape[1])
        self.intercept_: Any = mean if targets.ndim == 2 else float(mean[0])
        kernel, ridge = self._choose(rows, flat * root[:, None], root)
        self.solution_: Fit = solve(
            kernel,
            rows,
            (root[:, None] * (flat - mean)).reshape(targets.shape),
            ridge,
            algorithm=self.algorithm,
            tol=self.tol,
            seed=self._seed(),
        )
        self.kernel_ = self.solution_.kernel
        self.dual_coef_ = self.solution_.alpha.numpy()
        self.n_iter_ = self.solution_.steps
        bound = self.solution_.uniform_bound
        if self.weighted_:
            bound = self.solution_.prediction_bound(self._queries(X))
        self.bound_ = float(bound.max())
        if self.solution_.status not in (Status.CONVERGED, Status.SUBSET):
            warnings.warn(self.solution_.advice, ConvergenceWarning, stacklevel=3)

    def _choose(self, rows: torch.Tensor, targets: Array, root: Array) -> tuple[Kernel, Any]:
        """Return kernel and ridge to solve with: those given."""
        return self._kernel(rows, self.temperature), self.ridge

    def _kernel(self, rows: torch.Tensor, temperature: Any) -> Kernel:
        """Return the kernel for these rows; the last column of weighted ones is the root of the weight."""
        plain = rows[:, :-1] if self.weighted_ else rows
        kernel = self.kernel
        if isinstance(kernel, str):
            if self.weighted_ and isinstance(temperature, str) and temperature == "auto":
                weight = rows[:, -1].double().square()
                temperature = float((weight * plain.double().square().sum(1)).sum() / weight.sum()) or 1.0
            kernel = build_kernel(kernel, plain, temperature=temperature, order=self.order)
        return Weighted(kernel) if self.weighted_ else kernel

    def _seed(self) -> Any:
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(2**31))
        return self.random_state

    def _queries(self, X: Array) -> torch.Tensor:
        rows = torch.from_numpy(np.array(X))
        return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) if self.weighted_ else rows

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self, "solution_")
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        found = self.solution_.predict(self._queries(X)).numpy()
        return found + np.asarray(self.intercept_, dtype=found.dtype)


class AttentionKernelRidge(MultiOutputMixin, RegressorMixin, _KernelFit):  # type: ignore[misc]
    """Kernel ridge regression with an attention kernel: f(x) = m + k(x)'(K + ridge I)^-1 (y - m), m the mean of y.

    Args:
        kernel: a name (dot_product, exponential, gaussian, gram_power, relu_ntk, relu_ntk_both) or a `Kernel`.
        temperature: of the exponential or Gaussian kernel; "auto" is the mean squared row length.
        order: of the Gram-power kernel.
        ridge: lambda > 0.
        scale: of the Gaussian process behind `return_std`, `return_cov` and `sample_y`: covariance `scale` k and noise
            of variance `scale` ridge. "auto" is the most likely one; 1.0 takes kernel and ridge as they are.
        fit_intercept: whether m is the mean of the targets, weighted if the rows are; else it is 0.
        algorithm: auto chooses by size and free memory and says so in `solution_.plan`; or an `Algorithm` such as
            `ConjugateGradients(steps=50)`, or its shorthand.
        tol: relative residual; None is 1e-10 in float64 and 1e-5 in float32.
        random_state: seed of the randomised preconditioner: a number, a RandomState, or None.

    Attributes:
        solution_: the `Fit`, with status, advice, residuals and `prediction_bound(X)`.
        bound_: |f(x) - f*(x)| is at most this for every x no longer than the training rows.
        dual_coef_: alpha; with weights, over the roots of the weights.
        intercept_: m.
        scale_: the scale; the noise of a new target has variance `scale_` ridge.
        n_iter_: steps taken.
        n_features_in_: features seen by `fit`.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = AttentionKernelRidge(ridge=1.0).fit(X[:300], y[:300])
        >>> bool(model.score(X[300:], y[300:]) > 0.45), bool(model.bound_ < 1e-6)
        (True, True)
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AttentionKernelRidge:
        """Solve for the coefficients; a row of weight 2 counts like two rows. Warns if the solver did not converge."""
        rows, targets = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True)
        self._solve(rows, targets, _weights(sample_weight, rows))
        return self

    def predict(self, X: object, return_std: bool = False, return_cov: bool = False) -> Array | tuple[Array, Array]:
        """Return f(x) for every row, (n,) or (n, outputs); if asked, with its posterior deviation or covariance.

        Deviation and covariance are those of f, without the noise of a new target, as in scikit-learn's
        `GaussianProcessRegressor`; with several outputs they get a last axis. The intercept counts as known.
        """
        if return_std and return_cov:
            raise InputError("return_std and return_cov are both True: ask for one, the deviations are in the other.")
        mean = self._outputs(X)
        if not (return_std or return_cov):
            return mean
        posterior = self._posterior(X, return_cov)
        spread = posterior.std if posterior.covariance is None else posterior.covariance
        found = spread.numpy()
        return mean, found if mean.ndim == 1 else np.repeat(found[..., None], mean.shape[1], -1)

    def sample_y(self, X: object, n_samples: int = 1, random_state: object = 0) -> Array:
        """Return draws of f from its posterior, (n, n_samples) or (n, outputs, n_samples)."""
        posterior = self._posterior(X, True)
        seed = random_state if isinstance(random_state, int) else int(check_random_state(random_state).randint(2**31))
        draws = posterior.sample(n_samples, seed=seed).movedim(0, -1).numpy()
        return draws + np.asarray(self.intercept_)[..., None]

    def predict_interval(
        self,
        X: object,
        level: float = 0.9,
        method: str = "jackknife+",
        calibration: tuple[object, object] | None = None,
    ) -> tuple[Array, Array]:
        """Return the lower and the upper ends of intervals for new targets, shaped like predictions.

        The methods and their guarantees are those of `Fit.interval`; "jackknife+" and "cv+" leave rows out of the
        intercept too. The calibration rows of "split" and "normalised" are (X, y) that `fit` has not seen.
        """
        check_is_fitted(self, "solution_")
        if self.weighted_:
            raise InputError("the rows are weighted, so they are not exchangeable: fit without sample_weight.")
        rows = self._queries(validate_data(self, X, dtype=FLOATS, reset=False))
        held = None
        if calibration is not None:
            Xc = validate_data(self, calibration[0], dtype=FLOATS, reset=False)
            held = self._queries(Xc), np.asarray(calibration[1], dtype=np.float64) - self.intercept_
        found = fit_interval(
            self.solution_, rows, level, method, held, seed=self._seed(), centred=bool(self.fit_intercept)
        )
        return found.low.numpy() + self.intercept_, found.high.numpy() + self.intercept_

    def _posterior(self, X: object, covariance: bool) -> Posterior:
        check_is_fitted(self, "solution_")
        rows = self._queries(validate_data(self, X, dtype=FLOATS, reset=False))
        return self.solution_.posterior(rows, scale=self.scale_, covariance=covariance)

    @property
    def scale_(self) -> float:
        """The scale of the Gaussian process: the one given, or the most likely one."""
        check_is_fitted(self, "solution_")
        if isinstance(self.scale, str):
            if self.scale != "auto":
                raise unknown_name("scale", self.scale, ["auto"])
            chosen = getattr(self, "most_likely_", None)  # where the parameters were chosen by a likelihood
            return self.solution_.most_likely_scale if chosen is None else chosen.scale
        return positive(self.scale, "scale", "it multiplies a variance")


class AttentionKernelClassifier(ClassifierMixin, _KernelFit):  # type: ignore[misc]
    """Classification by kernel ridge regression on +1/-1 targets, one column a class (one for two classes).

    Parameters and attributes are those of `AttentionKernelRidge`, and these:

    Args:
        class_weight: weight of each class in the fit: a dictionary, "balanced" (inverse frequencies), or None.
        priors: how frequent the classes are where the model will be used: "uniform", one number a class in the order of
            `classes_`, or None for the frequencies of the training rows. It changes decisions only, by Bayes' rule.

    Attributes:
        classes_: the classes.
        class_prior_: their frequencies in the training rows, weighted.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> X, y = load_wine(return_X_y=True)
        >>> X = StandardScaler().fit_transform(X)
        >>> float(AttentionKernelClassifier(ridge=0.1).fit(X[::2], y[::2]).score(X[1::2], y[1::2])) > 0.95
        True
    """

    def __init__(
        self,
        kernel: str | Kernel = "exponential",
        *,
        temperature: float | str = "auto",
        order: int = 3,
        ridge: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        priors: Sequence[float] | str | None = None,
        algorithm: str | Algorithm = "auto",
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.kernel = kernel
        self.temperature = temperature
        self.order = order
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.priors = priors
        self.algorithm = algorithm
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AttentionKernelClassifier:
        """Solve for the coefficients of every class; warns if the solver did not converge."""
        rows, labels = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(labels)
        weight = _weights(sample_weight, rows)
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, labels)
            weight = own if weight is None else own * weight
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(np.unique(codes if weight is None else codes[weight > 0])) < 2:
            raise InputError(f"y has only one class ({self.classes_[0]!r}); a classifier needs at least two classes.")
        counts = np.bincount(codes, weights=weight, minlength=len(self.classes_))
        self.class_prior_: Array = counts / counts.sum()
        targets = np.where(codes[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        self._solve(rows, targets[:, 1] if len(self.classes_) == 2 else targets, weight)
        return self

    def decision_function(self, X: object) -> Array:
        """Return the regression outputs: (n,) for two classes, (n, classes) otherwise."""
        return self._outputs(X)

    def predict_proba(self, X: object) -> Array:
        """Return an estimate of each class's probability: the outputs f estimate 2 p - 1, cut off at 0 and normalised.

        Least squares does not promise calibration; measure it on held-out rows.
        """
        found = self._outputs(X)
        p = np.maximum(1 + (np.column_stack([-found, found]) if found.ndim == 1 else found), 0)
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])

    def predict(self, X: object) -> Array:
        """Return the class with the largest output, or with `priors` the most probable one under them."""
        if self.priors is not None:
            odds = self._priors() / np.where(self.class_prior_ > 0, self.class_prior_, 1)
            return self.classes_[(self.predict_proba(X) * odds).argmax(1)]
        scores = self._outputs(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)
        return self.classes_[codes]

    def _priors(self) -> Array:
        if isinstance(self.priors, str):
            if self.priors != "uniform":
                raise unknown_name("priors", self.priors, ["uniform"])
            return np.full(len(self.classes_), 1 / len(self.classes_))
        given = np.asarray(self.priors, dtype=np.float64)
        if given.shape != (len(self.classes_),) or not (given > 0).all():
            raise InputError(f"priors must be {len(self.classes_)} positive numbers, one a class of classes_.")
        return given


def _as_rows(X: Array) -> torch.Tensor:
    """Return a copy of the rows, which the caller may change later; large ones, which may be on disk, as they are."""
    if X.nbytes <= COPIED_BYTES:
        return torch.from_numpy(np.array(X))
    with warnings.catch_warnings():  # the library never writes to its inputs
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(X)


def _weights(sample_weight: Any, X: Array) -> Array | None:
    """Return the weights as float64, checked; None stays None."""
    if sample_weight is None:
        return None
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


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

    def __init__(self, temperature: float | str = "auto") -> None:
        self.temperature = temperature

    def fit(self, X: ArrayLike, y: ArrayLike) -> NadarayaWatsonRegressor:
        """Remember the rows and targets."""
        rows, targets = validate_data(self, X, y, dtype=FLOATS, multi_output=True, y_numeric=True)
        self.X_fit_ = torch.from_numpy(np.array(rows))
        self.y_fit_ = cast(torch.from_numpy(np.array(targets, dtype=np.float64)), self.X_fit_, "y")
        tau = self.temperature
        if isinstance(tau, str) and tau == "auto":
            tau = mean_square_length(self.X_fit_) / sqrt(rows.shape[1])
        self.temperature_ = positive(tau, "temperature", "logits are divided by it")
        return self

    def predict(self, X: object) -> Array:
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
