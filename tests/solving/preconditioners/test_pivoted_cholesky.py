import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import ConjugateGradients
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, Gaussian
from ridgeformer.solving import PivotedCholesky, RidgeSystem, solve
from ridgeformer.solving.engines import Stored, Tiles
from ridgeformer.solving.preconditioners import pivoted_cholesky
from ridgeformer.solving.preconditioners.pivoted_cholesky import (
    default_rank,
    neighbourhoods,
    pivoted_factor,
)
from tests.solving.engines.engine_case import columns, rows


def factor_of(X, rank, kernel=Exponential(1.0), seed=0, working=torch.float64, **options):  # noqa: B008
    return pivoted_factor(Tiles(kernel, X, working), rank, torch_generator(seed, "pivots"), **options)


@pytest.mark.parametrize("proposals", [3, 16])
def test_it_is_the_cholesky_factor_of_the_chosen_rows_in_their_order(proposals, monkeypatch):
    """The naive oracle: a dense Cholesky factor of K with its rows in the order of the pivots."""
    monkeypatch.setattr(pivoted_cholesky, "PROPOSALS", proposals)
    X = rows()
    found = factor_of(X, 20)
    assert len(found.pivots) == len(set(found.pivots.tolist())) == 20
    rest = torch.tensor([i for i in range(70) if i not in set(found.pivots.tolist())])
    order = torch.cat([found.pivots, rest])
    lower = torch.linalg.cholesky(Exponential(1.0)(X)[order][:, order] + 1e-13 * torch.eye(70))
    torch.testing.assert_close(found.F[:, order].T, lower[:, :20], rtol=1e-4, atol=1e-7)


def test_what_is_left_is_positive_semidefinite_with_the_diagonal_it_says():
    X = rows()
    found = factor_of(X, 15)
    left = Exponential(1.0)(X) - found.F.T @ found.F
    assert float(torch.linalg.eigvalsh(left)[0]) > -1e-12
    torch.testing.assert_close(left.diagonal(), found.left, atol=1e-12, rtol=0)


def test_all_rows_give_the_whole_matrix():
    X = 3 * rows(n=40)
    found = factor_of(X, 40)
    torch.testing.assert_close(found.F.T @ found.F, Exponential(1.0)(X), rtol=1e-8, atol=1e-8)


def test_it_stops_at_the_rank_of_the_matrix_and_at_enough():
    assert len(factor_of(rows(), 70, kernel=DotProduct()).pivots) == 5
    X = rows()
    trace = float(Exponential(1.0).diag(X).sum())
    found = factor_of(X, 70, enough=0.01 * trace)
    assert len(found.pivots) < 70
    assert float(found.left.sum()) <= 0.01 * trace


def test_rows_are_drawn_where_the_most_is_missing():
    """Twenty copies of one row and one other: the first pivots are one of each, never two copies."""
    X = torch.cat([torch.tensor([[1.0, 0.0]]).repeat(20, 1), torch.tensor([[0.0, 1.0]])]).double()
    for seed in range(10):
        pivots = factor_of(X, 2, seed=seed).pivots
        assert len(pivots) == 2
        assert 20 in pivots.tolist()


def test_pivots_have_the_distribution_of_one_by_one_draws(monkeypatch):
    """Second pivots given the first, by blocks of eight, against the residual diagonal."""
    monkeypatch.setattr(pivoted_cholesky, "PROPOSALS", 8)
    X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [1.0, 1.0]]).double()
    K = Exponential(1.0)(X)
    counts = torch.zeros(4, 4)
    trials = 1500
    for seed in range(trials):
        first, second = factor_of(X, 2, seed=seed).pivots.tolist()
        counts[first, second] += 1
    expected = torch.zeros(4, 4)
    for i in range(4):
        left = (K.diagonal() - K[:, i] ** 2 / K[i, i]).clamp_min(0)
        expected[i] = K[i, i] / K.trace() * left / left.sum()
    error = (expected * (1 - expected) / trials).sqrt()
    assert bool(((counts / trials - expected).abs() <= 4.5 * error + 1e-12).all())


