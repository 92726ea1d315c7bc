from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ridgeformer import bounds
from ridgeformer.claims.checks import Numbers
from ridgeformer.claims.route_b import construction, rates
from ridgeformer.claims.route_b.construction import inner_product
from ridgeformer.core.seeds import torch_generator
from tests.claims.findings import BY_ID


def cases(inequality, count=20):
    generator = torch_generator(1, inequality.name)
    return torch.randn(count, inequality.size, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_b2_the_searches_are_of_the_projects_own_bounds(steps):
    rate, prediction = rates.RATES[steps - 1], rates.RATES[steps + 2]
    theta = cases(rate)
    left, right = rate.sides(Numbers(theta))
    off, allowed = prediction.sides(Numbers(theta))
    take = Numbers(theta)
    eigenvalues, kappas = rates.eigenvalues_and_kappa(take, rates.B2_SIZE)
    exact, k = take.vector(rates.B2_SIZE), take.vector(rates.B2_SIZE)
    for case in range(len(theta)):
        A, kappa = np.diag(eigenvalues[case].numpy()), float(kappas[case])
        assert kappa == pytest.approx(np.linalg.cond(A))
        error = _cg(A, A @ exact[case].numpy(), steps) - exact[case].numpy()
        size = np.sqrt(exact[case].numpy() @ A @ exact[case].numpy())
        energy = np.sqrt(k[case].numpy() @ np.linalg.solve(A, k[case].numpy()))
        assert float(left[case]) == pytest.approx(np.sqrt(error @ A @ error), rel=1e-6)
        assert float(off[case]) == pytest.approx(abs(k[case].numpy() @ error), rel=1e-6)
        assert float(right[case]) == pytest.approx(bounds.cg_error_factor(kappa, steps) * size)
        assert float(allowed[case]) == pytest.approx(float(bounds.cg_prediction_bound(kappa, steps, energy, size)))


def _cg(A, b, steps, M=None):
    """Conjugate gradients as a textbook prints them, with a diagonal preconditioner."""
    M = np.ones(len(b)) if M is None else M
    alpha, r, z = np.zeros_like(b), b, b / M
    p = z
    for _ in range(steps):
        gamma = (r @ z) / (p @ A @ p)
        alpha, new = alpha + gamma * p, r - gamma * A @ p
        z, old = new / M, r @ z
        r, p = new, z + (new @ z) / old * p
    return alpha


def test_b2_the_posterior_searches_are_of_the_projects_own_bounds():
    theta = cases(rates._posterior["posterior solution"])
    answer = rates._Answer.of(Numbers(theta))
    for case in range(len(theta)):
        r, ridge = float(answer.residual[case]), float(answer.ridge[case])
        energy, own = float(answer.energy[case]), float(answer.own[case])
        expected = (
            bounds.solution_error_bound(r, ridge),
            bounds.prediction_error_from_query_norm(r, ridge, float(answer.k[case].norm())),
            bounds.prediction_error_from_energy(r, ridge, energy),
            bounds.prediction_error_from_diagonal(r, ridge, own),
            bounds.prediction_error_from_variance(r, ridge, energy, own),
        )
        searched = [float(inequality.sides(Numbers(theta))[1][case]) for inequality in rates._posterior.values()]
        assert searched == pytest.approx([float(bound) for bound in expected])


def test_b2_the_posterior_answers_come_from_a_kernel():
    """The Gram matrix of supports and query is positive semidefinite, which the last two bounds need."""
    answer = rates._Answer.of(Numbers(cases(rates._posterior["posterior solution"])))
    K = torch.diag_embed(answer.A - answer.ridge[:, None])
    gram = torch.cat(
        [torch.cat([K, answer.k[..., None]], -1), torch.cat([answer.k, answer.own[:, None]], -1)[:, None]], 1
    )
    values = torch.linalg.eigvalsh(gram)
    assert bool((values[:, 0] >= -1e-12 * values[:, -1]).all())


def test_b3_the_search_is_of_the_projects_own_bound():
    residual, drifted = rates._b3["B3 residual"], rates._b3["B3 gap"]
    theta = cases(residual)
    left, right = residual.sides(Numbers(theta))
    gap, allowed = drifted.sides(Numbers(theta))
    take = Numbers(theta)
    eigenvalues, _ = rates.eigenvalues_and_kappa(take, rates.B3_SIZE)
    b, eps = take.vector(rates.B3_SIZE).numpy(), take.between(1e-4, 0.3)
    directions = take.matrix(rates.B3_STEPS, rates.B3_SIZE).numpy()
    for case in range(len(theta)):
        A, size = eigenvalues[case].numpy(), float(eigenvalues[case].max())
        alpha, r = np.zeros_like(b[case]), b[case].copy()
        p, lengths, norms, drift = r.copy(), [], [], 0.0
        for direction in directions[case]:
            error = float(eps[case]) * size * np.linalg.norm(p) * direction / np.linalg.norm(direction)
            q = A * p + error
            gamma = (r @ r) / (p @ q)
            lengths, norms = [*lengths, gamma], [*norms, np.linalg.norm(p)]
            alpha, new, drift = alpha + gamma * p, r - gamma * q, drift + gamma * error
            p, r = new + (new @ new) / (r @ r) * p, new
        true = b[case] - A * alpha
        np.testing.assert_allclose(true, r + drift, atol=1e-9 * np.linalg.norm(size * np.array(lengths) * norms))
        assert float(left[case]) == pytest.approx(np.linalg.norm(true), rel=1e-6)
        assert float(gap[case]) == pytest.approx(np.linalg.norm(drift), rel=1e-6)
        travelled = bounds.residual_gap_bound(float(eps[case]), size, lengths, norms)
        assert float(allowed[case]) == pytest.approx(float(travelled), rel=1e-9)
        assert float(right[case]) == pytest.approx(float(travelled) + np.linalg.norm(r), rel=1e-9)


def test_b4_by_hand():
    """Rows 1, 2, 3 with a ridge of 1: two distinct eigenvalues, and three after scaling by 2, 5, 10."""
    arrays = BY_ID["B4"].arrays
    Phi, y = np.array(arrays["Phi"]), np.array(arrays["y"])
    A = Phi @ Phi.T + arrays["ridge"] * np.eye(3)
    D = np.diag(A)
    scaled = np.linalg.eigvalsh(A / np.sqrt(np.outer(D, D)))
    assert D.tolist() == [2, 5, 10]
    assert np.linalg.eigvalsh(A) == pytest.approx([1, 1, 15])
    assert np.sort(1 - np.roots([100, 0, -157, 72]).real) == pytest.approx(scaled)
    assert scaled.round(4).tolist() == [0.1494, 0.4117, 2.4389]
    assert round(scaled[-1] / scaled[0], 2) == 16.33
    exact = np.linalg.solve(A, y)
    assert _cg(A, y, 2) == pytest.approx(exact, abs=1e-12)
    assert np.linalg.norm(_cg(A, y, 2, D) - exact) > 0.01 * np.linalg.norm(exact)
    assert _cg(A, y, 3, D) == pytest.approx(exact, abs=1e-12)


def test_b4_the_search_preconditions_as_the_textbook_does():
    generator = torch_generator(0, "b4")
    F, exact = (torch.randn(10, 4, size, generator=generator, dtype=torch.float64) for size in (4, 1))
    A, exact = F @ F.mT + torch.eye(4, dtype=torch.float64), exact[..., 0]
    M = 0.5 + torch.rand(10, 4, generator=generator, dtype=torch.float64)
    ours = rates._preconditioned(A, M, exact)
    for a, m, e, alpha in zip(A.numpy(), M.numpy(), exact.numpy(), ours.numpy(), strict=True):
        np.testing.assert_allclose(alpha, _cg(a, a @ e, rates.B4_STEPS, m), rtol=1e-6, atol=1e-9)


def test_b5_an_aggregator_gathers_and_broadcasts():
    left, right = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([4.0, 5.0, 6.0]).double()
    assert inner_product(left, right).tolist() == [32.0, 32.0, 32.0]


def test_b6_a_shared_column_would_be_seen(monkeypatch):
    network = construction.NETWORKS[0]
    layout = construction.compile(*network, features=6, ridge=0.5).layout
    assert construction._shared(*network)[0] == 0
    moved = replace(layout, columns={**layout.columns, "s": layout.columns["p"]})
    monkeypatch.setattr(construction, "compile", lambda *_, **__: SimpleNamespace(layout=moved))
    assert construction._shared(*network)[0] == 1
