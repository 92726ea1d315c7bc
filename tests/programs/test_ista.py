import numpy as np
from sklearn.linear_model import Lasso

from ridgeformer.programs import ista
from tests.programs.program_case import ProgramCase, draw, soft


class TestIsta(ProgramCase):
    program, options = ista, {"penalty": 0.1, "step_size": 0.4}

    def reference(self, X, y, Xq, steps, penalty, step_size):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            w = soft(w - step_size * X.T @ (X @ w - y) / len(X), step_size * penalty)
            found.append({"w": w, "f": Xq @ w})
        return found


def test_it_ends_at_the_lasso_of_scikit_learn():
    X, y, Xq = (part[0] for part in draw(k=40, m=6))
    found = ista(steps=1500, penalty=0.05, step_size=0.4).interpret(X, y, Xq)
    lasso = Lasso(alpha=0.05, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    assert 0 < np.count_nonzero(lasso.coef_) < 6
    np.testing.assert_allclose(found["w"][-1, 0].numpy(), lasso.coef_, atol=1e-10)
    assert np.array_equal(found["w"][-1, 0].numpy() == 0, lasso.coef_ == 0)
    np.testing.assert_allclose(found["f"][-1, :, 0].numpy(), lasso.predict(Xq), atol=1e-9)
