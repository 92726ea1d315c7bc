import numpy as np
import pytest
import torch

from ridgeformer.bounds._inputs import as_array, as_count, nonnegative, outer, spectrum_tail
from ridgeformer.core.errors import DtypeError, InputError, ShapeError


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), torch.tensor(3), torch.tensor(3.0), np.array(3)])
def test_numbers_of_every_kind_become_float64(value):
    array = as_array(value, "x")
    assert array.dtype == np.float64
    assert array.shape == ()
    assert array == 3


def test_the_input_is_not_shared():
    given = np.ones(2)
    as_array(given, "x")[0] = 5.0
    assert given[0] == 1.0


@pytest.mark.parametrize("value", ["text", ["a"], None, 1j, np.array([object()])])
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises(DtypeError, match=r"x has dtype .*; real numbers were expected"):
        as_array(value, "x")


def test_tensors_that_carry_gradients_are_refused_with_advice():
    with pytest.raises(DtypeError, match=r"call \.detach\(\)\.cpu\(\) first"):
        as_array(torch.ones(2, requires_grad=True), "x")


def test_ragged_lists_are_refused():
    with pytest.raises(InputError, match="x cannot be read as an array"):
        as_array([[1.0], [1.0, 2.0]], "x")


@pytest.mark.parametrize("value", [2, np.int64(2), torch.tensor(2)])
def test_counts_take_integers_of_every_kind(value):
    assert as_count(value, "width") == 2


@pytest.mark.parametrize("value", [2.0, "2", None, True, np.True_])
def test_counts_refuse_what_is_not_an_integer(value):
    with pytest.raises(DtypeError, match=r"width is .*; an integer >= 0 was expected: round it on purpose"):
        as_count(value, "width")


def test_one_number_means_one_number():
    assert nonnegative(2, "d_eff") == 2.0
    with pytest.raises(ShapeError, match=r"d_eff has shape \(1,\); one number was expected"):
        nonnegative([2.0], "d_eff")


def test_the_tail_of_a_spectrum_is_descending_and_never_empty():
    assert spectrum_tail([1.0, 3.0, 2.0], 1).tolist() == [2.0, 1.0]
    assert spectrum_tail([1.0, 3.0, 2.0], 3).tolist() == [0.0]


def test_outer_adds_no_axis_for_a_number():
    assert outer(2.0, 3.0, 0.5).shape == ()
    assert outer([1.0, 2.0] * np.ones(2), np.ones(3), 0.5).tolist() == [[0.5] * 3, [1.0] * 3]
