from math import log10

import pytest
import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import finite_relu_ntks, kernel_distances, required_widths
from ridgeformer.regime.networks import normalise_rows
from ridgeformer.regime.widths import judge_criteria


@pytest.fixture(scope="module")
def drawn():
    X = normalise_rows(torch.randn(12, 6, generator=torch_generator(0, "rows"), dtype=torch.float64))
    draws = finite_relu_ntks(X, [1_000, 40_000, 1_000_000], torch_generator(0, "neurons"), threads=1)
    return X, [(width, kernel_distances(K, ReluNTK()(X), ridge=0.5)) for width, K in draws]


def test_the_expected_width_is_where_the_distance_is_met(drawn):
    """Expected from m = 1e6 for the distance seen at 4e4: within a factor of a few of 4e4."""
    X, at = drawn
    for one in judge_criteria(X, at[0][1], tuple(at), 0.5, 10.0)[:-1]:
        seen = getattr(at[1][1], one.name)
        met = one.log10_expected + 2 * log10(one.tolerance / seen)
        assert abs(met - log10(40_000)) < 0.8


def test_what_is_expected_is_less_than_what_is_proved(drawn):
    X, at = drawn
    *measured, published = judge_criteria(X, at[0][1], tuple(at), 0.5, 10.0)
    assert all(one.log10_expected < one.log10_sufficient for one in measured)
    assert published.log10_sufficient == required_widths(X, ridge=0.5, kappa=10.0)[-1].log10_width
    assert published.reachable == (published.log10_sufficient <= 9)
    assert not judge_criteria(X, at[0][1], tuple(at), 0.5, 1e3)[-1].reachable
    assert judge_criteria(X, None, (), 0.5, 10.0) == ()
