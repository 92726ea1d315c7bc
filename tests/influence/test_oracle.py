"""The oracle of data attribution: every exact answer is that of real refits, brute force or enumeration."""

from itertools import combinations, permutations
from math import factorial

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import ridgeformer as rf
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence import influence
from ridgeformer.influence.oracle import (
    draw_subsets,
    largest_group,
    linear_datamodeling_score,
    nearest_neighbour_shapley,
    removal_effects,
    shapley_values,
    subset_predictions,
)

KERNEL, RIDGE = rf.Gaussian(temperature=1.0), 0.2


def task(n, q, seed, outputs=1):
    generator = torch_generator(seed, "oracle")
    X = torch.randn(n + q, 3, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * X[:n, :1]).repeat(1, outputs) + 0.2 * torch.randn(n, outputs, generator=generator).double()
    return rf.solve(KERNEL, X[:n], y, RIDGE), X[n:]


def refit(fit, rows, Xq):
    X, y = fit.X[rows].numpy(), fit.y[rows].numpy()

    def gram(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(2) / 2)

    return gram(Xq.numpy(), X) @ np.linalg.solve(gram(X, X) + RIDGE * np.eye(len(X)), y)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_subset_predictions_are_those_of_refits(fraction):
    fit, Xq = task(40, 6, 0, outputs=2)
    kept = draw_subsets(40, 5, fraction=fraction, seed=1)
    found = subset_predictions(fit, Xq, kept)
    assert found.shape == (5, 6, 2)
    for subset, values in zip(kept, found, strict=True):
        np.testing.assert_allclose(values, refit(fit, subset.nonzero()[:, 0], Xq), rtol=0, atol=1e-10)


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.95])
def test_a_linear_head_is_refitted_by_its_weights(fraction):
    """Three features: subsets of two rows, and of all but two, are solved the other ways."""
    _, Xq = task(40, 6, 0)
    generator = torch_generator(5, "oracle")
    X, y = torch.randn(40, 3, generator=generator).double(), torch.randn(40, 2, generator=generator).double()
    fit = rf.solve(rf.DotProduct(), X, y, RIDGE)
    kept = draw_subsets(40, 5, fraction=fraction, seed=1)
    for keep, values in zip(kept, subset_predictions(fit, Xq, kept), strict=True):
        A = X[keep] @ X[keep].T + RIDGE * torch.eye(int(keep.sum()), dtype=torch.float64)
        torch.testing.assert_close(values, Xq @ X[keep].T @ torch.linalg.solve(A, y[keep]), rtol=0, atol=1e-10)


def test_removal_effects_are_those_of_refits():
    fit, Xq = task(30, 4, 1)
    order = torch.rand(30, 4, generator=torch_generator(0, "order")).argsort(0)
    found = removal_effects(fit, Xq, order, (1, 5))
    for c, count in enumerate((1, 5)):
        for j in range(4):
            rows = sorted(set(range(30)) - set(order[:count, j].tolist()))
            change = float(fit.predict(Xq)[j]) - refit(fit, rows, Xq[j : j + 1])[0, 0]
            assert float(found[c, j, 0]) == pytest.approx(change, abs=1e-10)


def test_shapley_values_are_those_of_every_order():
    """All 120 orders of five rows, by refits of every prefix."""
    fit, Xq = task(5, 2, 2)
    exact = np.zeros((5, 2))
    for order in permutations(range(5)):
        before = np.zeros(2)
        for j, row in enumerate(order):
            after = refit(fit, list(order[: j + 1]), Xq)[:, 0]
            exact[row] += (after - before) / 120
            before = after
    found = shapley_values(fit, Xq, orders=2000, seed=0)
    assert np.mean(np.abs(found.values[:, :, 0].numpy() - exact) <= found.error[:, :, 0].numpy()) >= 0.8
    assert float(found.error.max()) < 0.05 * np.abs(exact).max()
    torch.testing.assert_close(found.values.sum(0)[:, 0], fit.predict(Xq)[:, 0], rtol=0, atol=1e-10)


def test_shapley_error_bars_cover():
    fit, Xq = task(12, 3, 3)
    truth = shapley_values(fit, Xq, orders=6000, seed=99).values
    inside = [
        (found.values - truth).abs() <= found.error
        for found in (shapley_values(fit, Xq, orders=30, seed=seed) for seed in range(40))
    ]
    assert float(torch.stack(inside).double().mean()) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("neighbours", [1, 2, 3, 9])
def test_nearest_neighbour_shapley_is_that_of_every_subset(neighbours):
    generator = torch_generator(4, "knn")
    X, Xq = (torch.randn(m, 2, generator=generator, dtype=torch.float64) for m in (6, 3))
    y, yq = (torch.randint(0, 2, (m,), generator=generator) for m in (6, 3))
    found = nearest_neighbour_shapley(X, y, Xq, yq, neighbours=neighbours)
    k = min(neighbours, 6)
    for j in range(3):
        distance = (X - Xq[j]).norm(dim=1)

        def value(rows, distance=distance, j=j):
            near = sorted(rows, key=lambda i: float(distance[i]))[:k]
            return sum(int(y[i] == yq[j]) for i in near) / k

        for i in range(6):
            rest, total = [r for r in range(6) if r != i], 0.0
            for size in range(6):
                weight = factorial(size) * factorial(5 - size) / factorial(6)
                total += weight * sum(value([*s, i]) - value(s) for s in combinations(rest, size))
            assert float(found[i, j]) == pytest.approx(total, abs=1e-12)


