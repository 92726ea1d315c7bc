"""The counterexamples about width and rank, by hand: nothing of ours but the arrays."""

import numpy as np
import pytest
import torch

from ridgeformer.claims import Verdict
from ridgeformer.claims.checks import Numbers
from ridgeformer.claims.width_rank import effective_dimension, networks
from tests.claims.findings import BY_ID, finding


def test_w1_nothing_carried_costs_everything():
    spectrum = BY_ID["W1"].arrays["diagonal of K"]
    assert max(spectrum) == 100
    assert sum(spectrum[3:]) == pytest.approx(0.111)


def test_w2_a_rank_one_kernel_with_an_error():
    arrays = BY_ID["W2"].arrays
    gap = 1 / (arrays["K"][0][0] + arrays["ridge"]) - 1 / (arrays["Kh"][0][0] + arrays["ridge"])
    assert gap == pytest.approx(1 / 6)


def test_w3_a_query_outside_the_data():
    arrays = BY_ID["W3"].arrays
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


def test_w5_twice_the_tail_is_not_twice_the_error_far_below_the_effective_dimension():
    figures = {figure.name: figure.value for figure in finding("W5").evidence.figures}
    assert figures["K = 10 l I of size 1000, m = 10: effective dimension"] == pytest.approx(10_000 / 11)
    for s, name in ((10, "its relative error"), (20, "the same with the tail doubled")):
        fit = s * np.eye(40) / (s + 1)  # K(K + I)^-1, and of PCA with ten kept
        kept = np.diag([s / (s + 1)] * 10 + [0.0] * 30)
        assert figures[name] == pytest.approx(np.linalg.norm(fit - kept, 2))


def test_w6_two_rows():
    X = np.array(BY_ID["W6"].arrays["X"])
    K, Kh = np.exp(X @ X.T), np.exp(np.outer(X[:, 0], X[:, 0]))
    assert np.linalg.norm(K - Kh, 2) == pytest.approx(15.508, abs=5e-4)
    assert np.linalg.eigvalsh(K)[0] == pytest.approx(7.388, abs=5e-4)
    assert np.linalg.matrix_rank(Kh) == 2


def test_w8_scores_add_up():
    first, second = BY_ID["W8"].arrays.values()
    assert first[0] * second[0] + first[1] * second[1] == 11.0


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_the_search_breaks_what_is_false(name):
    searched = [trial for trial in finding(name).evidence.stated if trial.seed is not None]
    assert searched
    assert all(trial.worst > 2 for trial in searched)


def test_verdicts_as_found():
    verdicts = {name: finding(name).outcome for name in ("W1", "W2", "W7", "W8")}
    assert verdicts == {"W1": Verdict.FALSE, "W2": Verdict.AMENDED, "W7": Verdict.TRUE, "W8": Verdict.AMENDED}


def test_w3_as_written_is_cauchy_schwarz_and_does_not_bound_the_models_error():
    written, used = finding("W3").evidence.stated
    assert written.holds
    assert written.worst > 0.9
    assert used.fails
    assert used.conclusion
    arrays = BY_ID["W3"].arrays
    Phi, phi, S = (np.array(arrays[name]) for name in ("Phi", "phi(x)", "sketch S"))
    k, y = Phi @ phi, np.array(arrays["y"])
    R, Rh = (np.linalg.inv(F @ F.T + arrays["ridge"] * np.eye(1)) for F in (Phi, Phi @ S))
    assert abs(k @ (R - Rh) @ y) <= np.linalg.norm(k) * np.linalg.norm(y) * np.linalg.norm(R - Rh, 2)


def test_w9_the_relative_error_by_square_roots():
    rng = np.random.default_rng(0)
    K, Kh = (F @ F.T for F in rng.standard_normal((2, 4, 4)))
    values, Q = np.linalg.eigh(K + 0.3 * np.eye(4))
    root = (Q * np.sqrt(values)) @ Q.T
    direct = np.linalg.norm(root @ (np.linalg.inv(K + 0.3 * np.eye(4)) - np.linalg.inv(Kh + 0.3 * np.eye(4))) @ root, 2)
    found = effective_dimension.relative_error(*map(torch.from_numpy, (K, Kh)), torch.tensor(0.3, dtype=torch.float64))
    assert float(found) == pytest.approx(direct)
    assert direct <= np.linalg.norm(K - Kh, 2) / 0.3


def test_w10_the_search_runs_conjugate_gradients_on_the_sketch():
    theta = torch.randn(3, networks._w10_total.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, _ = networks._w10_total.sides(Numbers(theta))
    K, h, ridge, y = networks._case(Numbers(theta))
    for case in range(3):
        A, b, alpha = np.diag(h[case].numpy() + float(ridge[case])), y[case].numpy(), np.zeros(4)
        r, p = b, b
        for _ in range(networks.W10_STEPS):
            gamma = r @ r / (p @ A @ p)
            alpha, new = alpha + gamma * p, r - gamma * A @ p
            r, p = new, new + new @ new / (r @ r) * p
        exact = np.linalg.solve(K[case].numpy() + float(ridge[case]) * np.eye(4), b)
        assert float(left[case]) == pytest.approx(np.linalg.norm(alpha - exact))
