import numpy as np
from sklearn.linear_model import LogisticRegression

from ridgeformer.programs import logistic_newton
from tests.programs.program_case import ProgramCase, cg, draw, sigmoid


class TestLogisticNewton(ProgramCase):
    program, options = logistic_newton, {"ridge": 0.05, "inner": 3}
    labels, steps = True, 3
    compiled, _ = {"reciprocal_range": (1e-28, 1e2)}, None  # squared gradients near the optimum

    def reference(self, X, y, Xq, steps, ridge, inner):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            p = sigmoid(X @ w)
            H = X.T * (p * (1 - p)) @ X / len(X) + ridge * np.eye(len(w))
            w = w + cg(H, -(X.T @ (p - y) / len(X) + ridge * w), inner)[-1]
            found.append({"w": w, "f": sigmoid(Xq @ w)})
        return found


def test_it_ends_at_the_logistic_regression_of_scikit_learn():
    X, y, Xq = (part[0] for part in draw(k=40, m=4, labels=True))
    found = logistic_newton(steps=8, ridge=0.05, inner=4).interpret(X, y, Xq)
    known = LogisticRegression(C=1 / (0.05 * 40), fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found["w"][-1, 0].numpy(), known.coef_[0], atol=1e-6)
    np.testing.assert_allclose(found["f"][-1, :, 0].numpy(), known.predict_proba(Xq)[:, 1], atol=1e-6)


def test_eight_steps_reach_a_gradient_of_zero():
    X, y, Xq = (part[0] for part in draw(k=40, m=4, labels=True))
    w = logistic_newton(steps=8, ridge=0.05, inner=4).interpret(X, y, Xq)["w"][-1, 0].numpy()
    assert np.abs(X.T @ (sigmoid(X @ w) - y) / len(X) + 0.05 * w).max() < 1e-14
