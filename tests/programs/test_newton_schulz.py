import numpy as np

from ridgeformer.programs import newton_schulz
from tests.programs.program_case import ProgramCase, draw


class TestNewtonSchulz(ProgramCase):
    program, options = newton_schulz, {}

    def reference(self, X, y, Xq, steps):
        A = X.T @ X
        V, found = np.eye(X.shape[1]) / np.trace(A), []
        for _ in range(steps):
            V = 2 * V - V @ A @ V
            found.append({"u": X @ V, "f": Xq @ V @ X.T @ y})
        return found


def test_it_ends_at_least_squares():
    X, y, Xq = (part[0] for part in draw(k=30, m=4))
    found = newton_schulz(steps=12).interpret(X, y, Xq)["f"][-1, :, 0].numpy()
    np.testing.assert_allclose(found, Xq @ np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-12)
