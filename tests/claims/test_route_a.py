import numpy as np
import pytest
import torch

from ridgeformer import bounds
from ridgeformer.algorithms import Chebyshev, Richardson
from ridgeformer.claims.batched import eigenvalues_and_kappa
from ridgeformer.claims.checks import Numbers, unit_task
from ridgeformer.claims.route_a import depth, heads, running
from ridgeformer.claims.route_a.running import masked_descent, masks
from ridgeformer.compiler.compile import compile
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential
from ridgeformer.language.roles import AGGREGATOR, QUERY, SUPPORT, Tokens
from ridgeformer.solving import solve
from tests.claims.findings import BY_ID, finding


def cases(inequality, count=50):
    generator = torch_generator(1, inequality.name)
    return torch.randn(count, inequality.size, generator=generator, dtype=torch.float64)


def test_a1_by_hand():
    """The 2 x 2 and 3 x 3 systems of the counterexample, written out."""
    arrays = BY_ID["A1"].arrays
    x, query, ridge = np.array(arrays["supports"]), arrays["query"], arrays["ridge"]
    ratios = []
    for n in (2, 3):
        K, k = np.exp(np.outer(x[:n], x[:n])), np.exp(x[:n] * query)
        head = k / k.sum()
        w = np.linalg.solve(K + ridge * np.eye(n), k)
        ratios.append((head[0] / head[1], w[0] / w[1]))
    (head_two, ridge_two), (head_three, ridge_three) = ratios
    assert head_two == pytest.approx(np.exp(-0.6))
    assert head_three == pytest.approx(np.exp(-0.6))
    assert ridge_two == pytest.approx((np.e + 0.1 - np.exp(0.6)) / (1.1 * np.exp(0.6) - 1))
    assert (round(ridge_two, 4), round(ridge_three, 4)) == (0.9919, 1.2986)


@pytest.mark.parametrize(("supports", "error"), [([0.0, 1.0], 1e-14), ([0.0, 1.0, 1.1], 1e-11)])
def test_a1_one_head_that_carries_powers_does_it_by_prony(supports, error):
    """The head by hand: one softmax average of x^i and x^i y, and ridge regression from that average alone."""
    x, y, ridge, query = np.array(supports), np.array([1.0, -2.0, 0.5])[: len(supports)], 0.1, 0.6
    k, weights = len(x), np.exp(query * x) / np.exp(query * x).sum()
    answer = np.array([weights @ x**i for i in range(2 * k)] + [weights @ (x**i * y) for i in range(k)])
    exact = np.exp(query * x) @ np.linalg.solve(np.exp(np.outer(x, x)) + ridge * np.eye(k), y)
    assert abs(heads.token_wise(answer, k) - exact) < error


def test_a1_the_restricted_form_fails_and_the_unrestricted_one_does_not():
    restricted = finding("A1").evidence.stated
    assert all(trial.fails for trial in restricted)
    assert "carry the targets alone" in BY_ID["A1"].corrected
    assert "Restriction" in BY_ID["A1"].condition


def test_a9_by_hand():
    arrays = BY_ID["A9"].arrays
    K, y = np.array(arrays["K"]), np.array(arrays["y"])
    A = K + arrays["ridge"] * np.eye(2)
    np.testing.assert_allclose(np.linalg.solve(A, y), [3 / 8, -1 / 8])
    np.testing.assert_allclose(np.linalg.solve(np.tril(A), y), [1 / 3, -1 / 9])


def test_a9_a_causal_mask_solves_the_lower_triangle():
    X, y, Xq = unit_task(6, 3, 2, "test")
    alpha, _ = masked_descent(X, y, Xq, masks()["causal"], 4000)
    K = torch.exp(X @ X.T)
    expected = torch.linalg.solve(K.tril() + 0.5 * torch.eye(6, dtype=torch.float64), y)
    torch.testing.assert_close(alpha, expected)


def test_a3_by_hand():
    """K = 1, ridge 1/2: the partial sums are 2, -2, 6, -10, about 2/3."""
    arrays = BY_ID["A3"].arrays
    K, ridge, y = arrays["K"][0][0], arrays["ridge"], arrays["y"]
    sums = np.cumsum([(-K / ridge) ** j * y / ridge for j in range(4)])
    assert sums.tolist() == [2, -2, 6, -10]
    errors = np.abs(sums - y / (K + ridge))
    assert (errors[1:] / errors[:-1]).tolist() == pytest.approx([2, 2, 2])


def test_a3_the_norm_of_an_exponential_kernel_is_at_least_the_number_of_supports():
    rng = np.random.default_rng(0)
    for n in (1, 3, 8):
        X = rng.standard_normal((n, 3))
        logits = X @ X.T
        assert logits.mean() >= -1e-12
        assert np.linalg.norm(np.exp(logits), 2) >= np.exp(logits).sum() / n >= n - 1e-9
    assert np.linalg.norm(np.exp(np.zeros((4, 4))), 2) == pytest.approx(4)


