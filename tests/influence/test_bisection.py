import math

import pytest

from ridgeformer.influence.flipping import bracket


@pytest.mark.parametrize("edge", [1e-7, 0.3, 1.0, 77.0])
def test_brackets_the_edge(edge):
    low, high = bracket(lambda x: x >= edge, 1.0, 100.0, 1e-4)
    assert low < edge <= high <= low * 1.001


def test_says_when_it_never_holds():
    assert bracket(lambda x: False, 1.0, 6.0, 1e-4) == (6.0, math.inf)
