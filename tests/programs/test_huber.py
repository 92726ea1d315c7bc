import numpy as np
from sklearn.linear_model import HuberRegressor

from ridgeformer.programs import huber
from tests.programs.program_case import ProgramCase, cg, draw


class TestHuber(ProgramCase):
    program, options = huber, {"delta": 0.5, "ridge": 0.02, "inner": 3}
    steps, compiled = 3, {"reciprocal_range": (1e-20, 1e2)}

    def reference(self, X, y, Xq, steps, delta, ridge, inner):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            e = X @ w - y
            h = np.minimum(1, delta / np.maximum(np.abs(e), 1e-300))
            A = X.T * h @ X / len(X) + ridge * np.eye(len(w))
            w = w + cg(A, -(X.T @ (h * e) / len(X) + ridge * w), inner)[-1]
            found.append({"w": w, "f": Xq @ w})
        return found


def test_it_ends_at_the_huber_regression_of_scikit_learn():
    """scikit-learn estimates the scale s too; at its s the rest of its objective is ours with delta = epsilon s."""
    X, y, Xq = (part[0] for part in draw(k=40, m=4))
    y = y + np.where(np.arange(40) % 7 == 0, 6.0, 0.0)
    known = HuberRegressor(epsilon=1.35, alpha=0.01, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    s = known.scale_
    value = huber(steps=100, delta=1.35 * s, ridge=0.01 * s / 40, inner=4)
    found = value.interpret(X, y, Xq)["w"][-1, 0].numpy()
    np.testing.assert_allclose(found, known.coef_, atol=2e-5)
    e = X @ found - y
    gradient = X.T @ np.clip(e, -1.35 * s, 1.35 * s) / 40 + 0.01 * s / 40 * found
    assert np.abs(gradient).max() < 1e-10
