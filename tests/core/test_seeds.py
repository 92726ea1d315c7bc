import numpy as np
import torch

from ridgeformer.core import seeds


def test_same_seed_and_purpose_same_stream():
    a, b = (torch.rand(5, generator=seeds.torch_generator(3, "noise", 1)) for _ in range(2))
    assert torch.equal(a, b)


def test_purposes_and_seeds_are_independent():
    draws = [
        seeds.numpy_generator(seed, *purpose).standard_normal(4000)
        for seed in (0, 1)
        for purpose in (("features",), ("targets",), ("features", 1))
    ]
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 0.07


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    torch.rand(3, generator=seeds.torch_generator(0, "x"))
    assert torch.equal(before, torch.get_rng_state())
