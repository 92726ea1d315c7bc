import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import pcg_influence
from ridgeformer.influence.estimators import pcg, setting
from tests.influence.estimators.digits_case import KERNELS, RIDGE, coverage, digits, exact
from tests.influence.influence_case import assert_equal

ROWS = [3, 250, 77, 120, 9]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_the_errors_always_cover_the_truth(name, tol):
    truth = exact(name)
    found = pcg_influence(KERNELS[name], *digits(), RIDGE, rows=ROWS, rank=30, tol=tol)
    assert found.rows.tolist() == ROWS
    for part in ("alpha", "weights", "diagonal", "leave_one_out"):
        assert coverage(getattr(found, part), getattr(truth, part)[ROWS], getattr(found, f"{part}_error")) == 1.0


def test_all_rows_by_blocks_of_columns_to_the_last_digits(monkeypatch):
    monkeypatch.setattr(pcg, "COLUMNS", 130)
    found, truth = pcg_influence(KERNELS["exponential"], *digits(), RIDGE), exact("exponential")
    assert found.rows is None
    assert_equal(found.leave_one_out, truth.leave_one_out, 1e-8)
    assert float((found.leave_one_out_error / truth.leave_one_out.abs().max()).max()) < 1e-5


def test_a_vector_of_targets_gives_no_axis():
    X, y, Xq = digits()
    found = pcg_influence(KERNELS["exponential"], X, y[:, 0], Xq, RIDGE, rows=torch.tensor([4]))
    assert_equal(found.leave_one_out, exact("exponential").leave_one_out[4:5, :, 0], 1e-8)


def test_rows_out_of_range():
    with pytest.raises(errors.InputError, match="row 300 is out of range"):
        pcg_influence(KERNELS["exponential"], *digits(), RIDGE, rows=[300])


def test_many_rows_are_solved_in_mixed_precision_with_errors_that_cover_as_well(monkeypatch):
    monkeypatch.setattr(setting, "SMALL", 100)
    truth = exact("exponential")
    found = pcg_influence(KERNELS["exponential"], *digits(), RIDGE, rows=ROWS, tol=1e-8)
    for part in ("alpha", "weights", "diagonal", "leave_one_out"):
        assert coverage(getattr(found, part), getattr(truth, part)[ROWS], getattr(found, f"{part}_error")) == 1.0
    assert_equal(found.leave_one_out, truth.leave_one_out[ROWS], 1e-5)
