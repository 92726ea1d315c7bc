"""The bootstrap interval, beside scipy's."""

import numpy as np
import pytest
import scipy.stats

from ridgeformer.errors import InputError
from ridgeformer.studies.bootstrap import bootstrap_interval


def test_the_interval_is_scipys():
    values = np.random.default_rng(0).lognormal(size=12)
    found = bootstrap_interval(values)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert found == pytest.approx(tuple(theirs), rel=0.05)
    with pytest.raises(InputError, match="between 0 and 1"):
        bootstrap_interval(values, level=95.0)
