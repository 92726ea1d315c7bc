import numpy as np
from sklearn.linear_model import Lasso

from ridgeformer.programs import fista, ista
from tests.programs.program_case import ProgramCase, draw, soft


class TestFista(ProgramCase):
    program, options = fista, {"penalty": 0.1, "step_size": 0.4}

    def reference(self, X, y, Xq, steps, penalty, step_size):
        w = z = np.zeros(X.shape[1])
        t, found = 1.0, []
        for _ in range(steps):
            new = soft(z - step_size * X.T @ (X @ z - y) / len(X), step_size * penalty)
            t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
            z = new + (t - 1) / t_new * (new - w)
            w, t = new, t_new
            found.append({"w": w, "f": Xq @ w})
        return found


def test_it_ends_at_the_lasso_of_scikit_learn():
    X, y, Xq = (part[0] for part in draw(k=40, m=6))
    found = fista(steps=150, penalty=0.05, step_size=0.4).interpret(X, y, Xq)
    lasso = Lasso(alpha=0.05, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(found["w"][-1, 0].numpy(), lasso.coef_, atol=1e-8)


def test_it_is_ahead_of_ista_on_an_ill_conditioned_problem():
    X, y, Xq = (part[0] for part in draw(k=40, m=6))
    X = X * np.logspace(0, -1.5, 6)

    def objective(w):
        return np.mean((X @ w - y) ** 2) / 2 + 1e-4 * np.abs(w).sum()

    best = objective(Lasso(alpha=1e-4, fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(X, y).coef_)
    gaps = [
        objective(program(steps=100, penalty=1e-4).interpret(X, y, Xq)["w"][-1, 0].numpy()) - best
        for program in (fista, ista)
    ]
    assert 0 < gaps[0] < gaps[1] / 3
