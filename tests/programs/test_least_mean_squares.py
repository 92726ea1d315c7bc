import numpy as np

import ridgeformer as rf
from ridgeformer.programs import least_mean_squares
from tests.programs.program_case import ProgramCase, draw


class TestLeastMeanSquares(ProgramCase):
    program, options = least_mean_squares, {"step_size": 0.1}
    steps, last_only = 12, True

    def reference(self, X, y, Xq, steps, step_size):
        w, e = np.zeros(X.shape[1]), np.zeros(len(X))
        for t in range(len(X)):
            e[t] = y[t] - X[t] @ w
            w = w + step_size * e[t] * X[t]
        return [{"e": e, "f": Xq @ w}]


def test_after_t_steps_the_first_t_errors_are_those_of_the_filter():
    X, y, Xq = (part[0] for part in draw())
    found = least_mean_squares(steps=12, step_size=0.3).interpret(X, y, Xq)["e"][..., 0].numpy()
    exact = TestLeastMeanSquares().reference(X, y, Xq, 12, step_size=0.3)[0]["e"]
    for t in range(1, 13):
        np.testing.assert_allclose(found[t - 1, :t], exact[:t], atol=1e-13)
        assert t == 12 or np.abs(found[t - 1, t:] - exact[t:]).max() > 1e-9  # and no others


def test_no_support_depends_on_a_later_one():
    X, y, Xq = (part[0] for part in draw())
    value = least_mean_squares(steps=12, step_size=0.3)
    moved = y.copy()
    moved[7:] += 5.0
    before, after = (value.interpret(X, targets, Xq)["e"][-1, :7] for targets in (y, moved))
    assert np.array_equal(before.numpy(), after.numpy())


def test_its_theorem_is_checked_by_the_certificate():
    X, y, Xq = draw(tasks=2)
    certificate = rf.certify(rf.compile(least_mean_squares(steps=12), features=3), X, y[..., None], Xq)
    assert certificate.holds
    assert certificate["theorem: prefix"].kind == "expected"
