import pytest
import torch

from ridgeformer.core.errors import InputError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import unit_rows
from ridgeformer.regime import normalise_rows


def test_agrees_with_the_one_for_arrays_at_every_size():
    X = torch.randn(4, 3, generator=torch_generator(0, "rows"), dtype=torch.float64)
    X = X * torch.tensor([[1.0], [1e200], [1e-200], [3.0]], dtype=torch.float64)
    torch.testing.assert_close(normalise_rows(X), torch.from_numpy(unit_rows(X)), rtol=1e-15, atol=1e-15)


def test_zero_rows_are_refused_or_kept():
    X = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(InputError, match=r"row 1 of features is all zeros \(1 such"):
        normalise_rows(X, "features")
    assert normalise_rows(X, keep_zero=True)[1].tolist() == [0.0, 0.0]


def test_gradient_is_that_of_the_direction():
    x = torch.randn(2, 3, generator=torch_generator(0, "rows"), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalise_rows, x)
