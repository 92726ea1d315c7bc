import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

import ridgeformer as rf
from ridgeformer.programs import nearest_neighbours
from tests.programs.program_case import ProgramCase, draw


class TestNearestNeighbours(ProgramCase):
    program, options = nearest_neighbours, {"neighbours": 3}
    steps = 14  # two more than there are supports

    def reference(self, X, y, Xq, steps, neighbours):
        distance, found = ((Xq[:, None] - X[None]) ** 2).sum(2), []
        for t in range(1, steps + 1):
            near = np.argsort(distance[:, :t], 1)[:, :neighbours]
            found.append({"f": y[near].sum(1) / neighbours})
        return found


@pytest.mark.parametrize("neighbours", [1, 2, 5])
def test_it_is_scikit_learn_s_after_a_step_a_support(neighbours):
    X, y, Xq = (part[0] for part in draw(k=20))
    model = rf.compile(nearest_neighbours(steps=20, neighbours=neighbours), features=3)
    known = KNeighborsRegressor(neighbours).fit(X, y).predict(Xq)
    np.testing.assert_allclose(model(X, y, Xq).numpy(), known, atol=1e-12)


def test_of_equal_distances_the_earlier_support_wins():
    """A target must be nearer by the margin to take a place."""
    found = nearest_neighbours(steps=3, neighbours=1).interpret([[1.0], [1.0], [3.0]], [5.0, 7.0, 9.0], [[1.0]])
    assert found["f"][-1].item() == 5.0