def test_the_datamodeling_score_is_the_mean_rank_correlation():
    fit, Xq = task(30, 5, 5)
    kept = draw_subsets(30, 40, seed=2)
    outputs = subset_predictions(fit, Xq, kept)[:, :, 0]
    scores = torch.randn(30, 5, generator=torch_generator(1, "scores")).double()
    found = linear_datamodeling_score(scores, kept, outputs)
    for j in range(5):
        assert float(found.by_query[j]) == pytest.approx(
            spearmanr((kept.double() @ scores)[:, j], outputs[:, j]).statistic, abs=1e-12
        )
    assert found.mean == pytest.approx(float(found.by_query.mean()))


def test_good_methods_score_high_and_bad_ones_low():
    fit, Xq = task(80, 20, 6)
    kept = draw_subsets(80, 100, seed=3)
    outputs = subset_predictions(fit, Xq, kept)[:, :, 0]
    exact = influence(fit, Xq).leave_one_out[:, :, 0]
    noise = torch.randn(80, 20, generator=torch_generator(2, "scores")).double()
    by_hand = {"leave-one-out": exact, "random": noise, "reversed": -exact, "constant": torch.ones(80, 20).double()}
    means = {name: linear_datamodeling_score(scores, kept, outputs).mean for name, scores in by_hand.items()}
    assert means["leave-one-out"] > 0.6
    assert abs(means["random"]) < 0.1
    assert means["reversed"] == pytest.approx(-means["leave-one-out"])
    assert means["constant"] == 0
    assert linear_datamodeling_score(by_hand["constant"], kept, outputs).constant == 20


@pytest.mark.parametrize("direction", [1, -1])
def test_the_largest_group_lies_between_greedy_and_the_bound(direction):
    """Every group of three among 14 rows is tried."""
    for seed in range(5):
        fit, Xq = task(14, 1, 10 + seed)
        found = largest_group(fit, Xq[0], 3, direction=direction)
        base = float(fit.predict(Xq)[0, 0])
        best = max(
            direction * (base - refit(fit, [i for i in range(14) if i not in group], Xq)[0, 0])
            for group in combinations(range(14), 3)
        )
        rest = [i for i in range(14) if i not in found.rows.tolist()]
        assert found.change == pytest.approx(base - refit(fit, rest, Xq)[0, 0], abs=1e-10)
        assert direction * found.greedy <= direction * found.change + 1e-12 <= best + 2e-12
        assert best <= direction * found.bound
        assert direction * found.change > 0.8 * best


def test_one_row_is_the_largest_leave_one_out():
    fit, Xq = task(25, 1, 20)
    found = largest_group(fit, Xq, 1)
    assert found.change == pytest.approx(float(influence(fit, Xq).leave_one_out.max()))
    assert found.bound == pytest.approx(found.change, rel=1e-6)  # attained


def test_the_bound_is_of_some_use_for_a_few_rows():
    """Without Gershgorin's and Frobenius' intervals it is hundreds of times what is reached."""
    fit, Xq = task(150, 1, 21)
    assert largest_group(fit, Xq, 2).bound < 10 * largest_group(fit, Xq, 2).change


# -- bad input ---------------------------------------------------------------------------------------


def test_scores_of_another_shape_or_with_nan_are_refused():
    kept, outputs = draw_subsets(10, 5), torch.randn(5, 3).double()
    with pytest.raises(ShapeError, match="transpose them"):
        linear_datamodeling_score(np.ones((3, 10)), kept, outputs)
    with pytest.raises(ShapeError, match=r"\(10, 3\) was expected"):
        linear_datamodeling_score(np.ones((9, 3)), kept, outputs)
    with pytest.raises(InputError, match="NaN"):
        linear_datamodeling_score(np.full((10, 3), np.nan), kept, outputs)
    with pytest.raises(InputError, match="at least 3"):
        linear_datamodeling_score(np.ones((10, 3)), kept[:2], outputs[:2])


def test_impossible_requests_are_refused():
    fit, Xq = task(10, 2, 0)
    with pytest.raises(InputError, match="keeps no row"):
        subset_predictions(fit, Xq, torch.zeros(1, 10, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"booleans \(subsets, 10\)"):
        subset_predictions(fit, Xq, torch.ones(1, 9, dtype=torch.bool))
    with pytest.raises(InputError, match="fraction"):
        draw_subsets(10, 3, fraction=1.0)
    with pytest.raises(InputError, match="fewer than all"):
        largest_group(fit, Xq[0], 10)
    with pytest.raises(InputError, match="direction"):
        largest_group(fit, Xq[0], 2, direction=0)
