import numpy as np
from sklearn.linear_model import ElasticNet

from ridgeformer.programs import elastic_net
from tests.programs.program_case import ProgramCase, draw, soft


class TestElasticNetProgram(ProgramCase):
    program, options = elastic_net, {"penalty": 0.1, "ridge": 0.2, "step_size": 0.4}

    def reference(self, X, y, Xq, steps, penalty, ridge, step_size):
        w, found = np.zeros(X.shape[1]), []
        for _ in range(steps):
            w = soft(w - step_size * X.T @ (X @ w - y) / len(X), step_size * penalty) / (1 + step_size * ridge)
            found.append({"w": w, "f": Xq @ w})
        return found


def test_it_ends_at_the_elastic_net_of_scikit_learn():
    X, y, Xq = (part[0] for part in draw(k=40, m=6))
    found = elastic_net(steps=800, penalty=0.05, ridge=0.1, step_size=0.4).interpret(X, y, Xq)
    alpha = 0.05 + 0.1
    known = ElasticNet(alpha=alpha, l1_ratio=0.05 / alpha, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(found["w"][-1, 0].numpy(), known.coef_, atol=1e-10)
