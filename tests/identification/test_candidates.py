"""Candidates against naive oracles: each family's batched predictions are those of a plain loop or a library."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso, Ridge
from sklearn.neighbors import KNeighborsRegressor

import ridgeformer as rf
from ridgeformer.identification import FAMILIES, separating, standard
from ridgeformer.identification.candidates import Member, indicators
from ridgeformer.identification.fitting import fit
from ridgeformer.identification.problems import Problems
from ridgeformer.identification.verdict import judge, name_of


@pytest.fixture(scope="module")
def problems():
    return Problems(separating(3, tasks=12, seed=4))


def by_task(problems, oracle):
    return torch.stack([
        torch.as_tensor(oracle(*(part.numpy() for part in task)), dtype=torch.float64)
        for group in problems.groups for task in zip(group.X, group.y, group.Xq, strict=True)
    ])  # fmt: skip


def predictions(name, theta, member, problems):
    return FAMILIES[name].predict(
        torch.tensor([theta], dtype=torch.float64).reshape(1, -1), *indicators([member]), problems
    )[0]


def descent(X, y, Xq, size, ridge, steps, precondition=None):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        gradient = X.T @ (X @ w - y) + ridge * w
        w = w - size * (gradient if precondition is None else precondition @ gradient)
    return Xq @ w


def test_at_least_25_families_with_different_names():
    assert len(FAMILIES) >= 25
    assert len({family.title for family in FAMILIES.values()}) == len(FAMILIES)
    assert all(general in FAMILIES for family in FAMILIES.values() for general in family.within)


def test_gradient_descent_is_the_plain_loop(problems):
    scale = float(problems.scale(torch.tensor(False)))
    found = predictions("gd", [np.log(0.8), 0.01], Member(4), problems)
    expected = by_task(problems, lambda X, y, Xq: descent(X, y, Xq, 0.8 / scale, 0.01 * scale, 4))
    assert torch.allclose(found, expected)


def test_conjugate_gradients_are_those_of_the_compiled_model(problems):
    model = rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=2), features=3, ridge=0.7)
    scale = float(problems.scale(torch.tensor(False)))
    expected = torch.cat([model(group.X, group.y, group.Xq) for group in problems.groups])
    assert torch.allclose(predictions("cg", [np.log(0.7 / scale)], Member(2), problems), expected)


@pytest.mark.parametrize("name", ["chebyshev", "heavy_ball", "nesterov"])
def test_accelerated_methods_are_those_of_the_compiled_model(problems, name):
    kind = {"chebyshev": rf.Chebyshev, "heavy_ball": rf.HeavyBall, "nesterov": rf.Nesterov}[name]
    scale, high, low = float(problems.scale(torch.tensor(False))), 120.0, 10.0
    eta, q = {"chebyshev": (2 / high, low / high),
              "heavy_ball": (4 / (low**0.5 + high**0.5) ** 2, ((high**0.5 - low**0.5) / (high**0.5 + low**0.5)) ** 2),
              "nesterov": (1 / high, (high**0.5 - low**0.5) / (high**0.5 + low**0.5))}[name]  # fmt: skip
    theta = [np.log(eta * scale), np.log(q / (1 - q)), 0.3 / scale]
    model = rf.compile(rf.DotProduct(), kind(steps=4, spectrum=(low, high)), features=3, ridge=0.3)
    expected = torch.cat([model(group.X, group.y, group.Xq) for group in problems.groups])
    assert torch.allclose(predictions(name, theta, Member(4), problems), expected)


def test_ridge_lasso_and_neighbours_are_those_of_scikit_learn(problems):
    scale = float(problems.scale(torch.tensor(False)))
    plain = by_task(problems, lambda X, y, Xq: Ridge(alpha=0.1 * scale, fit_intercept=False).fit(X, y).predict(Xq))
    assert torch.allclose(predictions("ridge", [np.log(0.1)], Member(), problems), plain)
    shifted = by_task(problems, lambda X, y, Xq: Ridge(alpha=0.5).fit(X, y).predict(Xq))
    centred = float(problems.centred.scale(torch.tensor(False)))
    assert torch.allclose(predictions("ridge_intercept", [np.log(0.5 / centred)], Member(), problems), shifted)
    sparse = by_task(problems, lambda X, y, Xq: Lasso(alpha=0.1, fit_intercept=False, tol=1e-10).fit(X, y).predict(Xq))
    assert torch.allclose(predictions("lasso", [np.log(0.1)], Member(), problems), sparse, atol=1e-4)
    near = by_task(problems, lambda X, y, Xq: KNeighborsRegressor(3).fit(X, y).predict(Xq))
    assert torch.allclose(predictions("knn", [], Member(3), problems), near)


def test_sparse_average_is_the_sum_over_subsets(problems):
    noise, slab, odds = 0.2, 0.5, -0.4

    def oracle(X, y, Xq):
        d, found, total = X.shape[1], 0.0, 0.0
        for bits in range(2**d):
            kept = [j for j in range(d) if bits >> j & 1]
            C = noise * np.eye(len(X)) + slab * X[:, kept] @ X[:, kept].T
            evidence = np.exp(-0.5 * y @ np.linalg.solve(C, y) - 0.5 * np.linalg.slogdet(C)[1] + odds * len(kept))
            found = found + evidence * (slab * Xq[:, kept] @ X[:, kept].T @ np.linalg.solve(C, y))
            total += evidence
        return found / total

    theta = [np.log(noise), np.log(slab), odds]
    assert torch.allclose(predictions("sparse_average", theta, Member(), problems), by_task(problems, oracle))


def test_attention_only_descent_is_that_of_the_compiled_model(problems):
    model = rf.compile(rf.Exponential(6.0), rf.Richardson(steps=3), features=3, ridge=0.4, attention="vanilla")
    expected = torch.cat([model(group.X, group.y, group.Xq) for group in problems.groups])
    theta = [np.log(6.0 / float(problems.mean_square)), np.log(0.4)]
    assert torch.allclose(predictions("attention_only_gd", theta, Member(3), problems), expected)


def test_covariance_preconditioned_descent_is_the_plain_loop():
    problems = Problems(standard(3, tasks=8))
    found = predictions("gd_covariance", [0.3, 0.9, 0.0, 0.0], Member(2, mean=True), problems)

    def oracle(X, y, Xq):
        w = np.zeros(3)
        for size in (0.3, 0.9):
            w = w + size * X.T @ (y - X @ w) / len(X)
        return Xq @ w

    assert torch.allclose(found, by_task(problems, oracle))


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_finds_itself(name):
    """Parameters drawn near a start are recovered to a function that is the same on tasks it was not fitted on."""
    first, second = standard(3, tasks=24, noise=0.5, seed=1).halves()
    fitted = Problems(first)
    held_out = Problems(second, fitted)
    member = FAMILIES[name].members[len(FAMILIES[name].members) // 3]
    family = replace(FAMILIES[name], members=(member,))
    starts = family.starts(fitted, torch.ones(12, 8, dtype=torch.float64))
    theta = starts[len(starts) // 2].clone() + (0.1 if name != "polynomial" else 0.0)
    if name == "polynomial":
        theta = torch.tensor([0.5, -0.3, 0.2, 0.1, -0.05, 0.02, 0.01, 0.01], dtype=torch.float64)
    f, held = (family.predict(theta[None], *indicators([member]), part)[0] for part in (fitted, held_out))
    [found] = fit([family], fitted, f)
    error = (found.predict(held_out) - held).square().mean() / held.square().mean()
    assert float(error) < 1e-6, (found.key, found.values)


def test_a_candidate_half_way_between_two_is_a_misfit(problems):
    ridge, mean = (next(iter(fit([FAMILIES[name]], problems, torch.ones(12, 8).double()))) for name in ("ols", "mean"))
    half = 0.5 * ridge.predict(problems) + 0.5 * mean.predict(problems)
    verdict = judge([ridge, mean], problems, half)
    assert verdict.reason is not None
    assert min(abs(one.value + 0.5) for one in verdict.coordinates) < 0.2


def test_names_say_the_class():
    first, _ = standard(3, tasks=24, noise=0.5).halves()
    problems = Problems(first)
    f = problems.predict(0.01 * problems.moments[:, None])[0]
    few = [replace(FAMILIES[name], members=(Member(2),)) for name in ("gd", "heavy_ball")]
    two = fit(few, problems, f)
    assert name_of(two).startswith("a fixed-coefficient method of 2 steps")
    assert name_of(two[:1]).startswith("2 steps of gradient descent (step ")
