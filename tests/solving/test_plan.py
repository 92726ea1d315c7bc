import pytest
import torch

from ridgeformer import errors
from ridgeformer.algorithms import Auto, resolve
from ridgeformer.core.compiled import compiled
from ridgeformer.kernels import DotProduct, Exponential, ReluNTK
from ridgeformer.solving import plan as plan_module
from ridgeformer.solving import solve
from ridgeformer.solving.plan import choose_plan, float32_serves, plan_in_float64, preconditioner_bytes
from ridgeformer.solving.preconditioners import RoundedCholesky
from ridgeformer.solving.preconditioners.pivoted_cholesky import PROPOSALS, default_block, neighbourhoods
from ridgeformer.solving.system import RidgeSystem
from tests.solving.solver_case import problem

GIB = 2**30
KERNEL = Exponential(0.25, log_scale=4.0)


def posed(*, kernel=KERNEL, n=20_000, d=784, ridge=1e-2, diagonal=1.0, memory=20 * GIB, tol=1e-10):
    """A system of any size with ten outputs, which takes no memory, as if its k(x, x) were `diagonal`."""
    zero = torch.zeros(1, 1, dtype=torch.float64)
    system = RidgeSystem(kernel, zero.expand(n, d), ridge, targets=zero.expand(n, 10), tol=tol, memory=memory)
    system.__dict__["own"] = torch.full((1,), diagonal, dtype=torch.float64)
    return system


def choose(algorithm="auto", engine=None, **changes):
    return choose_plan(posed(**changes), resolve(algorithm), engine)


@pytest.mark.parametrize(
    ("changes", "method", "engine", "working"),
    [
        ({"n": 1000}, "direct", "stored", "float64"),
        ({"n": 5000}, "mixed_direct", "triangle", "float32"),
        ({"n": 10_000}, "mixed_direct", "triangle", "float32"),
        ({}, "mixed_pcg", "triangle", "float32"),
        ({"n": 60_000}, "mixed_pcg", "triangle", "float32"),
        ({"memory": GIB}, "mixed_pcg", "tiles", "float32"),
        ({"memory": GIB, "d": 20}, "mixed_pcg", "fused" if compiled() else "attention", "float32"),
        ({"memory": GIB, "d": 20, "kernel": ReluNTK()}, "mixed_pcg", "tiles", "float32"),
        ({"ridge": 1e-8}, "mixed_direct", "tiles", "float64"),
        ({"ridge": 1e-8, "n": 60_000}, "mixed_pcg", "tiles", "float64"),
        ({"kernel": DotProduct()}, "mixed_pcg", "features", "float64"),
    ],
)
def test_what_is_chosen_when(changes, method, engine, working, monkeypatch):
    monkeypatch.setattr(plan_module, "exact_products", lambda: False)
    plan = choose(**changes)
    assert (plan.algorithm.name, plan.engine, plan.working) == (method, engine, working)
    assert plan.needed <= plan.free
    assert plan.reasons


@pytest.mark.skipif(not compiled(), reason="Numba is not there")
@pytest.mark.parametrize(
    ("changes", "rounded"),
    [
        ({"n": 10_000}, True),
        ({"n": 10_000, "ridge": 1.1e-3}, True),
        ({"n": 10_000, "ridge": 0.9e-3}, False),
        ({"n": 10_000, "diagonal": 100.0}, False),
        ({"n": 10_000, "algorithm": Auto(preconditioner="nystrom")}, False),
        ({"n": 5000}, False),  # Numba is not started for so few
        ({"n": 20_000}, False),
    ],
)
def test_a_factor_of_8_bit_numbers_is_chosen_where_it_serves(changes, rounded, monkeypatch):
    monkeypatch.setattr(plan_module, "exact_products", lambda: True)
    plan = choose(**changes)
    assert isinstance(getattr(plan.algorithm, "preconditioner", None), RoundedCholesky) == rounded
    assert any("8-bit" in reason for reason in plan.reasons) == rounded
    assert plan.needed <= plan.free


def test_the_budget_of_the_reference_size_is_two_and_a_half_gibibytes():
    assert choose().needed < 2.2 * GIB  # X in float64 takes 0.12 and the libraries 0.2 beside it


def test_forming_k_again_takes_less_than_300_megabytes():
    assert choose(engine="tiles").needed < 300e6


def test_the_same_problem_with_less_memory_gets_a_leaner_plan_and_at_last_a_refusal():
    plans = [choose(memory=memory) for memory in (4 * GIB, GIB, 240 * 2**20, 200 * 2**20)]
    needs, ranks = [plan.needed for plan in plans], [plan.rank for plan in plans]
    assert needs == sorted(needs, reverse=True)
    assert [plan.engine for plan in plans] == ["triangle", "tiles", "tiles", "tiles"]
    assert ranks[0] > ranks[1] > ranks[2] > ranks[3]
    assert any("to fit" in reason for reason in plans[2].reasons)
    words = "20,000 rows of 784 features with 10 targets need about .* MiB beside the data, and 100 MiB may be used"
    with pytest.raises(errors.InputError, match=words):
        choose(memory=100 * 2**20)


