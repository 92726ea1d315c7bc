import pytest
import torch
from solver_case import IterativeCase, oracle, problem, relative

from ridgeformer.kernels import Exponential
from ridgeformer.solvers import Status, mixed_pcg, solve


class TestMixedPCG(IterativeCase):
    method = "mixed_pcg"
    options = {"preconditioner": "identity"}  # noqa: RUF012 -- the default solves these small problems in one step


class TestMixedPCGWithItsPreconditioner:
    @pytest.mark.parametrize("engine", [None, "stored", "tiles", "attention"])
    def test_float32_products_reach_float64_accuracy_on_every_engine(self, engine):
        X, y = problem(n=300)
        solution = solve(Exponential(0.5), X, y, 0.05, method="mixed_pcg", engine=engine, tol=1e-11)
        assert solution.status is Status.CONVERGED, solution.advice
        assert solution.plan.working == "float32"
        assert relative(solution.alpha, oracle(Exponential(0.5), X, y, 0.05)) < 1e-8

    def test_columns_that_are_done_leave_the_block(self):
        """One target is an eigenvector, solved at the first step; the products that follow have a column less."""
        X, y = problem(n=120)
        y[:, 1] = torch.linalg.eigh(Exponential(0.5)(X))[1][:, -1]
        widths = []

        class Watching:
            name = "watching"

            def build(self, system, generator):
                def precondition(r):
                    widths.append(r.shape[1])
                    return r

                return precondition

        solution = solve(Exponential(0.5), X, y, 0.1, method="mixed_pcg", preconditioner=Watching(), tol=1e-6)
        assert solution.converged
        assert widths[0] == 3
        assert widths[-1] < 3


def test_the_residual_is_replaced_and_the_true_one_is_reached_in_one_pass(monkeypatch):
    """With drift unheeded float32 needs a second pass; claim B3 says when to compute the residual anew instead."""
    X, y = problem(n=400)
    passes = {}
    original = mixed_pcg._Pass.run
    for drift in (mixed_pcg.DRIFT, float("inf")):
        count = []

        def counted(self, *args, count=count):
            count.append(1)
            return original(self, *args)

        monkeypatch.setattr(mixed_pcg._Pass, "run", counted)
        monkeypatch.setattr(mixed_pcg, "DRIFT", drift)
        solution = solve(
            Exponential(0.3), X, y, 1e-2, method="mixed_pcg", preconditioner="identity", tol=2e-6, max_steps=4000
        )
        assert solution.converged
        passes[drift] = len(count)
    assert passes[mixed_pcg.DRIFT] >= 1
    assert min(passes.values()) == passes[min(passes)]
    assert passes[min(passes)] < passes[float("inf")]


def test_a_stall_in_float32_is_done_again_in_float64_by_auto(monkeypatch):
    from ridgeformer.solvers import planner

    monkeypatch.setattr(planner, "SMALL_ROWS", 10)
    monkeypatch.setattr(planner, "DIRECT_ROWS", 10)
    monkeypatch.setattr(planner, "float32_serves", lambda problem: True)
    X, y = problem(n=300, d=2)
    solution = solve(Exponential(0.3), X, y, 1e-9, tol=1e-6, max_steps=3000)
    assert solution.plan.working == "float64"
    assert any("came to a halt" in reason for reason in solution.plan.reasons)
    assert solution.converged
    assert solution.relative_residual <= 1e-6


def test_targets_as_fine_as_float64_with_float32_rows_are_judged_as_handed_out():
    X, y = problem(n=100, dtype=torch.float32)
    solution = solve(Exponential(0.5), X, y, 0.1, method="mixed_pcg")
    residual = y.double() - (Exponential(0.5)(X.double()) + 0.1 * torch.eye(100)) @ solution.alpha.double()
    torch.testing.assert_close(solution.residual_norm, residual.norm(dim=0), rtol=1e-6, atol=0.0)
