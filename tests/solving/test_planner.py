from dataclasses import replace

import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import resolve
from ridgeformer.kernels import DotProduct, Exponential, ReluNTK
from ridgeformer.solving import Status, solve
from ridgeformer.solving.planner import Problem, choose, describe, float32_serves, retry
from ridgeformer.solving.preconditioners.neighbourhoods import neighbourhoods
from ridgeformer.solving.preconditioners.pivoted_cholesky import PROPOSALS, default_block
from tests.solving.solver_case import problem

GIB = 2**30
BASE = Problem(
    Exponential(0.25, log_scale=4.0), 20_000, 784, 10, torch.float64, torch.device("cpu"), 1e-2, 1.0, None, 20 * GIB
)


@pytest.mark.parametrize(
    ("changes", "method", "engine", "working"),
    [
        ({"n": 1000}, "direct", "stored", "float64"),
        ({"n": 5000}, "mixed_direct", "triangle", "float32"),
        ({"n": 10_000}, "mixed_direct", "triangle", "float32"),
        ({}, "mixed_pcg", "triangle", "float32"),
        ({"n": 60_000}, "mixed_pcg", "triangle", "float32"),
        ({"free": GIB}, "mixed_pcg", "tiles", "float32"),
        ({"free": GIB, "d": 20}, "mixed_pcg", "attention", "float32"),
        ({"free": GIB, "d": 20, "kernel": ReluNTK()}, "mixed_pcg", "tiles", "float32"),
        ({"ridge": 1e-8}, "mixed_direct", "tiles", "float64"),
        ({"ridge": 1e-8, "n": 60_000}, "mixed_pcg", "tiles", "float64"),
        ({"kernel": DotProduct(), "features": 784}, "mixed_pcg", "features", "float64"),
    ],
)
def test_what_is_chosen_when(changes, method, engine, working):
    plan = choose(replace(BASE, **changes))
    assert (plan.algorithm.name, plan.engine, plan.working) == (method, engine, working)
    assert plan.needed <= plan.free
    assert plan.reasons


def test_the_budget_of_the_reference_size_is_two_and_a_half_gibibytes():
    assert choose(BASE).needed < 2.2 * GIB  # X in float64 takes 0.12 and the libraries 0.2 beside it


def test_forming_k_again_takes_less_than_300_megabytes():
    assert choose(BASE, engine="tiles").needed < 300e6


def test_the_same_problem_with_less_memory_gets_a_leaner_plan_and_at_last_a_refusal():
    plans = [choose(replace(BASE, free=free)) for free in (4 * GIB, GIB, 240 * 2**20, 200 * 2**20)]
    needs, ranks = [plan.needed for plan in plans], [plan.rank for plan in plans]
    assert needs == sorted(needs, reverse=True)
    assert [plan.engine for plan in plans] == ["triangle", "tiles", "tiles", "tiles"]
    assert ranks[0] > ranks[1] > ranks[2] > ranks[3]
    assert any("to fit" in reason for reason in plans[2].reasons)
    words = "20,000 rows of 784 features with 10 targets need about .* MiB beside the data, and 100 MiB may be used"
    with pytest.raises(errors.InputError, match=words):
        choose(replace(BASE, free=100 * 2**20))


@pytest.mark.parametrize("engine", ["stored", "triangle"])
def test_an_engine_that_holds_k_is_refused_by_name_if_it_does_not_fit(engine):
    with pytest.raises(errors.InputError, match=r"engine='tiles'|forms K by tiles"):
        choose(replace(BASE, free=GIB), resolve("mixed_pcg"), engine)


@pytest.mark.parametrize("method", ["direct", "mixed_direct"])
def test_a_factorisation_takes_no_engine(method):
    with pytest.raises(errors.InputError, match="takes no engine"):
        choose(BASE, resolve(method), "tiles")


def test_float32_serves_above_the_rounding_of_k_and_within_its_range():
    assert float32_serves(BASE)
    assert not float32_serves(replace(BASE, ridge=1e-6))
    assert not float32_serves(replace(BASE, ridge=1e20, diagonal=1e20))


