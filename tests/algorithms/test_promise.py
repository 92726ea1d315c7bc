import math
from itertools import islice

import numpy as np
import pytest
import torch

from ridgeformer.algorithms import ALGORITHMS, Chebyshev, Iterative, Richardson, resolve

NAMES = [name for name, kind in ALGORITHMS.items() if issubclass(kind, Iterative)]


class Diagonal:
    """A diagonal system, on which iterates are seen eigenvalue by eigenvalue."""

    def __init__(self, eigenvalues, ridge):
        self.eigenvalues, self.ridge = eigenvalues[:, None], ridge

    def apply(self, V):
        return self.eigenvalues * V


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1.0, 1.9), (1.0, 30.0), (0.2, 1000.0)])
def test_no_iterate_errs_more_than_promised(name, low, high):
    algorithm = resolve(name)
    eigenvalues = torch.from_numpy(np.geomspace(low, high, 40))
    exact = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    system = Diagonal(eigenvalues, low)
    start = (eigenvalues[:, None] * exact**2).sum(0).sqrt()
    states = algorithm.iterate(system, eigenvalues[:, None] * exact, spectrum=(low, high), precondition=lambda r: r)
    for t, state in enumerate(islice(states, 15), start=1):
        error = (eigenvalues[:, None] * (exact - state.alpha) ** 2).sum(0).sqrt() / start
        assert float(error.max()) <= algorithm.promise(t, (low, high), low) * (1 + 1e-9) + 1e-12


def test_promises_follow_the_options():
    assert Richardson(step_size=0.5).promise(3, (1.0, 3.0), 1.0) == 0.125
    assert Richardson(step_size=2.0).promise(10**6, (1.0, 3.0), 1.0) == math.inf
    wide = Chebyshev(spectrum=(1.0, 9.0))
    assert wide.promise(1, (2.0, 3.0), 1.0) == pytest.approx(0.8)
    assert wide.promise(1, (0.5, 3.0), 0.5) == math.inf
