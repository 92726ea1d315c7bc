import numpy as np

from ridgeformer.programs import barzilai_borwein
from tests.programs.program_case import ProgramCase, draw


class TestBarzilaiBorwein(ProgramCase):
    program, options = barzilai_borwein, {"ridge": 0.1, "step_size": 0.1}
    compiled, _ = {"reciprocal_range": (1e-16, 1e4)}, None

    def reference(self, X, y, Xq, steps, ridge, step_size):
        w, eta, found = np.zeros(X.shape[1]), step_size, []
        g = X.T @ (X @ w - y) / len(X) + ridge * w
        for _ in range(steps):
            s = -eta * g
            w = w + s
            new = X.T @ (X @ w - y) / len(X) + ridge * w
            eta, g = s @ s / (s @ (new - g)), new
            found.append({"w": w, "eta": eta, "f": Xq @ w})
        return found


def test_it_ends_at_ridge_regression_and_then_stands_still():
    X, y, Xq = (part[0] for part in draw(k=40, m=4))
    found = barzilai_borwein(steps=60).interpret(X, y, Xq)["w"][-1, 0].numpy()
    np.testing.assert_allclose(found, np.linalg.solve(X.T @ X / 40 + 0.1 * np.eye(4), X.T @ y / 40), atol=1e-13)
