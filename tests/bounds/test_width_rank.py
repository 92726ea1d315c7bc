import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.bounds import (
    in_sample_bound,
    pca_expected_squared_error,
    pca_prediction_bound,
    pca_prediction_factor,
    pca_relative_error,
    pca_saturation,
    simple_prediction_bound,
    sketch_error_floor,
    tail_mass,
)
from ridgeformer.core.errors import InputError, ShapeError

from .spectra import cases, norm, problems, resolvent

STEEP = np.array([100.0, 10.0, 1.0, 0.1, 0.01, 0.001])


@cases(260)
@given(problems(), st.integers(0, 8))
def test_no_sketch_beats_the_floors(problem, width):
    differences = problem.kernel - problem.sketches(width)
    slack = 1e-12 * problem.spectrum.max()
    assert (norm(differences) >= sketch_error_floor(problem.spectrum, width) - slack).all()
    nuclear = np.linalg.norm(differences, "nuc", axis=(1, 2))
    assert (nuclear >= tail_mass(problem.spectrum, width) - 10 * slack).all()


@cases(60)
@given(problems())
def test_the_top_eigendirections_attain_the_floors(problem):
    for width in range(problem.n + 2):
        difference = problem.kernel - problem.top(width)
        slack = 1e-12 * problem.spectrum.max()
        assert sketch_error_floor(problem.spectrum, width) == pytest.approx(norm(difference), rel=1e-12, abs=slack)
        nuclear = np.linalg.norm(difference, "nuc")
        assert tail_mass(problem.spectrum, width) == pytest.approx(nuclear, rel=1e-12, abs=10 * slack)


@pytest.mark.parametrize("kept", [[], [3, 4, 5]], ids=["nothing", "bottom three"])
def test_a_bad_map_errs_by_100_against_a_tail_of_0_111(kept):
    sketch = np.diag(np.where(np.isin(np.arange(6), kept), STEEP, 0.0))
    assert norm(np.diag(STEEP) - sketch) == 100.0
    assert tail_mass(STEEP, 3) == pytest.approx(0.111, rel=1e-12)
    assert sketch_error_floor(STEEP, 3) == 0.1


@pytest.mark.parametrize("kind", ["gaussian", "haar", "haar rescaled"])
def test_random_sketches_of_a_rank_one_kernel_exceed_its_empty_tail_in_every_draw(kind):
    rng = np.random.default_rng(0)
    violations = 0
    for _ in range(200):
        n, p, width = 12, 10, 3
        features = np.outer(rng.standard_normal(n), rng.standard_normal(p))
        kernel = features @ features.T
        sketch = rng.standard_normal((p, width)) / np.sqrt(width)
        if kind != "gaussian":
            sketch = np.linalg.qr(sketch)[0] * (np.sqrt(p / width) if kind == "haar rescaled" else 1.0)
        error = norm(kernel - features @ sketch @ sketch.T @ features.T)
        spectrum = np.array([np.trace(kernel)] + [0.0] * (n - 1))
        violations += bool(error > tail_mass(spectrum, width) + 1e-3 * spectrum[0])
    assert violations == 200


def test_on_flat_spectra_random_sketches_obey_the_false_claim_by_luck():
    rng = np.random.default_rng(0)
    n, width = 40, 10
    for _ in range(50):
        sketch = np.linalg.qr(rng.standard_normal((n, width)))[0]
        assert norm(np.eye(n) - sketch @ sketch.T) <= tail_mass(np.ones(n), width)


def _prediction_gaps(problem, width, queries, targets):
    """f - fh for query features in the coordinates of `problem.root`, (queries, outputs)."""
    kept = np.arange(queries.shape[1]) < width
    root = np.zeros((problem.n, queries.shape[1]))
    root[:, : problem.n] = problem.root
    full = queries @ root.T @ resolvent(problem.kernel, problem.ridge) @ targets
    cut = (queries * kept) @ (root * kept).T @ resolvent(problem.top(width), problem.ridge) @ targets
    return np.abs(full - cut)


