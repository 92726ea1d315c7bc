"""Compiled and interpreted runs of the same program agree, channel by channel and step by step."""

import pytest
import torch

from tests.compiler.tasks import MODELS, interpreted, model, task


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_compiled_network_does_what_the_program_says(name, outputs):
    X, y, Xq = task(outputs=outputs)
    net = model(name, outputs=outputs, steps=3)  # before linear CG, which ends in p + 1 steps, has converged
    trace, reference = net.trace(X, y, Xq), interpreted(net, X, y, Xq)
    assert set(trace.values) == set(reference)
    tolerance = 1e-7 if name == "imitation" else 1e-11  # it multiplies round-off by n / epsilon
    for channel, expected in reference.items():
        torch.testing.assert_close(
            trace.values[channel], expected, rtol=1e-9, atol=tolerance * float(expected.abs().max()), msg=channel
        )
