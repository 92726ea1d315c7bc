import pytest
import torch

from ridgeformer.algorithms import MixedConjugateGradients
from ridgeformer.core.compiled import compiled
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solving import RidgeSystem, Status, mixed_pcg, plan, solve, solver
from ridgeformer.solving.engines import Stored
from ridgeformer.solving.run import Run
from tests.solving import solver_case
from tests.solving.solver_case import IterativeCase, oracle, problem, relative


class TestMixedPCG(IterativeCase):
    algorithm = MixedConjugateGradients(
        preconditioner="identity"
    )  # the default solves these small problems in one step


class TestMixedPCGWithItsPreconditioner:
    @pytest.mark.parametrize("engine", [None, "stored", "tiles", "attention", *(["fused"] if compiled() else [])])
    def test_float32_products_reach_float64_accuracy_on_every_engine(self, engine):
        X, y = problem(n=300)
        fit = solve(Exponential(0.5), X, y, 0.05, algorithm="mixed_pcg", engine=engine, tol=1e-11)
        assert fit.status is Status.CONVERGED, fit.advice
        assert fit.plan.working == "float32"
        assert relative(fit.alpha, oracle(Exponential(0.5), X, y, 0.05)) < 1e-8

    @pytest.mark.parametrize(("lanes", "last"), [(2, {1, 2}), (mixed_pcg.LANES, {3})])
    def test_columns_that_are_done_leave_a_wide_block(self, lanes, last, monkeypatch):
        """One target is an eigenvector, solved at the first step; a block with room for it keeps it all the same."""
        monkeypatch.setattr(mixed_pcg, "LANES", lanes)
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

        fit = solve(Exponential(0.5), X, y, 0.1, algorithm=MixedConjugateGradients(preconditioner=Watching()), tol=1e-6)
        assert fit.converged
        assert widths[0] == 3
        assert widths[-1] in last


@pytest.mark.parametrize(("fall", "passes"), [(mixed_pcg.FALL, 1), (0.0, 2)])
def test_a_residual_computed_anew_in_time_saves_a_pass(fall, passes, monkeypatch):
    """Claim B3: float32 products let the recursive residual drift; unheeded, the true one needs a second pass."""
    X, y = problem(n=400, d=20)
    X = torch.nn.functional.normalize(X, dim=1)
    monkeypatch.setattr(mixed_pcg, "FALL", fall)
    original, count = mixed_pcg._Pass.advance, []

    def counted(self, *args):
        count.append(1)
        return original(self, *args)

    monkeypatch.setattr(mixed_pcg._Pass, "advance", counted)
    kernel = Exponential(1.0, log_scale=1.0)
    fit = solve(kernel, X, y, 1e-2, algorithm=MixedConjugateGradients(preconditioner="identity"), tol=1e-6)
    assert fit.converged
    assert len(count) == passes


def test_a_stall_in_float32_is_done_again_in_float64_by_auto(monkeypatch):
    monkeypatch.setattr(plan, "SMALL_ROWS", 10)
    monkeypatch.setattr(plan, "DIRECT_ROWS", 10)
    monkeypatch.setattr(plan, "float32_serves", lambda system: True)
    X, y = problem(n=300, d=2)
    X = torch.nn.functional.normalize(X, dim=1)
    fit = solve(Exponential(1.0, log_scale=1.0), X, y, 1e-7, tol=1e-6)
    assert fit.plan.working == "float64"
    assert any("came to a halt" in reason for reason in fit.plan.reasons)
    assert fit.converged
    assert fit.relative_residual <= 1e-6


def test_the_float64_stage_starts_where_float32_came_to_a_halt(monkeypatch):
    monkeypatch.setattr(plan, "SMALL_ROWS", 10)
    monkeypatch.setattr(plan, "DIRECT_ROWS", 10)
    monkeypatch.setattr(plan, "LARGEST_FACTOR", 10)
    monkeypatch.setattr(plan, "float32_serves", lambda system: True)
    monkeypatch.setattr(solver, "MIXED_STEPS", 15)
    began, advance = [], mixed_pcg._Pass.advance

    def noted(self, steps):
        began.append((self.system.engine.dtype, float(self.relative.max())))
        return advance(self, steps)

    monkeypatch.setattr(mixed_pcg._Pass, "advance", noted)
    X, y = problem(n=300, d=2)
    fit = solve(Gaussian(1.0), X, y, 1e-4, tol=1e-6)
    assert [dtype for dtype, _ in began] == [torch.float32, torch.float64]
    assert began[1][1] == pytest.approx(float(fit.residuals[15].max()), rel=1e-2)
    assert began[1][1] < 1  # what float32 gained is kept ...
    assert fit.converged
    assert fit.steps > 15  # ... and so is its history
    assert len(fit.residuals) == fit.steps + 1


def test_targets_as_fine_as_float64_with_float32_rows_are_judged_as_handed_out():
    X, y = problem(n=100, dtype=torch.float32)
    fit = solve(Exponential(0.5), X, y, 0.1, algorithm="mixed_pcg")
    residual = (
        y.double() - (Exponential(0.5)(X.double()) + 0.1 * torch.eye(100, dtype=torch.float64)) @ fit.alpha.double()
    )
    torch.testing.assert_close(fit.residual_norm, residual.norm(dim=0), rtol=1e-3, atol=0.0)


@pytest.mark.parametrize("method", ["auto", "mixed_pcg", "mixed_direct"])
@pytest.mark.parametrize(("temperature", "ridge"), [(0.05, 1e-8), (2.0, 1e-8), (2.0, 1e-15)])
def test_an_ill_conditioned_system_is_never_called_converged_when_it_is_not(method, temperature, ridge):
    X, y = problem(n=150, d=3)
    X = torch.nn.functional.normalize(X, dim=1)
    kernel = Exponential(temperature, log_scale=1 / temperature)
    fit = solve(kernel, X, y, ridge, algorithm=method, tol=1e-6)
    residual = y - kernel(X) @ fit.alpha - ridge * fit.alpha
    assert bool(torch.isfinite(fit.alpha).all())
    if fit.converged:
        assert float((residual.norm(dim=0) / y.norm(dim=0)).max()) <= 1.01e-6
    else:
        assert f"{fit.relative_residual:.1e}" in fit.advice


def test_the_error_of_a_product_is_seen_in_some_of_its_rows():
    X, y = problem(n=1000, d=20)
    kernel = Exponential(1.0)
    system = RidgeSystem(kernel, X, 0.1, Stored(kernel, X, torch.float32), targets=y, tol=1e-6)
    one = mixed_pcg._Pass(Run(system, solver_case.plan(MixedConjugateGradients())), lambda r: r)
    one._start()
    product = system.apply_kernel(one.p)
    true = (product - kernel(X) @ one.p).norm(dim=0) / one.p.norm(dim=0)
    assert one._error_of(product) == pytest.approx(float(true.max()), rel=0.5)