@cases(120)
@given(problems(max_log_scale=40), st.integers(0, 8), st.integers(0, 2))
def test_prediction_bounds_hold_at_every_query(problem, width, outside):
    n, rng = problem.n, problem.rng
    queries = rng.standard_normal((6, n + outside)) * 10.0 ** rng.uniform(-3, 3, (6, n + outside))
    targets = rng.standard_normal((n, 4)) * 10.0 ** rng.uniform(-3, 3, 4)
    gaps = _prediction_gaps(problem, width, queries, targets)
    query_norms = np.linalg.norm(queries[:, width:], axis=1) if width < n + outside else np.zeros(6)
    target_norms = np.linalg.norm(problem.basis[:, width:].T @ targets, axis=0)
    sharp = pca_prediction_bound(problem.spectrum, width, problem.ridge, query_norms, target_norms)
    simple = simple_prediction_bound(problem.ridge, query_norms, np.linalg.norm(targets, axis=0))
    scale = np.multiply.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(targets, axis=0))
    slack = 1e-9 * scale / np.sqrt(problem.ridge)
    assert sharp.shape == simple.shape == (6, 4)
    assert (gaps <= sharp + slack).all()
    assert (sharp <= simple * (1 + 1e-12)).all()


@cases(60)
@given(problems(max_log_scale=40))
def test_the_sharp_prediction_bound_is_attained(problem):
    for width in range(problem.n):
        tail = problem.spectrum[width:]
        worst = width + int(np.argmax(np.sqrt(tail) / (tail + problem.ridge)))
        query, target = np.eye(problem.n)[[worst]], problem.basis[:, [worst]]
        gap = _prediction_gaps(problem, width, query, target)
        bound = pca_prediction_bound(problem.spectrum, width, problem.ridge, [1.0], [1.0])
        assert gap == pytest.approx(bound, rel=1e-8, abs=1e-9 / np.sqrt(problem.ridge))


@cases(60)
@given(st.floats(1e-3, 1e3))
def test_the_simple_prediction_bound_is_attained_where_an_eigenvalue_equals_the_ridge(ridge):
    factor = pca_prediction_factor([7 * ridge, 3 * ridge, ridge], 1, ridge)
    assert factor == pytest.approx(float(simple_prediction_bound(ridge, 1.0, 1.0)), rel=1e-14)
    assert factor == pytest.approx(0.5 / np.sqrt(ridge), rel=1e-14)


def test_the_worst_dropped_direction_need_not_be_the_first():
    assert pca_prediction_factor([100.0, 9.0, 1.0], 1, 1.0) == 0.5
    assert pca_prediction_factor([100.0, 9.0, 1.0], 2, 1.0) == 0.5
    assert np.sqrt(9.0) / (9.0 + 1.0) == pytest.approx(0.3)


def test_the_bound_that_forgets_to_sketch_the_query_fails_in_many_gaussian_draws():
    rng = np.random.default_rng(0)
    n, p, width, ridge = 6, 3, 1, 20.0
    failures = 0
    for _ in range(2000):
        features, query, y = rng.standard_normal((n, p)), rng.standard_normal(p), rng.standard_normal(n)
        top = np.linalg.svd(features)[2][:width].T
        cut = features @ top
        kernel_row, cut_row = features @ query, cut @ (top.T @ query)
        inverse, cut_inverse = resolvent(features @ features.T, ridge), resolvent(cut @ cut.T, ridge)
        gap = abs(kernel_row @ inverse @ y - cut_row @ cut_inverse @ y)
        as_stated = np.linalg.norm(kernel_row) * np.linalg.norm(y) * norm(inverse - cut_inverse)
        failures += bool(gap > as_stated)
        missed = np.linalg.norm(query - top @ (top.T @ query))
        assert gap <= missed * np.linalg.norm(y) / (2 * np.sqrt(ridge))
    assert 600 < failures < 1000


@cases(120)
@given(problems(), st.integers(0, 8))
def test_the_in_sample_bound_holds_for_every_sketch_and_target(problem, width):
    sketches = problem.sketches(width)
    targets = problem.rng.standard_normal((problem.n, 3))
    target_norms = np.linalg.norm(targets, axis=0)
    fit = problem.kernel @ resolvent(problem.kernel, problem.ridge) @ targets
    for sketch, difference in zip(sketches, norm(problem.kernel - sketches), strict=True):
        gaps = np.linalg.norm(fit - sketch @ resolvent(sketch, problem.ridge) @ targets, axis=0)
        assert (gaps <= in_sample_bound(difference, problem.ridge, target_norms) + 1e-9 * target_norms).all()


@cases(60)
@given(problems())
def test_the_in_sample_bound_is_attained_by_the_first_dropped_eigenvector(problem):
    fit = problem.kernel @ resolvent(problem.kernel, problem.ridge)
    for width in range(problem.n):
        target, cut = problem.basis[:, width], problem.top(width)
        gap = np.linalg.norm((fit - cut @ resolvent(cut, problem.ridge)) @ target)
        bound = in_sample_bound(sketch_error_floor(problem.spectrum, width), problem.ridge, 1.0)
        assert gap == pytest.approx(float(bound), abs=1e-9)


