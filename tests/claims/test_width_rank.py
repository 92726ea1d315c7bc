"""The counterexamples about width and rank, by hand: nothing of ours but the arrays."""

import numpy as np
import pytest
from findings import BY_ID, finding

from ridgeformer.claims import Verdict


def test_w1_nothing_carried_costs_everything():
    spectrum = BY_ID["W1"].counterexample.arrays["diagonal of K"]
    assert max(spectrum) == 100
    assert sum(spectrum[3:]) == pytest.approx(0.111)


def test_w2_a_rank_one_kernel_with_an_error():
    arrays = BY_ID["W2"].counterexample.arrays
    gap = 1 / (arrays["K"][0][0] + arrays["ridge"]) - 1 / (arrays["Kh"][0][0] + arrays["ridge"])
    assert gap == pytest.approx(1 / 6)


def test_w3_a_query_outside_the_data():
    arrays = BY_ID["W3"].counterexample.arrays
    Phi, phi, S = (np.array(arrays[name]) for name in ("Phi", "phi(x)", "sketch S"))
    assert (Phi @ phi)[0] == 0.0  # the stated bound is zero
    narrow = ((Phi @ S) @ (S.T @ phi))[0] / ((Phi @ S @ S.T @ Phi.T)[0, 0] + arrays["ridge"])
    assert narrow == pytest.approx(1 / 3, abs=1e-4)


@pytest.mark.parametrize("m", [1, 4, 20])
def test_w4_any_direction_dropped_loses_its_share(m):
    ridge, generator = 0.5, np.random.default_rng(m)
    K = m * ridge * np.eye(m + 1)
    assert np.trace(K @ np.linalg.inv(K + ridge * np.eye(m + 1))) == pytest.approx(m)
    kept = np.linalg.qr(generator.normal(size=(m + 1, m)))[0]
    Kh = m * ridge * kept @ kept.T
    fit = lambda M: M @ np.linalg.inv(M + ridge * np.eye(m + 1))  # noqa: E731
    assert np.linalg.norm(fit(K) - fit(Kh), 2) == pytest.approx(m / (m + 1))


def test_w5_twice_the_tail_is_not_twice_the_error():
    assert 20 / 21 < 2 * 10 / 11
    assert finding("W5").evidence.figures[0].value == pytest.approx(10 / 11)


def test_w6_two_rows():
    X = np.array(BY_ID["W6"].counterexample.arrays["X"])
    K, Kh = np.exp(X @ X.T), np.exp(np.outer(X[:, 0], X[:, 0]))
    assert np.linalg.norm(K - Kh, 2) == pytest.approx(15.508, abs=5e-4)
    assert np.linalg.eigvalsh(K)[0] == pytest.approx(7.388, abs=5e-4)
    assert np.linalg.matrix_rank(Kh) == 2


def test_w8_scores_add_up():
    first, second = BY_ID["W8"].counterexample.arrays.values()
    assert first[0] * second[0] + first[1] * second[1] == 11.0


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_the_search_breaks_what_is_false(name):
    searched = [trial for trial in finding(name).evidence.stated if trial.seed is not None]
    assert searched
    assert all(trial.worst > 2 for trial in searched)


def test_verdicts_as_found():
    verdicts = {name: finding(name).outcome for name in ("W1", "W2", "W7", "W8")}
    assert verdicts == {"W1": Verdict.FALSE, "W2": Verdict.AMENDED, "W7": Verdict.TRUE, "W8": Verdict.AMENDED}
