import pytest

from ridgeformer import errors
from ridgeformer.influence import nystrom_influence
from tests.influence.estimators.digits_case import KERNELS, RIDGE, coverage, digits, exact
from tests.influence.influence_case import assert_equal


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("confidence", "least"), [(None, 1.0), (0.95, 0.95), (0.5, 0.5)])
def test_the_errors_cover_the_truth_as_often_as_they_say(name, confidence, least):
    truth = exact(name)
    for seed in range(3):
        found = nystrom_influence(KERNELS[name], *digits(), RIDGE, rank=100, confidence=confidence, seed=seed)
        assert coverage(found.diagonal, truth.diagonal, found.diagonal_error) == 1.0
        assert coverage(found.alpha, truth.alpha, found.alpha_error) >= least
        assert coverage(found.weights, truth.weights, found.weights_error) >= least
        assert coverage(found.leave_one_out, truth.leave_one_out, found.leave_one_out_error) >= least


@pytest.mark.parametrize("name", KERNELS)
def test_likely_errors_are_much_smaller_than_proved_ones_and_not_far_above_the_truth(name):
    proved, likely = (nystrom_influence(KERNELS[name], *digits(), RIDGE, rank=200, confidence=c) for c in (None, 0.95))
    assert float(likely.alpha_error.mean()) < float(proved.alpha_error.mean()) / 4
    assert float(likely.alpha_error.norm()) < 20 * float((likely.alpha - exact(name).alpha).norm())


@pytest.mark.parametrize("name", KERNELS)
def test_with_the_full_rank_it_is_exact(name):
    found, truth = nystrom_influence(KERNELS[name], *digits(), RIDGE, rank=300), exact(name)
    assert_equal(found.leave_one_out, truth.leave_one_out, 1e-8)
    assert_equal(found.predictions, truth.predictions, 1e-8)


@pytest.mark.parametrize("wrong", [0.0, 1.0, 2, "high"])
def test_a_confidence_that_is_none(wrong):
    with pytest.raises(errors.InputError, match="confidence is"):
        nystrom_influence(KERNELS["exponential"], *digits(), RIDGE, confidence=wrong)
