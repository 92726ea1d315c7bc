import numpy as np

from ridgeformer.programs import recursive_least_squares
from tests.programs.program_case import ProgramCase, cg, draw


class TestRecursiveLeastSquares(ProgramCase):
    program, options = recursive_least_squares, {"ridge": 0.2}
    steps, compiled = 3, {"reciprocal_range": (1e-20, 1e5)}

    def reference(self, X, y, Xq, steps, ridge):
        identity, found = ridge * np.eye(X.shape[1]), []
        for t in range(1, steps + 1):
            prefixes = np.array([cg(X[:s].T @ X[:s] + identity, X[:s].T @ y[:s], t)[-1] for s in range(len(X))])
            w = cg(X.T @ X + identity, X.T @ y, t)[-1]
            found.append({"w": prefixes, "prefix": (prefixes * X).sum(1), "f": Xq @ w})
        return found


def test_three_steps_are_the_textbook_recursion_for_three_features():
    """P <- P - P x x'P / (1 + x'P x), w <- w + P x (y - x'w), one support after the other."""
    X, y, Xq = (part[0] for part in draw())
    found = recursive_least_squares(steps=3, ridge=0.2).interpret(X, y, Xq)
    P, w = np.eye(3) / 0.2, np.zeros(3)
    for t, x in enumerate(X):
        np.testing.assert_allclose(found["w"][-1, t].numpy(), w, atol=1e-10)
        P = P - np.outer(P @ x, x @ P) / (1 + x @ P @ x)
        w = w + P @ x * (y[t] - x @ w)
    np.testing.assert_allclose(found["f"][-1, :, 0].numpy(), Xq @ w, atol=1e-10)