@cases(200)
@given(problems())
def test_the_expected_squared_error_is_the_frobenius_norm_of_the_gap(problem):
    fit = problem.kernel @ resolvent(problem.kernel, problem.ridge)
    for width in range(problem.n + 2):
        cut = problem.top(width)
        exact = np.square(fit - cut @ resolvent(cut, problem.ridge)).sum()
        assert pca_expected_squared_error(problem.spectrum, width, problem.ridge) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("decay", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("width", [0, 2, 6])
def test_the_expected_squared_error_matches_monte_carlo(decay, width):
    spectrum, ridge, draws = np.arange(1.0, 11.0) ** -decay, 0.2, 40_000
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    kernel, cut = (basis * spectrum) @ basis.T, (basis[:, :width] * spectrum[:width]) @ basis[:, :width].T
    gap = kernel @ resolvent(kernel, ridge) - cut @ resolvent(cut, ridge)
    errors = np.square(gap @ rng.standard_normal((10, draws))).sum(axis=0)
    standard_error = errors.std() / np.sqrt(draws)
    expected = pca_expected_squared_error(spectrum, width, ridge)
    assert abs(errors.mean() - expected) < 4 * standard_error
    assert standard_error < 0.02 * expected


@cases(100)
@given(problems(max_n=20, max_log_scale=140))
def test_the_error_saturates_below_one_however_heavy_the_tail(problem):
    ceiling = pca_saturation(problem.spectrum, problem.ridge)
    assert ceiling < 1
    for width in range(problem.n + 2):
        assert pca_relative_error(problem.spectrum, width, problem.ridge) <= ceiling
    assert pca_relative_error(problem.spectrum, 0, problem.ridge) == ceiling


def test_the_error_does_not_follow_the_tail_mass():
    light, heavy = np.ones(4), np.ones(400)
    assert tail_mass(heavy, 2) == 199 * tail_mass(light, 2)
    assert pca_relative_error(heavy, 2, 0.1) == pca_relative_error(light, 2, 0.1)


def test_targets_in_the_top_eigenspace_lose_nothing():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    spectrum = np.arange(8.0, 0.0, -1.0)
    kernel, cut = (basis * spectrum) @ basis.T, (basis[:, :3] * spectrum[:3]) @ basis[:, :3].T
    target = basis[:, :3] @ rng.standard_normal(3)
    gap = kernel @ resolvent(kernel, 0.1) @ target - cut @ resolvent(cut, 0.1) @ target
    assert np.linalg.norm(gap) < 1e-13
    assert float(pca_prediction_bound(spectrum, 3, 0.1, 1.0, 0.0)) == 0.0


def test_everything_is_zero_from_the_rank_on():
    for width in (2, 3, 9):
        assert sketch_error_floor([2.0, 1.0, 0.0], width) == 0.0
        assert tail_mass([2.0, 1.0, 0.0], width) == 0.0
        assert pca_prediction_factor([2.0, 1.0, 0.0], width, 0.1) == 0.0
        assert pca_expected_squared_error([2.0, 1.0, 0.0], width, 0.1) == 0.0


def test_one_number_adds_no_axis():
    assert pca_prediction_bound([1.0], 0, 1.0, 2.0, 3.0).shape == ()
    assert pca_prediction_bound([1.0], 0, 1.0, [2.0], 3.0).shape == (1,)
    assert simple_prediction_bound(1.0, 2.0, [3.0, 4.0]).shape == (2,)
    assert in_sample_bound(1.0, 1.0, [3.0, 4.0]).shape == (2,)


def test_errors_name_the_argument():
    with pytest.raises(ShapeError, match=r"query_residual_norms has shape \(2, 2\).*take the norm of each column"):
        pca_prediction_bound([1.0], 0, 1.0, np.eye(2), 1.0)
    with pytest.raises(InputError, match="target_residual_norms holds -1; numbers >= 0"):
        pca_prediction_bound([1.0], 0, 1.0, 1.0, -1.0)
    with pytest.raises(InputError, match="target_norms holds -1"):
        simple_prediction_bound(1.0, 1.0, [1.0, -1.0])
    with pytest.raises(InputError, match=r"difference is -0\.5"):
        in_sample_bound(-0.5, 1.0, 1.0)
    with pytest.raises(InputError, match="ridge is -1"):
        pca_expected_squared_error([1.0], 0, -1.0)
    with pytest.raises(InputError, match="spectrum is negative"):
        tail_mass([1.0, -1.0], 0)
