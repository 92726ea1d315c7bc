import numpy as np

from ridgeformer.programs import preconditioned_descent
from tests.programs.program_case import ProgramCase, draw


class TestPreconditionedDescent(ProgramCase):
    program, options = preconditioned_descent, {"step_size": 0.5, "floor": 0.01}

    def reference(self, X, y, Xq, steps, step_size, floor):
        w, d, found = np.zeros(X.shape[1]), 1 / (np.mean(X**2, 0) + floor), []
        for _ in range(steps):
            w = w - step_size * d * (X.T @ (X @ w - y) / len(X))
            found.append({"w": w, "f": Xq @ w})
        return found


def test_it_ends_at_least_squares_whatever_the_scale_of_the_features():
    X, y, Xq = (part[0] for part in draw(k=40, m=4))
    X = X * np.array([1.0, 10.0, 0.1, 100.0])
    found = preconditioned_descent(steps=300, floor=1e-6).interpret(X, y, Xq)["w"][-1, 0].numpy()
    np.testing.assert_allclose(found, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-9, atol=1e-12)