@pytest.mark.parametrize("engine", ["stored", "triangle"])
def test_an_engine_that_holds_k_is_refused_by_name_if_it_does_not_fit(engine):
    with pytest.raises(errors.InputError, match=r"engine='tiles'|forms K by tiles"):
        choose("mixed_pcg", engine, memory=GIB)


@pytest.mark.parametrize("method", ["direct", "mixed_direct"])
def test_a_factorisation_takes_no_engine(method):
    with pytest.raises(errors.InputError, match="takes no engine"):
        choose(method, "tiles")


def test_float32_serves_above_the_rounding_of_k_and_within_its_range():
    assert float32_serves(posed())
    assert not float32_serves(posed(ridge=1e-6))
    assert not float32_serves(posed(ridge=1e20, diagonal=1e20))


def test_what_float32_could_not_finish_is_planned_in_float64_once():
    again = plan_in_float64(posed(), choose())
    assert (again.algorithm.name, again.working) == ("mixed_direct", "float64")
    assert plan_in_float64(posed(), again) is None
    large = posed(n=60_000)
    assert plan_in_float64(large, choose_plan(large, Auto())).algorithm.name == "mixed_pcg"


def test_centres_are_never_followed_by_a_fit_of_all_rows():
    plan = choose("nystrom", n=10**6, d=18)
    assert plan.working == "float32"
    assert plan_in_float64(posed(n=10**6, d=18), plan) is None


def test_the_sizes_are_those_of_the_system():
    X, y = problem()
    system, own = RidgeSystem(Exponential(1.0), X, 0.1, targets=y), Exponential(1.0).diag(X)
    assert (system.n, system.d, system.outputs, system.feature_width) == (40, 6, 3, None)
    assert system.mean_diagonal == pytest.approx(float(own.mean()))
    assert system.span == pytest.approx((float(own.min()), float(own.max())))
    assert RidgeSystem(DotProduct(), X, 0.1).feature_width == 6


def test_memory_given_to_solve_is_what_the_plan_keeps_to():
    X, y = problem(n=1600)
    roomy = solve(Exponential(1.0), X, y, 0.1, tol=1e-6)
    tight = solve(Exponential(1.0), X, y, 0.1, tol=1e-6, memory=32 * 2**20)
    assert roomy.plan.engine == "triangle"
    assert tight.plan.engine in ("tiles", "attention", "fused")
    assert tight.converged
    torch.testing.assert_close(tight.predict(X), roomy.predict(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(errors.InputError, match="MiB may be used"):
        solve(Exponential(1.0), X, y, 0.1, memory=1000)


def test_features_fewer_than_rows_are_never_formed_into_k():
    X, y = problem(n=1600)
    fit = solve(DotProduct(), X, y, 0.1)
    assert fit.plan.engine == "features"
    assert fit.converged
    expected = torch.linalg.solve(X @ X.T + 0.1 * torch.eye(1600, dtype=torch.float64), y)
    torch.testing.assert_close(fit.alpha, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("change", "bits"),
    [
        ({"tol": 1e-6}, 16),
        ({"tol": 1e-10}, 32),
        ({"tol": 1e-6, "ridge": 1e-4}, 32),
        ({"tol": 1e-6, "ridge": 10.0, "diagonal": 1e3}, 16),
    ],
    ids=["coarse", "fine", "coarse, small ridge", "coarse, in other units"],
)
def test_bits_are_saved_only_where_the_residual_can_still_be_judged(change, bits):
    found = choose("mixed_pcg", "triangle", **change)
    assert found.bits == bits
    assert (found.needed < choose("mixed_pcg", "triangle").needed) == (bits == 16)


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
@pytest.mark.parametrize("method", ["mixed_direct", "mixed_pcg"])
def test_a_residual_judged_with_few_bits_is_the_true_one(method, tol):
    X, y = problem(n=900)
    fit = solve(Exponential(1.0), X, y, 0.1, algorithm=method, tol=tol)
    assert fit.converged
    assert fit.plan.bits == (16 if tol == 1e-6 else 32)
    true = y - (Exponential(1.0)(X) + 0.1 * torch.eye(900, dtype=torch.float64)) @ fit.alpha
    assert bool((true.norm(dim=0) <= 1.1 * tol * y.norm(dim=0)).all())


def test_the_plan_reads_as_sentences():
    text = str(choose())
    assert "mixed_pcg on the triangle engine, working in float32" in text
    assert "the lower triangle of K with 32 + 32 bits an entry takes 1.6 GiB and fits" in text


@pytest.mark.parametrize("n", [3000, 30_000, 70_001])
def test_blocks_are_budgeted_at_the_size_they_are_cut_to(n):
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    entries = sum(len(group) ** 2 for group in neighbourhoods(Z, default_block(n), generator))
    budgeted = preconditioner_bytes(n, 1, default_block(n), 4) - 4 * n
    assert 4 * entries <= budgeted + 16
    assert budgeted < 1.05 * 4 * max(entries, 3 * PROPOSALS * n) + 16
