import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.programs import ista, whitened_descent
from tests.programs.program_case import ProgramCase, draw


class TestWhitenedDescent(ProgramCase):
    program, options = whitened_descent, {"step_size": 0.3}

    def reference(self, X, y, Xq, steps, step_size):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            w = w - step_size * (X.T @ (X @ w - y) / len(X))
            found.append({"w": w, "f": Xq @ w})
        return found


def test_a_full_matrix_in_the_weights_preconditions_every_step_on_50_tasks():
    """Against w <- w - step_size P gradient in the coordinates of the data, P = A'A."""
    X, y, Xq = draw()
    A = np.array([[1.0, 0.3, -0.5], [0.0, 0.7, 0.2], [0.1, -0.4, 0.9]])
    model = rf.compile(whitened_descent(steps=6, step_size=0.2), features=3, projection=A)
    trace, plain = (run(X, y[..., None], Xq).f[..., 0].numpy() for run in (model.trace, model.interpret))
    w = np.zeros((50, 3))
    for step in range(6):
        gradient = np.einsum("tkm,tk->tm", X, np.einsum("tkm,tm->tk", X, w) - y) / 12
        w = w - 0.2 * gradient @ (A.T @ A)
        for found in (trace, plain):
            np.testing.assert_allclose(found[step], np.einsum("tqm,tm->tq", Xq, w), atol=1e-10)


def test_the_inverse_covariance_makes_one_step_of_size_one_nearly_least_squares():
    """Rows of covariance S, P = S^-1: the spectrum of the preconditioned problem is near 1, and descent fast."""
    rng = np.random.default_rng(0)
    S = np.array([[4.0, 1.5], [1.5, 1.0]])
    root = np.linalg.cholesky(S)
    X, Xq = rng.normal(size=(2000, 2)) @ root.T, rng.normal(size=(5, 2)) @ root.T
    y = X @ [1.0, -2.0]
    value = whitened_descent(steps=3, step_size=1.0)
    found = rf.compile(value, features=2, projection=np.linalg.inv(root))(X, y, Xq).numpy()
    assert np.abs(found - Xq @ [1.0, -2.0]).max() < 2e-3
    with pytest.raises(errors.InputError, match="not finite"):
        rf.compile(whitened_descent(steps=3000, step_size=1.0), features=2)(X, y, Xq)


def test_it_is_certified_and_saved_with_its_matrix(tmp_path):
    X, y, Xq = (part[0] for part in draw())
    A = 0.9 * np.eye(3) + 0.05
    model = rf.compile(whitened_descent(steps=400, step_size=0.9), features=3, projection=A)
    certificate = rf.certify(model, X, y, Xq)
    assert certificate.holds, str(certificate)
    model.save(tmp_path)
    assert np.array_equal(rf.load_model(tmp_path)(X, y, Xq), model(X, y, Xq))


def test_a_projection_that_does_not_fit_is_refused():
    with pytest.raises(errors.ShapeError, match=r"projection has shape \(2, 2\)"):
        rf.compile(ista(steps=1), features=3, projection=np.eye(2))
    with pytest.raises(errors.InputError, match="projection belongs to a program"):
        rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=1), features=3, ridge=1.0, projection=np.eye(3))
