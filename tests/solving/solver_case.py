"""What every solver must satisfy, with scipy's Cholesky solve as the oracle."""

import math
from abc import ABC
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.linalg
import torch

from ridgeformer import errors
from ridgeformer.algorithms import Algorithm
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import DotProduct, Exponential, GramPower, Kernel, ReluNTK
from ridgeformer.solving import Plan, Status, solve, system


def problem(n=40, d=6, outputs=3, dtype=torch.float64, seed=0):
    X = torch.randn(n, d, generator=torch_generator(seed, "X"), dtype=torch.float64) / math.sqrt(d)
    y = torch.randn(n, outputs, generator=torch_generator(seed, "y"), dtype=torch.float64)
    return X.to(dtype), y.to(dtype)


def oracle(kernel: Kernel, X, y, ridge):
    A = kernel(X.double()).numpy() + ridge * np.eye(len(X))
    return torch.from_numpy(scipy.linalg.cho_solve(scipy.linalg.cho_factor(A), y.double().numpy()))


def relative(a, b):
    return float((a.double() - b).norm() / b.norm())


def plan(algorithm):
    """A plan as far as a run looks at it."""
    return Plan(algorithm, "tiles", "float64", 0, False, 0, 0, ())


class SolverCase(ABC):
    """Inherit and name the algorithm; `ridge` is one at which it converges."""

    algorithm: Algorithm
    ridge = 1.0

    def solve(self, kernel, X, y, ridge=None, steps=None, **options):
        algorithm = replace(self.algorithm, steps=steps)
        return solve(kernel, X, y, ridge or self.ridge, algorithm=algorithm, **options)

    @pytest.mark.parametrize(
        "kernel",
        [DotProduct(), Exponential(1.0), GramPower(3, problem()[0] / 2), ReluNTK(), ReluNTK(both_layers=True)],
        ids=lambda kernel: type(kernel).__name__,
    )
    def test_equals_scipys_cholesky(self, kernel):
        X, y = problem()
        fit = self.solve(kernel, X, y, tol=1e-13)
        assert fit.status is Status.CONVERGED, fit.advice
        assert relative(fit.alpha, oracle(kernel, X, y, self.ridge)) < 1e-10

    def test_blocks_give_the_same_answer(self, monkeypatch):
        X, y = problem()
        stored = self.solve(Exponential(1.0), X, y)
        monkeypatch.setattr(system, "STORED_ENTRIES", 100)
        assert relative(self.solve(Exponential(1.0), X, y).alpha, stored.alpha) < 1e-9

    def test_one_target_is_a_column_of_several(self):
        X, y = problem()
        several, one = self.solve(Exponential(1.0), X, y), self.solve(Exponential(1.0), X, y[:, 1])
        assert one.alpha.shape == (40,)
        assert one.predict(X[:5]).shape == one.prediction_bound(X[:5]).shape == (5,)
        assert several.predict(X[:5]).shape == several.prediction_bound(X[:5]).shape == (5, 3)
        assert relative(one.alpha, several.alpha[:, 1]) < 1e-9

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("tol", [1e-2, 1e-4, None])
    def test_the_error_is_below_the_bound(self, dtype, tol):
        X, y = problem(dtype=dtype)
        Xq = torch.randn(25, 6, generator=torch_generator(0, "query"), dtype=torch.float64).to(dtype)
        kernel = Exponential(1.0)
        fit = self.solve(kernel, X, y, tol=tol)
        exact = oracle(kernel, X, y, self.ridge)
        error = (fit.alpha.double() - exact).norm(dim=0)
        assert bool((error <= fit.alpha_bound).all())
        f = kernel(Xq.double(), X.double()) @ exact
        assert bool(((fit.predict(Xq).double() - f).abs() <= fit.prediction_bound(Xq)).all())
        assert bool((fit.prediction_bound(Xq) < math.inf).all())

    def test_float32_reaches_its_tolerance_and_stays_float32(self):
        X, y = problem(dtype=torch.float32)
        fit = self.solve(Exponential(1.0), X, y)
        assert fit.status is Status.CONVERGED, fit.advice
        assert fit.alpha.dtype == torch.float32
        assert fit.residual_norm.dtype == torch.float64
        assert relative(fit.alpha, oracle(Exponential(1.0), X, y, self.ridge)) < 1e-4

    def test_history_starts_at_one_and_ends_at_the_tolerance(self):
        X, y = problem()
        fit = self.solve(Exponential(1.0), X, y, tol=1e-8)
        assert fit.residuals.shape == (fit.steps + 1, 3)
        torch.testing.assert_close(fit.residuals[0], torch.ones(3, dtype=torch.float64))
        assert float(fit.residuals[-1].max()) <= 1e-8
        assert fit.relative_residual <= 1e-8

    def test_spectrum_estimate_lies_inside_and_near(self):
        X, y = problem()
        ends = self.solve(Exponential(1.0), X, y, tol=1e-12).spectrum
        if ends.preconditioned:
            assert 0 < ends.low <= ends.high
            return
        values = torch.linalg.eigvalsh(Exponential(1.0)(X)) + self.ridge
        assert values[0] * (1 - 1e-6) <= ends.low <= ends.high <= values[-1] * (1 + 1e-9)
        assert ends.high > 0.9 * values[-1]

    @pytest.mark.parametrize(
        ("dtype", "size"),
        [(torch.float32, 1e25), (torch.float32, 1e-25), (torch.float64, 1e200), (torch.float64, 1e-200)],
    )
    def test_targets_of_any_size_are_solved_in_their_own_unit(self, dtype, size):
        X, y = problem(dtype=dtype)
        unit, other = self.solve(Exponential(1.0), X, y), self.solve(Exponential(1.0), X, y.double() * size)
        assert other.status is Status.CONVERGED
        assert 0 < other.steps == pytest.approx(unit.steps, rel=0.1)  # float32 sums round differently
        torch.testing.assert_close(other.alpha.double() / size, unit.alpha.double(), rtol=1e-4, atol=3e-5)
        assert bool((other.alpha_bound > 0).all())
        assert bool(torch.isfinite(other.residuals).all())

    def test_targets_finer_than_the_rows_are_not_rounded_away_from_the_bound(self):
        """float64 targets with float32 rows: the bound is against the targets as given."""
        fit = self.solve(DotProduct(), torch.zeros(1, 1), [0.1])
        assert abs(float(fit.alpha[0]) - 0.1 / self.ridge) <= float(fit.alpha_bound)

    def test_zero_targets_have_the_zero_solution(self):
        X, y = problem()
        y[:, 1] = 0
        fit = self.solve(Exponential(1.0), X, y)
        assert fit.status is Status.CONVERGED
        assert float(fit.alpha[:, 1].abs().max()) < 1e-12

    def test_one_row(self):
        fit = self.solve(Exponential(1.0), [[0.0, 0.0]], [3.0])
        torch.testing.assert_close(fit.alpha, torch.tensor([3.0 / (1 + self.ridge)], dtype=torch.float64))

    def test_same_answer_twice(self):
        X, y = problem()
        assert torch.equal(self.solve(Exponential(1.0), X, y).alpha, self.solve(Exponential(1.0), X, y).alpha)

    def test_the_result_is_frozen(self):
        X, y = problem()
        with pytest.raises(FrozenInstanceError):
            self.solve(Exponential(1.0), X, y).ridge = 2.0

    def test_no_steps_are_refused(self):
        with pytest.raises(errors.InputError, match="steps is 0"):
            self.solve(Exponential(1.0), *problem(), steps=0)


class IterativeCase(SolverCase):
    """A solver with steps: it can be watched, stopped, and run out of them."""

    def test_running_out_of_steps_is_said(self):
        X, y = problem()
        fit = self.solve(Exponential(1.0), X, y, tol=1e-14, steps=2)
        assert fit.status is Status.MAX_STEPS
        assert fit.steps == 2
        assert "Stopped after 2 steps" in fit.advice
        assert "raise steps" in fit.advice

    def test_iterates_on_request(self):
        X, y = problem()
        fit = self.solve(Exponential(1.0), X, y, keep_iterates=True)
        assert fit.iterates.shape == (fit.steps, 40, 3)
        assert torch.equal(fit.iterates[-1], fit.alpha)
        assert self.solve(Exponential(1.0), X, y).iterates is None

    def test_the_callback_watches_and_stops(self):
        X, y = problem()
        seen = []

        def watch(step, alpha, residual):
            seen.append((step, alpha.shape, residual.shape))
            return step == 3

        fit = self.solve(Exponential(1.0), X, y, tol=1e-14, callback=watch)
        assert seen == [(step, (40, 3), (3,)) for step in (1, 2, 3)]
        assert fit.status is Status.STOPPED
        assert fit.steps == 3