def test_only_a_stall_in_float32_is_tried_again():
    plan = choose(BASE)
    again = retry(BASE, plan, Status.BREAKDOWN)
    assert (again.algorithm.name, again.working) == ("mixed_direct", "float64")
    assert retry(BASE, plan, Status.CONVERGED) is None
    assert retry(BASE, again, Status.BREAKDOWN) is None
    large = replace(BASE, n=60_000)
    assert retry(large, choose(large), Status.BREAKDOWN).algorithm.name == "mixed_pcg"


def test_the_problem_is_described_from_the_rows():
    X, _ = problem()
    found = describe(Exponential(1.0), X, 3, 0.1, GIB)
    assert (found.n, found.d, found.columns, found.features) == (40, 6, 3, None)
    assert found.diagonal == pytest.approx(float(Exponential(1.0).diag(X).mean()))
    assert describe(DotProduct(), X, 3, 0.1, GIB).features == 6


def test_memory_given_to_solve_is_what_the_plan_keeps_to():
    X, y = problem(n=1600)
    roomy = solve(Exponential(1.0), X, y, 0.1, tol=1e-6)
    tight = solve(Exponential(1.0), X, y, 0.1, tol=1e-6, memory=32 * 2**20)
    assert roomy.plan.engine == "triangle"
    assert tight.plan.engine in ("tiles", "attention")
    assert tight.converged
    torch.testing.assert_close(tight.predict(X), roomy.predict(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(errors.InputError, match="MiB may be used"):
        solve(Exponential(1.0), X, y, 0.1, memory=1000)


def test_features_fewer_than_rows_are_never_formed_into_k():
    X, y = problem(n=1600)
    solution = solve(DotProduct(), X, y, 0.1)
    assert solution.plan.engine == "features"
    assert solution.converged
    expected = torch.linalg.solve(X @ X.T + 0.1 * torch.eye(1600, dtype=torch.float64), y)
    torch.testing.assert_close(solution.alpha, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "bits"),
    [
        ({"tol": 1e-6}, 16),
        ({"tol": 1e-10}, 32),
        ({"tol": 1e-6, "ridge": 1e-2 * BASE.ridge}, 32),
        ({"tol": 1e-6, "ridge": 1e3 * BASE.ridge, "diagonal": 1e3 * BASE.diagonal}, 16),
    ],
    ids=["coarse", "fine", "coarse, small ridge", "coarse, in other units"],
)
def test_bits_are_saved_only_where_the_residual_can_still_be_judged(change, bits):
    found = choose(replace(BASE, **change), resolve("mixed_pcg"), "triangle")
    assert found.bits == bits
    assert (found.needed < choose(BASE, resolve("mixed_pcg"), "triangle").needed) == (bits == 16)


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
@pytest.mark.parametrize("method", ["mixed_direct", "mixed_pcg"])
def test_a_residual_judged_with_few_bits_is_the_true_one(method, tol):
    X, y = problem(n=900)
    solution = solve(Exponential(1.0), X, y, 0.1, algorithm=method, tol=tol)
    assert solution.converged
    assert solution.plan.bits == (16 if tol == 1e-6 else 32)
    true = y - (Exponential(1.0)(X) + 0.1 * torch.eye(900, dtype=torch.float64)) @ solution.alpha
    assert bool((true.norm(dim=0) <= 1.1 * tol * y.norm(dim=0)).all())


def test_the_plan_reads_as_sentences():
    text = str(choose(BASE))
    assert "mixed_pcg on the triangle engine, working in float32" in text
    assert "the lower triangle of K with 32 + 32 bits an entry takes 1.6 GiB and fits" in text


@pytest.mark.parametrize("n", [3000, 30_000, 70_001])
def test_blocks_are_budgeted_at_the_size_they_are_cut_to(n):
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    entries = sum(len(group) ** 2 for group in neighbourhoods(Z, default_block(n), generator))
    budgeted = replace(BASE, n=n).preconditioner(1, default_block(n), 4) - 4 * n
    assert 4 * entries <= budgeted + 16
    assert budgeted < 1.05 * 4 * max(entries, 3 * PROPOSALS * n) + 16