def test_a3_the_search_tries_the_partial_sums_of_the_series():
    theta = cases(depth._a3_rate)
    left, right = depth._a3_rate.sides(Numbers(theta))
    take = depth.Numbers(theta)
    F = take.matrix(4, 4)
    ratio, y = take.between(0.05, 0.999), take.vector(4)
    for case in range(10):
        K = (F[case] @ F[case].T).numpy()
        ridge = np.linalg.norm(K, 2) / float(ratio[case])
        exact = np.linalg.solve(K + ridge * np.eye(4), y[case].numpy())
        series = sum(np.linalg.matrix_power(-K / ridge, j) for j in range(3)) @ y[case].numpy() / ridge
        assert float(left[case]) == pytest.approx(np.linalg.norm(series - exact))
        factor = bounds.neumann_error_factor(np.linalg.norm(K, 2), ridge, 3)
        assert float(right[case]) == pytest.approx(factor * np.linalg.norm(exact))


def test_a5_the_counts_are_those_of_solve():
    """The recursions eigenvector by eigenvector against the methods themselves, targets equal along each."""
    for kappa in (1e1, 1e2):
        eigenvalues = torch.from_numpy(np.geomspace(1.0, kappa, 200))
        exact = 1 / eigenvalues
        X = torch.diag((eigenvalues - 1).clamp_min(0).sqrt())

        def near(step, alpha, residual, exact=exact):
            return float((alpha[:, 0] - exact).norm()) <= 1e-6 * float(exact.norm())

        def steps(algorithm, X=X, exact=exact, near=near):
            ones = torch.ones_like(exact)
            return solve(DotProduct(), X, ones, 1.0, algorithm=algorithm, tol=1e-15, callback=near).steps

        assert depth._gradient_descent_steps(kappa) == steps(Richardson(step_size=2 / (1.0 + kappa)))
        assert depth._chebyshev_steps(kappa) == steps(Chebyshev(spectrum=(1.0, kappa)))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("A5 descent", bounds.richardson_error_factor), ("A5 Chebyshev", bounds.chebyshev_error_factor)],
)
def test_a5_the_search_is_of_the_projects_own_bounds(name, factor):
    theta = cases(depth._a5[name])
    take = Numbers(theta)
    _, kappa = eigenvalues_and_kappa(take, depth.A5_SIZE)
    exact = take.vector(depth.A5_SIZE)
    _, right = depth._a5[name].sides(Numbers(theta))
    expected = [factor(float(k), depth.A5_STEPS) * float(e.norm()) for k, e in zip(kappa, exact, strict=True)]
    assert right.tolist() == pytest.approx(expected)


def test_a6_the_rate_is_an_eigenvalue_bound():
    """No eigenvalue of I - D^-1/2 A D^-1/2 is negative or above the rate if e^c >= l; below, one can be negative."""
    rng = np.random.default_rng(0)
    for anchor in (0.3, 1.0, 5.0):
        X = rng.standard_normal((6, 2))
        K, ridge = np.exp(X @ X.T), 0.3
        D = K.sum(1) + anchor
        values = np.linalg.eigvalsh(np.eye(6) - (K + ridge * np.eye(6)) / np.sqrt(np.outer(D, D)))
        assert values[0] >= -1e-12
        assert values[-1] <= 1 - ridge / D.max() + 1e-12
    K, ridge = np.ones((2, 2)), 10.0  # two supports at the origin, e^c = 0.1: D = 2.1, A = (11, 1; 1, 11)
    assert np.linalg.eigvalsh(np.eye(2) - (K + ridge * np.eye(2)) / 2.1)[0] < -1


def test_a6_the_search_takes_the_step_of_the_network():
    theta = cases(depth._a6_rate, 3)
    left, right = depth._a6_rate.sides(Numbers(theta))
    take = depth.Numbers(theta)
    ridge = take.positive()
    anchor, X, error = ridge * (1 + take.positive()), 1.5 * torch.tanh(take.matrix(4, 2)), take.vector(4)
    for case in range(3):
        K, small = torch.exp(X[case] @ X[case].T), float(ridge[case])
        A, D = K + small * torch.eye(4, dtype=torch.float64), K.sum(1) + anchor[case]
        # from alpha = 0 the error is -alpha*, so the targets that start it are -A error
        sink = float(anchor[case].log())
        model = compile(Exponential(1.0), Richardson(steps=1), attention="vanilla", features=2, ridge=small, sink=sink)
        alpha = model.trace(X[case], -A @ error[case], X[case]).alpha[0, :, 0]
        measured = (D * (alpha + error[case]).square()).sum().sqrt()
        assert float(left[case]) == pytest.approx(float(measured))
        assert float(right[case]) == pytest.approx(
            float((1 - small / D.max()) * (D * error[case].square()).sum().sqrt())
        )


@pytest.mark.parametrize(("mask", "leaks"), [(running.PUBLISHED, True), (running.OURS, False)])
def test_a7_who_reaches_whom_by_counting_paths(mask, leaks):
    """A support reads the aggregator, the aggregator the query: two layers, one path."""
    tokens = Tokens({SUPPORT: 2, AGGREGATOR: 1, QUERY: 1})
    reads = mask.matrix(tokens).numpy().astype(int)
    once, twice = reads, reads @ reads
    assert not once[tokens.rows(SUPPORT), tokens.rows(QUERY)].any()
    assert twice[tokens.rows(SUPPORT), tokens.rows(QUERY)].any() == leaks
