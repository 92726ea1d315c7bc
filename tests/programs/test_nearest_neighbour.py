import numpy as np

import ridgeformer as rf
from ridgeformer.programs import nearest_neighbour
from tests.programs.program_case import ProgramCase, draw


class TestNearestNeighbour(ProgramCase):
    program, options = nearest_neighbour, {"temperature": 1e-3}
    steps = 1

    def reference(self, X, y, Xq, steps, temperature):
        distance = ((Xq[:, None] - X[None]) ** 2).sum(2)
        weights = np.exp(-(distance - distance.min(1, keepdims=True)) / (2 * temperature))
        return [{"f": weights @ y / weights.sum(1)}]


def test_the_answer_is_the_nearest_target_up_to_the_stated_error():
    X, y, Xq = draw()
    model = rf.compile(nearest_neighbour(steps=1, temperature=1e-3), features=3)
    found = model(X, y[..., None], Xq)[..., 0].numpy()
    distance = np.sort(((Xq[:, :, None] - X[:, None]) ** 2).sum(3), 2)
    nearest = np.take_along_axis(y, ((Xq[:, :, None] - X[:, None]) ** 2).sum(3).argmin(2), 1)
    gap, spread = distance[..., 1] - distance[..., 0], np.ptp(y, axis=1, keepdims=True)
    stated = (X.shape[1] - 1) * np.exp(-gap / 2e-3) * spread
    assert (np.abs(found - nearest) <= stated + 1e-12).all()
    assert (stated < 1e-6).mean() > 0.9  # it says something for most queries
