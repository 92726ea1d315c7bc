"""The oracle is a real refit with one entry of X moved by an imaginary 1e-30: its imaginary part is the derivative."""

import numpy as np
import pytest
import torch

from ridgeformer.influence import AttentionFeatures, RawFeatures, feature_change
from ridgeformer.kernels import DotProduct, Exponential, ReluNTK
from tests.influence.influence_case import assert_equal, problem

STEP = 1e-30


def dot(X, Z):
    return X @ Z.T


def exponential(X, Z):
    return np.exp(X @ Z.T / 2.0)


def relu_ntk(X, Z):
    dots = X @ Z.T
    lengths = np.sqrt((X**2).sum(1))[:, None] * np.sqrt((Z**2).sum(1))[None, :]
    same = np.abs(dots.real - lengths.real) < 1e-12 * lengths.real
    return dots * (np.pi - np.where(same, 0, np.arccos(np.where(same, 0, dots / lengths)))) / (2 * np.pi)


def attention(X, Xq, normalise):
    C = X.T @ X
    pair = X @ C, Xq @ C
    return [F / np.sqrt((F**2).sum(1, keepdims=True)) if normalise else F for F in pair]


KERNELS = {"dot": (DotProduct(), dot), "exponential": (Exponential(2.0), exponential), "relu": (ReluNTK(), relu_ntk)}
FEATURES = {
    "raw": (RawFeatures(), lambda X, Xq: (X, Xq)),
    "attention": (AttentionFeatures(normalise=False), lambda X, Xq: attention(X, Xq, False)),
    "normalised": (AttentionFeatures(), lambda X, Xq: attention(X, Xq, True)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("classes", [0, 2])
def test_equals_refits_by_a_complex_step(kernel, features, classes):
    X, y, Xq = problem(n=7, d=3, q=2, classes=classes)
    X, Xq = X / 2, Xq / 2
    (ours, k), (seen, map_) = KERNELS[kernel], FEATURES[features]

    def refit(X):
        rows, queries = map_(X, Xq.numpy())
        return k(queries, rows) @ np.linalg.solve(k(rows, rows) + 0.3 * np.eye(len(X)), y.numpy())

    expected = np.empty((2, classes or 1, *X.shape))
    for i, j in np.ndindex(*X.shape):
        moved = X.numpy().astype(complex)
        moved[i, j] += STEP * 1j
        expected[:, :, i, j] = refit(moved).imag.reshape(2, -1) / STEP
    found = feature_change(ours, X, y, Xq, 0.3, features=seen)
    assert_equal(found, torch.from_numpy(expected))


def test_a_fixed_context_gives_another_gradient_and_the_same_value():
    X, y, Xq = problem()
    moving, fixed = AttentionFeatures(), AttentionFeatures(moving_context=False)
    torch.testing.assert_close(moving(X, Xq), fixed(X, Xq))
    gradients = [feature_change(Exponential(1.0), X, y, Xq, 0.3, features=f) for f in (moving, fixed)]
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) > 0.1


def test_the_largest_first_order_effect_is_reached_by_a_real_refit():
    X, y, Xq = problem()
    kernel, eps = Exponential(2.0), 1e-6
    gradient = feature_change(kernel, X, y, Xq[:1], 0.3)[0, 0]
    moved = X.clone()
    moved[4] += eps * gradient[4].sign()

    def predict(X):
        A = kernel(X) + 0.3 * torch.eye(len(X), dtype=torch.float64)
        return kernel(Xq[:1], X) @ torch.linalg.solve(A, y)

    assert_equal((predict(moved) - predict(X)) / eps, gradient[4].abs().sum()[None], 1e-4)
