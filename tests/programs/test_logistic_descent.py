import numpy as np
from sklearn.linear_model import LogisticRegression

from ridgeformer.programs import logistic_descent
from tests.programs.program_case import ProgramCase, draw, sigmoid


class TestLogisticDescent(ProgramCase):
    program, options = logistic_descent, {"ridge": 0.05, "step_size": 1.0}
    labels = True

    def reference(self, X, y, Xq, steps, ridge, step_size):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            w = w - step_size * (X.T @ (sigmoid(X @ w) - y) / len(X) + ridge * w)
            found.append({"w": w, "f": sigmoid(Xq @ w)})
        return found


def test_it_ends_at_the_logistic_regression_of_scikit_learn():
    X, y, Xq = (part[0] for part in draw(k=40, m=4, labels=True))
    found = logistic_descent(steps=600, ridge=0.05, step_size=1.0).interpret(X, y, Xq)
    known = LogisticRegression(C=1 / (0.05 * 40), fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found["w"][-1, 0].numpy(), known.coef_[0], atol=1e-6)
    np.testing.assert_allclose(found["f"][-1, :, 0].numpy(), known.predict_proba(Xq)[:, 1], atol=1e-6)