@pytest.mark.parametrize("block", [0, 20, 70])
@pytest.mark.parametrize("working", [torch.float32, torch.float64])
def test_the_preconditioner_is_the_inverse_of_the_matrix_it_stands_for(block, working):
    X, ridge = rows(), 0.3
    system = RidgeSystem(Exponential(1.0), X, ridge, Stored(Exponential(1.0), X, working))
    inverse = PivotedCholesky(rank=12, block=block).build(system, torch_generator(0, "pivots"))
    generator = torch_generator(0, "pivots")
    found = pivoted_factor(system.engine, 12, generator, enough=10 * ridge)
    low = (found.F.T @ found.F).double()
    P = low + ridge * torch.eye(70, dtype=torch.float64)
    if block:
        left = Exponential(1.0)(X) - low
        groups = neighbourhoods(found.F.T, block, generator)
        for group in groups:
            P[group[:, None], group[None, :]] += left[group[:, None], group[None, :]]
        assert max(map(len, groups)) <= block
    V = columns()
    tolerance = 2e-4 if working == torch.float32 else 1e-9
    assert float((inverse(V) - torch.linalg.solve(P, V)).norm()) <= tolerance * float(torch.linalg.solve(P, V).norm())


def test_blocks_save_steps_where_the_spectrum_falls_slowly():
    X = torch.nn.functional.normalize(rows(n=600, d=40), dim=1)
    y = X[:, 0]
    steps = {
        block: solve(
            Exponential(0.1),
            X,
            y,
            1.0,
            algorithm=ConjugateGradients(preconditioner=PivotedCholesky(60, block)),
            tol=1e-6,
        ).steps
        for block in (0, 100)
    }
    assert steps[100] < steps[0]


def test_wide_rows_are_sorted_by_where_they_lie_which_saves_steps(monkeypatch):
    generator = torch_generator(0, "clusters")
    centres = torch.randn(6, 80, generator=generator, dtype=torch.float64)
    noise = torch.randn(600, 80, generator=generator, dtype=torch.float64)
    X = torch.nn.functional.normalize((centres.repeat(100, 1) + noise) / 2, dim=1)
    kernel, algorithm = Exponential(0.05), ConjugateGradients(preconditioner=PivotedCholesky(30, 100))

    def steps():
        return solve(kernel, X, X[:, 0], 5e6, algorithm=algorithm, tol=1e-8).steps

    by_rows = steps()
    monkeypatch.setattr(pivoted_cholesky, "WIDE", 81)
    assert by_rows < steps()  # by the leading columns of the factor


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_rows_beyond_float32_are_not_sorted_in_it(unit):
    X = unit * torch.randn(300, 70, generator=torch_generator(0, "long"), dtype=torch.float64)
    algorithm = ConjugateGradients(preconditioner=PivotedCholesky(20, 100))
    fit = solve(Gaussian(unit**2), X, X[:, 0] / unit, 0.1, algorithm=algorithm, tol=1e-8)
    assert fit.converged
    assert fit.steps < 20


def test_an_engine_may_build_its_own():
    class Own(Tiles):
        def preconditioner(self, ridge, rank, generator):
            return lambda r: r / (ridge * rank)

    X = rows()
    system = RidgeSystem(Exponential(1.0), X, 0.5, Own(Exponential(1.0), X, X.dtype))
    V = columns()
    built = PivotedCholesky(rank=4).build(system, torch_generator(0, "any"))
    torch.testing.assert_close(built(V), V / 2)


def test_ranks_and_blocks_are_checked():
    for options in ({"rank": 0}, {"block": -1}):
        with pytest.raises(errors.InputError, match="whole number"):
            PivotedCholesky(**options)
    assert default_rank(50) == 50
    assert default_rank(10**6) == 10_000
