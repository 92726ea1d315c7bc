from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeformer.core.errors import InputError, ShapeError, UnknownNameError
from ridgeformer.datasets.synthetic_data import decaying_spectrum, orthonormal, synthetic


def eigenvalues(X: np.ndarray, count: int) -> np.ndarray:
    """Nonzero eigenvalues of XX', from the singular values, which keep the small ones accurate."""
    return np.linalg.svd(X, compute_uv=False)[:count] ** 2


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 30),
    d=st.integers(2, 30),
    log_condition=st.floats(0, 8),
    decay=st.sampled_from(["log", "linear", "power"]),
    rotation=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_the_gram_matrix_has_the_spectrum(n, d, log_condition, decay, rotation, seed) -> None:
    rank = min(n, d)
    wanted = decaying_spectrum(rank, 10**log_condition, decay)
    data = synthetic(n, d, condition_number=10**log_condition, decay=decay, rotation=rotation, seed=seed)
    assert np.allclose(eigenvalues(data.X, rank), wanted, rtol=1e-10, atol=0)
    assert wanted[0] / wanted[-1] == pytest.approx(10**log_condition, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=6), st.integers(6, 12), st.integers(6, 12))
def test_any_spectrum_can_be_given(values: list[float], n: int, d: int) -> None:
    got = np.linalg.svd(synthetic(n, d, spectrum=values).X, compute_uv=False) ** 2
    wanted = sorted(values, reverse=True)
    assert np.allclose(got[: len(values)], wanted, rtol=1e-10, atol=0)
    assert (got[len(values) :] < 1e-25 * wanted[0]).all()


def test_decays_differ_and_end_where_they_should() -> None:
    for decay in ("log", "linear", "power"):
        values = decaying_spectrum(5, 1000.0, decay)
        assert values[0] == 1
        assert values[-1] == 1 / 1000.0
        assert (np.diff(values) < 0).all()
    assert np.allclose(np.diff(decaying_spectrum(5, 1000.0, "linear")), -0.24975)


def test_without_rotation_features_are_axes() -> None:
    X = synthetic(8, 5, condition_number=10.0, rotation=False).X
    assert np.allclose(X.T @ X, np.diag(decaying_spectrum(5, 10.0)), atol=1e-15)
    rotated = synthetic(8, 5, condition_number=10.0).X
    assert np.abs(rotated.T @ rotated - np.diag(np.diag(rotated.T @ rotated))).max() > 0.01


def mass(data: Any, count: int) -> np.ndarray:
    """Squared coefficients of y on the left singular vectors, as shares."""
    U = np.linalg.svd(data.X, full_matrices=False)[0]
    c = (U.T @ data.y) ** 2
    return c[:count] / c.sum()


@pytest.mark.parametrize(
    ("alignment", "shares"),
    [
        ("top", [0.5, 0.5] + [0] * 18),
        ("bottom", [0] * 18 + [0.5, 0.5]),
        ("uniform", [0.05] * 20),
        ([3.0] + [0.0] * 18 + [4.0], [0.36] + [0] * 18 + [0.64]),
    ],
)
def test_the_target_lies_where_it_was_put(alignment: Any, shares: list[float]) -> None:
    data = synthetic(50, 20, alignment=alignment, seed=5)
    assert np.allclose(mass(data, 20), shares, atol=1e-12)
    assert np.mean(data.y**2) == pytest.approx(1.0)


def test_noise_is_in_units_of_the_signal() -> None:
    clean, noisy = synthetic(4000, 3), synthetic(4000, 3, noise=0.5)
    assert np.array_equal(clean.X, noisy.X)
    assert np.std(noisy.y - clean.y) == pytest.approx(0.5, rel=0.05)


def test_one_seed_one_dataset() -> None:
    a, b, c = synthetic(6, 4, noise=0.1), synthetic(6, 4, noise=0.1), synthetic(6, 4, noise=0.1, seed=1)
    assert np.array_equal(a.X, b.X)
    assert np.array_equal(a.y, b.y)
    assert not np.array_equal(a.X, c.X)


def test_no_two_uses_share_a_stream() -> None:
    """With n = d a shared stream would make the left and right factors equal, and X symmetric."""
    X = synthetic(6, 6).X
    assert np.abs(X - X.T).max() > 0.01
    data = synthetic(40, 40, noise=1.0)
    first = np.linalg.svd(data.X)[0]
    assert np.abs(np.corrcoef((data.y - synthetic(40, 40).y), first[:, 0])[0, 1]) < 0.5


def test_several_outputs() -> None:
    data = synthetic(20, 10, outputs=3)
    assert data.y.shape == (20, 3)
    assert np.allclose((data.y**2).mean(0), 1)


def test_factors_are_uniform_not_just_orthonormal() -> None:
    """QR without the sign fix gives R a diagonal of one sign, so the first entry of Q is never positive."""
    signs = [orthonormal(3, 3, np.random.default_rng(seed))[0, 0] > 0 for seed in range(200)]
    assert 70 < sum(signs) < 130


def test_one_row_works() -> None:
    assert eigenvalues(synthetic(1, 3).X, 1)[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n": 0}, InputError, "n is 0; at least 1"),
        ({"d": 0}, InputError, "d is 0"),
        ({"outputs": 0}, InputError, "outputs is 0"),
        ({"spectrum": [1.0], "condition_number": 2.0}, InputError, "give one of them"),
        ({"spectrum": [1.0] * 5}, ShapeError, r"1 to 4 eigenvalues.*min\(n, d\)"),
        ({"spectrum": []}, ShapeError, "1 to 4"),
        ({"spectrum": [1.0, 0.0]}, InputError, "holds 0.0.*leave zeros out"),
        ({"spectrum": [1.0, float("nan")]}, InputError, "holds nan"),
        ({"condition_number": 0.5}, InputError, "0.5; a finite number >= 1"),
        ({"condition_number": float("inf")}, InputError, "finite"),
        ({"d": 1, "condition_number": 2.0}, InputError, "one eigenvalue only"),
        ({"decay": "lin"}, UnknownNameError, "unknown decay 'lin': did you mean 'linear'"),
        ({"alignment": "botom"}, UnknownNameError, "did you mean 'bottom'"),
        ({"alignment": [1.0]}, ShapeError, "one weight for each of 4"),
        ({"alignment": [0.0] * 4}, InputError, "not all of them zero"),
        ({"noise": -1.0}, InputError, "noise is -1"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        synthetic(**({"n": 6, "d": 4} | options))
