"""Problems for the tests of influence, and the refits that are their oracle."""

import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, GramPower, Kernel, ReluNTK
from ridgeformer.solving import Fit, solve

KERNELS = {
    "dot_product": lambda X: DotProduct(),
    "exponential": lambda X: Exponential(temperature=2.0),
    "gram_power": lambda X: GramPower(3, X / len(X) ** 0.5),
    "relu_ntk": lambda X: ReluNTK(),
}


def draw(*shape: int, purpose: str, seed: int = 3) -> torch.Tensor:
    return torch.randn(*shape, generator=torch_generator(seed, "influence", purpose), dtype=torch.float64)


def problem(n: int = 18, d: int = 4, q: int = 5, classes: int = 0, seed: int = 3):
    """Rows, targets and queries: a regression, or +-1 columns for `classes` classes."""
    X, Xq = draw(n, d, purpose="rows", seed=seed), draw(q, d, purpose="queries", seed=seed)
    if not classes:
        return X, X[:, 0] * X[:, 1] + 0.3 * draw(n, purpose="noise", seed=seed), Xq
    scores = X @ draw(d, classes, purpose="classes", seed=seed)
    return X, 2 * torch.nn.functional.one_hot(scores.argmax(1), classes).double() - 1, Xq


def fit(kernel: Kernel, X, y, ridge) -> Fit:
    return solve(kernel, X, y, ridge, algorithm="direct")


def refit(kernel: Kernel, X, y, Xq, ridge, keep=None) -> torch.Tensor:
    """Predict from a fit to the rows `keep` alone, by a plain linear solve."""
    rest = torch.arange(len(X)) if keep is None else keep
    A = kernel(X[rest]) + ridge * torch.eye(len(rest), dtype=torch.float64)
    return kernel(Xq, X[rest]) @ torch.linalg.solve(A, y[rest])


def without(n: int, *rows: int) -> torch.Tensor:
    return torch.tensor([i for i in range(n) if i not in rows])


def assert_equal(found, expected, relative: float = 1e-10):
    """Equal relative to the largest entry: a small influence is a difference of large predictions."""
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= relative * float(expected.abs().max())
