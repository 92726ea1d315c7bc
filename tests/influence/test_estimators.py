import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import estimators, influence, nystrom_influence, pcg_influence, stochastic_influence
from ridgeformer.influence.estimators import ESTIMATORS, sketch_problem
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve, system
from tests.influence.digits_case import KERNELS, RIDGE, coverage, digits, exact
from tests.influence.influence_case import assert_equal


@pytest.mark.parametrize("name", ESTIMATORS)
def test_k_is_never_held_whole(name, monkeypatch):
    """With room for a block of 40 rows, nothing larger than n times the rank is ever formed."""
    X, y, Xq = digits()
    monkeypatch.setattr(system, "STORED_ENTRIES", 0)
    monkeypatch.setattr("ridgeformer.kernels.base.BLOCK_ENTRIES", 40 * len(X))
    monkeypatch.setattr("ridgeformer.solving.engines.tiles.TILE", 40)
    largest, dense = [], Exponential.dense

    def watched(self, X, Z):
        largest.append(X.shape[0] * Z.shape[0])
        return dense(self, X, Z)

    monkeypatch.setattr(Exponential, "dense", watched)
    options = {"rows": [0, 1]} if name == "pcg" else {}
    ESTIMATORS[name](KERNELS["exponential"], X, y, Xq, RIDGE, rank=50, **options)
    assert max(largest) <= 40 * len(X)


def test_large_logits_are_rescaled_and_float32_stays_float32():
    X, y, Xq = digits()
    hot = Exponential(0.02)  # logits up to 50: more than float32 squares hold
    truth = influence(solve(hot, X, y, 1e21, algorithm="direct"), Xq)
    for found in (
        nystrom_influence(hot, X.float(), y, Xq, 1e21, rank=300),
        stochastic_influence(hot, X.float(), y, Xq, 1e21, rank=300, tol=1e-5),
        pcg_influence(hot, X.float(), y, Xq, 1e21, rank=300, tol=1e-5),
    ):
        assert found.leave_one_out.dtype == torch.float32
        assert_equal(found.leave_one_out.double(), truth.leave_one_out, 1e-2)


@pytest.mark.parametrize(
    ("kernel", "ridge", "words"), [("exponential", 1.0, "kernel object"), (KERNELS["exponential"], 0.0, "ridge is 0")]
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input(kernel, ridge, words):
    X, y, Xq = digits()
    with pytest.raises(errors.InputError, match=words):
        ESTIMATORS["nystrom"](kernel, X, y, Xq, ridge)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rank", [10, 80])
def test_the_diagonal_of_the_inverse_lies_between_its_bounds(name, rank):
    sketch = sketch_problem(KERNELS[name], *digits(), RIDGE, rank, 0).sketch
    truth, slack = exact(name).diagonal, 1e-10 / RIDGE
    assert bool((sketch.least_diagonal <= truth + slack).all())
    assert bool((truth <= sketch.diagonal + slack).all())


@pytest.mark.parametrize("name", KERNELS)
def test_products_and_bounds_are_those_of_the_dense_matrices(name):
    X, y, Xq = digits()
    setting = sketch_problem(KERNELS[name], X, y, Xq, RIDGE, 40, 0)
    sketch, K, eye = setting.sketch, KERNELS[name](X), torch.eye(len(X), dtype=torch.float64)
    U, values = sketch.factor.U, sketch.factor.values
    approximation = (U * values) @ U.T
    Q = torch.linalg.inv(approximation + RIDGE * eye)
    torch.testing.assert_close(sketch.apply(y), Q @ y)
    torch.testing.assert_close(sketch.diagonal, Q.diagonal())
    best = Q.diagonal() ** 2 / (Q @ (K + RIDGE * eye) @ Q).diagonal()
    torch.testing.assert_close(sketch.least_diagonal, best.maximum(1 / (K.diagonal() + RIDGE)))
    tail = float((K - approximation).trace()) / (len(X) - 40)
    assert sketch.tail == pytest.approx(tail)
    with_tail = torch.linalg.inv(approximation + tail * (eye - U @ U.T) + RIDGE * eye)
    torch.testing.assert_close(sketch.apply_with_tail(y), with_tail @ y)


def test_the_lower_bound_is_nearer_than_the_upper_the_more_so_the_better_the_sketch():
    truth, ratios = exact("relu_ntk").diagonal, []
    for rank in (60, 240):
        sketch = sketch_problem(KERNELS["relu_ntk"], *digits(), RIDGE, rank, 0).sketch
        ratios.append(float((truth - sketch.least_diagonal).max()) / float((sketch.diagonal - truth).max()))
    assert ratios[0] < 1 / 4
    assert ratios[1] < ratios[0]


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
@pytest.mark.usefixtures("unchecked")
def test_a_confidence_that_is_none(wrong):
    with pytest.raises(errors.InputError, match="confidence is"):
        nystrom_influence(KERNELS["exponential"], *digits(), RIDGE, confidence=wrong)


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
    monkeypatch.setattr(estimators, "COLUMNS", 130)
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
    monkeypatch.setattr("ridgeformer.solving.sketched.SMALL", 100)
    truth = exact("exponential")
    found = pcg_influence(KERNELS["exponential"], *digits(), RIDGE, rows=ROWS, tol=1e-8)
    for part in ("alpha", "weights", "diagonal", "leave_one_out"):
        assert coverage(getattr(found, part), getattr(truth, part)[ROWS], getattr(found, f"{part}_error")) == 1.0
    assert_equal(found.leave_one_out, truth.leave_one_out[ROWS], 1e-5)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_probed_diagonals_cover_the_truth_as_often_as_they_say(name, confidence):
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
