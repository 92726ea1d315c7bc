"""Coverage in the audit: counts are those of the intervals themselves."""

import numpy as np
import pytest
import torch

from ridgeformer import datasets
from ridgeformer.auditing.certified import Certified
from ridgeformer.auditing.coverage import examine_coverage
from ridgeformer.core.errors import InputError
from ridgeformer.datasets import Split
from ridgeformer.estimators import AttentionKernelRidge
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve


def certified(name, **options):
    data = Split.of(datasets.load(name), **({"test_fraction": 0.4, "max_rows": 150} | options))
    kernel = Exponential(float(data.X.square().sum(1).mean()) / 2)
    return data, Certified.of(data, solve(kernel, data.X, data.y, 1.0, algorithm="direct"))


def test_intervals_are_those_of_the_estimator_with_an_intercept():
    data, fitted = certified("diabetes")
    found = examine_coverage(data, fitted)
    y, yt = ((part + data.mean)[:, 0].numpy() for part in (data.y, data.yt))
    model = AttentionKernelRidge(fitted.fit.kernel, ridge=1.0).fit(data.X.numpy(), y)
    low, high = model.predict_interval(data.Xt.numpy(), 0.9)
    assert found.everything.covered == ((low <= yt) & (yt <= high)).sum()
    assert found.everything.width == pytest.approx((high - low).mean())
    assert found.everything.rows == len(yt) == sum(group.rows for group in found.groups)
    assert found.everything.covered == sum(group.covered for group in found.groups)
    assert [group.name for group in found.groups] == ["low predictions", "middle predictions", "high predictions"]


def test_sets_are_those_of_refits_with_the_mean_of_the_other_rows():
    data, fitted = certified("wine", max_rows=60)
    found = examine_coverage(data, fitted, level=0.8)
    K, k = (fitted.fit.kernel(data.X, Z).numpy() for Z in (data.X, data.Xt))
    y, n = (data.y + data.mean).numpy(), len(data.X)
    below = np.zeros((len(data.Xt), 3))
    for i in range(n):
        rest = np.arange(n) != i
        mean = y[rest].mean(0)
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + np.eye(n - 1), y[rest] - mean)
        own = (K[i, rest] @ alpha + mean)[data.labels[i]]
        below += k[rest].T @ alpha + mean < own
    member = below < 0.8 * (n + 1) - 1e-9
    assert found.everything.covered == member[np.arange(len(member)), data.labels_t.numpy()].sum()
    assert found.everything.width == pytest.approx(member.sum(1).mean())
    assert [group.rows for group in found.groups] == torch.bincount(data.labels_t).tolist()


def test_too_few_training_rows_are_said():
    data, fitted = certified("diabetes", max_rows=20)
    with pytest.raises(InputError, match="too few for level"):
        examine_coverage(data, fitted, level=0.99)
