import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct

from ridgeformer.programs import process_variance
from tests.programs.program_case import ProgramCase, cg, draw


class TestProcessVariance(ProgramCase):
    program, options = process_variance, {"noise": 0.2}
    steps, compiled = 3, {"reciprocal_range": (1e-20, 1e5)}

    def reference(self, X, y, Xq, steps, noise):
        A, found = X.T @ X + noise * np.eye(X.shape[1]), []
        for t in range(1, steps + 1):
            v = np.array([cg(A, x, t)[-1] for x in Xq])
            found.append({"v": v, "f": noise * (v * Xq).sum(1)})
        return found


def test_it_is_the_variance_of_scikit_learn_s_gaussian_process():
    X, y, Xq = (part[0] for part in draw())
    process = GaussianProcessRegressor(DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"), alpha=0.2, optimizer=None)
    std = process.fit(X, y).predict(Xq, return_std=True)[1]
    found = process_variance(steps=3, noise=0.2).interpret(X, y, Xq)["f"][-1, :, 0].numpy()
    np.testing.assert_allclose(found, std**2, rtol=1e-8)
