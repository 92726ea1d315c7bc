import pytest

from ridgeformer import errors
from ridgeformer.influence import stochastic_influence
from tests.influence.estimators.digits_case import KERNELS, RIDGE, coverage, digits, exact


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_errors_cover_the_truth_as_often_as_they_say(name, confidence):
    """Over seeds and rows; the errors of ReLU tangent kernels also hold the round-off of arccos, so they cover more."""
    truth, shares = exact(name), []
    for seed in range(6):
        found = stochastic_influence(
            KERNELS[name], *digits(), RIDGE, rank=20, probes=24, confidence=confidence, seed=seed
        )
        shares.append(coverage(found.diagonal, truth.diagonal, found.diagonal_error))
        assert coverage(found.alpha, truth.alpha, found.alpha_error) == 1.0
        assert coverage(found.weights, truth.weights, found.weights_error) == 1.0
    mean = sum(shares) / len(shares)
    assert mean >= confidence - 0.03
    if name == "exponential":
        assert mean <= confidence + 0.1  # an error that always covers would say too little


def test_the_errors_of_the_influences_follow():
    truth = exact("exponential")
    found = stochastic_influence(KERNELS["exponential"], *digits(), RIDGE, rank=20, probes=24)
    assert coverage(found.leave_one_out, truth.leave_one_out, found.leave_one_out_error) >= 0.93


def test_more_probes_and_a_higher_rank_are_both_better():
    truth = exact("exponential").diagonal

    def error(**options):
        found = [stochastic_influence(KERNELS["exponential"], *digits(), RIDGE, seed=s, **options) for s in range(3)]
        return sum(float((each.diagonal - truth).norm()) for each in found)

    rough = error(rank=20, probes=8)
    assert error(rank=20, probes=128) < rough / 2.5
    assert error(rank=200, probes=8) < rough / 2.5


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"probes": 1}, "probes"), ({"confidence": 1.5}, "confidence"), ({"rank": 0}, "rank"), ({"seed": -1}, "seed")],
)
def test_bad_options(wrong, words):
    with pytest.raises(errors.InputError, match=words):
        stochastic_influence(KERNELS["exponential"], *digits(), RIDGE, **wrong)
