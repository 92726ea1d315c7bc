import numpy as np
import pytest

from ridgeformer.programs import power_iteration
from tests.programs.program_case import ProgramCase, draw


class TestPowerIteration(ProgramCase):
    program, options = power_iteration, {"temperature": None}

    def reference(self, X, y, Xq, steps, temperature):
        K, cross = X @ X.T, Xq @ X.T
        if temperature is not None:
            K, cross = np.exp(K / temperature), np.exp(cross / temperature)
        v, found = y, []
        for _ in range(steps):
            quotient = v @ K @ v / (v @ v)
            f, v = cross @ v / quotient, K @ v / quotient
            found.append({"v": v, "l": quotient, "f": f})
        return found


class TestExponentialPowerIteration(TestPowerIteration):
    options, steps, tolerance = {"temperature": 4.0}, 4, 1e-9
    compiled, _ = {"reciprocal_range": (1e-14, 1e4)}, None


def test_it_ends_at_the_largest_eigenvalue():
    X, y, Xq = (part[0] for part in draw(k=20, m=3))
    found = power_iteration(steps=200).interpret(X, y, Xq)
    assert float(found["l"][-1, 0, 0]) == pytest.approx(np.linalg.eigvalsh(X @ X.T)[-1], rel=1e-10)
    v = found["v"][-1, :, 0].numpy()
    top = np.linalg.eigh(X @ X.T)[1][:, -1]
    assert abs(v @ top) / np.linalg.norm(v) == pytest.approx(1, abs=1e-10)
