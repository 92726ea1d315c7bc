import pytest
import torch

from ridgeformer.algorithms import MixedConjugateGradients
from ridgeformer.core import compiled
from ridgeformer.core.seeds import torch_generator
from ridgeformer.kernels import Exponential
from ridgeformer.solving import plan, solve
from ridgeformer.solving.engines import Tiles, Triangle, triangle
from ridgeformer.solving.engines.whole_numbers import exact_products
from ridgeformer.solving.preconditioners import PivotedCholesky, RoundedCholesky, rounded_cholesky
from ridgeformer.solving.preconditioners.rounded_cholesky import _Factor
from ridgeformer.solving.system import RidgeSystem

pytest.importorskip("numba")
if not exact_products():
    pytest.skip("this processor has no exact products of 8-bit numbers", allow_module_level=True)

N, RIDGE, KERNEL = 620, 0.1, Exponential(0.7, log_scale=1.0)


@pytest.fixture(autouse=True)
def small_and_compiled(monkeypatch):
    monkeypatch.setattr(triangle, "SIZES", (80,))
    monkeypatch.setattr(compiled, "LARGE", 0)


def rows(n=N, d=12):
    X = torch.randn(n, d, generator=torch_generator(0, "X"), dtype=torch.float64)
    return torch.nn.functional.normalize(X, dim=1)


def built(n=N, *, d=12, ridge=RIDGE, engine=Triangle):
    X = rows(n, d)
    system = RidgeSystem(KERNEL, X, ridge, engine(KERNEL, X, torch.float32))
    return system, RoundedCholesky().build(system, torch_generator(0, "preconditioner"))


def dense(n=N, ridge=RIDGE):
    return KERNEL(rows(n)) + ridge * torch.eye(n, dtype=torch.float64)


@pytest.fixture
def instead(monkeypatch):
    """Whether the preconditioner that takes its place has been built."""
    asked, real = [], PivotedCholesky.build

    def build(self, system, generator):
        asked.append(system.n)
        return real(self, system, generator)

    monkeypatch.setattr(PivotedCholesky, "build", build)
    return asked


def test_it_is_positive_definite_and_near_the_inverse(instead):
    _, precondition = built()
    found = precondition(torch.eye(N, dtype=torch.float64))
    assert float((found - found.T).abs().max()) <= 1e-5 * float(found.abs().max())
    values = torch.linalg.eigvals(found @ dense()).real
    assert 0.3 < float(values.min()) < 1 - 1e-4  # rounding is seen ...
    assert 1 + 1e-4 < float(values.max()) < 3  # ... and small beside the ridge
    assert instead == []


@pytest.mark.parametrize("n", [40, 80, 160])
def test_the_first_panel_is_not_rounded(n):
    _, precondition = built(n)
    product = precondition(torch.eye(n, dtype=torch.float64)) @ dense(n)
    assert float((product - torch.eye(n, dtype=torch.float64)).abs().max()) <= 1e-4


def test_the_default_precision_of_torch_does_not_matter():
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        _, precondition = built()
        assert bool(torch.isfinite(precondition(torch.ones(N, 1))).all())
    finally:
        torch.set_default_dtype(before)


def test_what_it_approximates_is_left_as_it_is():
    system, precondition = built()
    precondition(torch.ones(N, 2, dtype=torch.float64))
    again = Triangle(KERNEL, rows(), torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(system.engine.high, again.high, strict=True))


def test_the_number_of_threads_changes_no_bit_of_the_factor():
    system, _ = built()
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            factor = _Factor.of(system.engine, RIDGE)
            found.append(torch.cat([part.flatten() for part in factor.rows + factor.own]))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(found[0], other) for other in found[1:])


def test_where_rounding_leaves_no_positive_definite_matrix_another_takes_its_place(instead):
    built(d=2, ridge=1e-7)
    assert instead == [N]


@pytest.mark.parametrize("why", ["engine", "processor"])
def test_where_there_is_no_fast_way_another_takes_its_place(why, instead, monkeypatch):
    if why == "processor":
        monkeypatch.setattr(rounded_cholesky, "exact_products", lambda: False)
    built(engine=Tiles if why == "engine" else Triangle)
    assert instead == [N]


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_fits_by_it_are_those_of_a_float64_factorisation(tol, monkeypatch):
    monkeypatch.setattr(plan, "SMALL_ROWS", 10)
    y = torch.randn(N, 3, generator=torch_generator(1, "y"), dtype=torch.float64)
    fit = solve(KERNEL, rows(), y, RIDGE, tol=tol)
    assert fit.converged
    assert isinstance(fit.algorithm, MixedConjugateGradients)
    assert isinstance(fit.algorithm.preconditioner, RoundedCholesky)
    assert 1 < fit.steps < 40
    exact = torch.linalg.solve(dense(), y)
    assert float((fit.alpha - exact).norm() / exact.norm()) <= 20 * tol
