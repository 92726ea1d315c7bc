"""What a verdict states about itself."""

from __future__ import annotations

import math

import torch

from ridgeformer.core.seeds import torch_generator
from ridgeformer.identification.verdict import _resampled, _upper_mean


def test_the_resolution_covers_skewed_errors() -> None:
    """Of 200 samples of squared errors, few of which are large, at least 96 % of the bounds are above the true mean."""
    generator, covered, plain = torch_generator(0, "skewed errors"), 0, 0
    for draw in range(200):
        errors = torch.randn(36, generator=generator, dtype=torch.float64).exp()
        weights = _resampled(36, 400, draw)
        covered += _upper_mean(errors, weights, 0.005) >= math.exp(0.5)
        plain += float(torch.quantile(weights @ errors / 36, 0.995)) >= math.exp(0.5)
    assert covered >= 192
    assert plain < covered  # quantiles of resampled means do not see the skew


def test_the_resolution_of_equal_errors_is_their_root() -> None:
    """Where every task has the same error there is nothing to resample; where all are below the noise it is zero."""
    weights = _resampled(8, 50, 0)
    assert _upper_mean(torch.full((8,), 0.25, dtype=torch.float64), weights, 0.005) == 0.25
    assert _upper_mean(torch.full((8,), -1.0, dtype=torch.float64), weights, 0.005) == 0.0
