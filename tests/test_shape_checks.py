"""The tests check the shapes that signatures and records state, and wrap nothing else."""

import jaxtyping
import pytest
import torch

from ridgeformer.intervals.gaussian_process import Posterior
from ridgeformer.kernels.base import Kernel, project


def test_a_wrong_shape_is_an_error_where_a_signature_states_one():
    def call_often():
        for _ in range(16):  # after many calls in one process, every sixteenth is checked
            project(torch.zeros(3), None)

    with pytest.raises(jaxtyping.TypeCheckError, match=r"parameters of ridgeformer\.kernels\.base\.project"):
        call_often()
    assert project(torch.zeros(3, 2), None).shape == (3, 2)


def test_a_method_that_states_only_the_shape_of_its_answer_is_checked():
    assert hasattr(Kernel.diag, "__wrapped__")


def test_a_wrong_shape_is_an_error_where_a_record_states_one():
    right, wrong = torch.zeros(3), torch.zeros(3, 2)
    assert Posterior(right, right, right, right, 0.1).variance is right
    with pytest.raises(jaxtyping.TypeCheckError):
        Posterior(right, wrong, right, right, 0.1)
