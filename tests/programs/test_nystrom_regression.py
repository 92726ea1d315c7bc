import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

import ridgeformer as rf
from ridgeformer.programs import nystrom_regression
from tests.programs.program_case import ProgramCase, draw


def gaussian(A, B, temperature):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(2) / (2 * temperature))


def by_cg(k, X, y, Xq, landmarks, ridge, steps):
    """Answers at supports and queries of every step of conjugate gradients on the normal equations of the features."""
    Z = X[:landmarks]
    A, b = k(Z, X) @ k(X, Z) + ridge * k(Z, Z), k(Z, X) @ y
    a, r, found = np.zeros(len(b)), b, []
    p = r
    for _ in range(steps):
        gamma = r @ r / (p @ A @ p)
        a, new = a + gamma * p, r - gamma * A @ p
        p, r = new + new @ new / (r @ r) * p, new
        found.append((k(X, Z) @ a, k(Xq, Z) @ a))
    return found


class TestNystromRegression(ProgramCase):
    program, options = nystrom_regression, {"landmarks": 4, "ridge": 0.3}
    steps, compiled = 3, {"reciprocal_range": (1e-18, 1e6)}

    def reference(self, X, y, Xq, steps, landmarks, ridge):
        found = by_cg(lambda A, B: A @ B.T, X, y, Xq, landmarks, ridge, steps)
        return [{"f": queries} for _, queries in found]


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_it_is_ridge_regression_on_the_features_of_scikit_learn(temperature):
    X, y, Xq = (part[0] for part in draw(k=30))
    nystroem = Nystroem(gamma=1 / (2 * temperature), n_components=4, random_state=0).fit(X)
    order = np.r_[nystroem.component_indices_, np.setdiff1d(np.arange(30), nystroem.component_indices_)]
    known = Ridge(alpha=0.5, fit_intercept=False, solver="cholesky").fit(nystroem.transform(X), y)
    program = nystrom_regression(steps=8, landmarks=4, ridge=0.5, temperature=temperature)
    found = rf.compile(program, features=3)(X[order], y[order], Xq).numpy()
    np.testing.assert_allclose(found, known.predict(nystroem.transform(Xq)), atol=1e-8)


def test_all_supports_as_landmarks_are_kernel_ridge_regression():
    X, y, Xq = (part[0] for part in draw(k=6))
    found = nystrom_regression(steps=20, landmarks=6, ridge=1.0, temperature=0.5).interpret(X, y, Xq)["f"][-1, :, 0]
    K = gaussian(X, X, 0.5)
    exact = gaussian(Xq, X, 0.5) @ np.linalg.solve(K + np.eye(6), y)
    np.testing.assert_allclose(found.numpy(), exact, atol=1e-8)
