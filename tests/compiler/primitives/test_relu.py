import pytest
import torch

from ridgeformer.compiler.primitives import Operand, ReLU, product_error, quotient_error, reciprocal_error
from ridgeformer.compiler.primitives.ranges import operand_ranges
from ridgeformer.compiler.sublayers import GatedMLP
from ridgeformer.core.errors import InputError

from .problems import build, difference, problem
from .sublayers import run_gate, spread


def grid(bound, count=101):
    side = torch.linspace(-bound, bound, count, dtype=torch.float64)
    return torch.cartesian_prod(side, side).unbind(1)


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("knots", [16, 64, 256])
def test_products_keep_to_their_error_and_attain_it(bound, knots):
    x, y = grid(bound)
    middle = bound / knots * (2 * torch.arange(knots // 2, dtype=torch.float64) + 1)  # x = y in the middle of a piece
    x, y = torch.cat([x, middle]), torch.cat([y, middle])
    found = run_gate(ReLU(bound=bound, knots=knots), {"x": x, "y": y}, z="x * y")
    error = (found["z"] - x * y).abs().max()
    assert 0.99 * product_error(bound, knots) < error < product_error(bound, knots) * (1 + 1e-9)
    assert len(found.modules[0].gates) == 2 * knots


def test_a_square_takes_half_the_units_and_is_never_too_small():
    x = torch.linspace(-2.0, 2.0, 4097, dtype=torch.float64)
    found = run_gate(ReLU(bound=2.0, knots=64), {"x": x}, z="x * x")
    assert len(found.modules[0].gates) == 64
    assert (found["z"] - x * x).min() > -1e-14
    assert (found["z"] - x * x).max() < product_error(2.0, 64) * (1 + 1e-9)
    assert found["z"][x == 0].tolist() == [0.0]


@pytest.mark.parametrize("span", [1e2, 1e4, 1e8])
@pytest.mark.parametrize("knots", [32, 128])
def test_reciprocals_keep_to_their_error_and_attain_it(span, knots):
    low, high = 0.2, 0.2 * span
    b = low * 10 ** torch.linspace(0.0, torch.tensor(span).log10().item(), 8001, dtype=torch.float64)
    found = run_gate(ReLU((low, high), knots=knots), {"b": b}, z="one / b")
    error = found["z"] * b - 1
    foretold = reciprocal_error(low, high, knots)
    assert 0.95 * foretold < error.max() < foretold * (1 + 1e-9)
    assert error.min() > -1e-12
    assert len(found.modules[0].gates) == knots + 2


def test_a_range_of_1e16_loses_no_digits():
    b = torch.logspace(-8, 8, 3001, dtype=torch.float64)
    units = ReLU((1e-8, 1e8), knots=4096)
    error = (run_gate(units, {"b": b}, z="one / b")["z"] * b - 1).abs().max()
    assert error < reciprocal_error(1e-8, 1e8, 4096) * (1 + 1e-6)
    assert reciprocal_error(1e-8, 1e8, 4096) < 3e-5


def test_errors_fall_with_the_square_of_the_knots():
    assert product_error(5.0, 64) / product_error(5.0, 256) == pytest.approx(16)
    assert reciprocal_error(1.0, 10.0, 640) / reciprocal_error(1.0, 10.0, 2560) == pytest.approx(16, rel=1e-5)


def test_outside_its_range_a_reciprocal_is_the_one_at_its_end():
    b = torch.tensor([-5.0, 0.0, 1e-9, 0.1, 100.0, 1e9], dtype=torch.float64)
    z = run_gate(ReLU((0.1, 100.0), knots=64), {"b": b}, z="one / b")["z"]
    torch.testing.assert_close(z, torch.tensor([10.0, 10.0, 10.0, 10.0, 0.01, 0.01]).double(), rtol=1e-7, atol=0)


def test_quotients_keep_to_their_error():
    low, high, bound, knots = 0.1, 10.0, 2.0, 256
    n, _ = grid(bound, 101)
    b = torch.logspace(-1, 1, 101, dtype=torch.float64).repeat(101)
    z = run_gate(ReLU((low, high), bound, knots), {"n": n, "b": b}, z="n / b")["z"]
    limits = torch.tensor([quotient_error(low, high, bound, knots, float(q)) for q in n / b])
    gaps = (z - n / b).abs()
    assert bool((gaps <= limits * (1 + 1e-9)).all())
    assert (gaps / limits).max() > 0.3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_moves_and_clears_are_exact_bit_for_bit(dtype):
    tiny = torch.finfo(dtype).smallest_normal
    ends = torch.tensor([tiny, -tiny / 8, torch.finfo(dtype).max, 1 / 3, 0.0], dtype=dtype)
    x = torch.cat([spread(torch.Generator().manual_seed(0), dtype=dtype), ends])
    found = run_gate(ReLU(), {"x": x}, z="x", clear="x")
    assert torch.equal(found["z"], x)
    assert torch.equal(found["x"], torch.zeros_like(x))


def test_products_with_a_constant_channel_are_exact():
    x = torch.linspace(-3.0, 3.0, 101, dtype=torch.float64).repeat(2)
    on = torch.cat([torch.ones(101), torch.zeros(101)]).double()
    for text in ("2 * x * eta", "2 * eta * x"):
        found = run_gate(ReLU(bound=3.0, knots=4), {"x": x, "eta": 0.25 * on}, constants={"eta": 0.25}, z=text)
        torch.testing.assert_close(found["z"][:101], x[:101] / 2, rtol=0, atol=3e-15)
        assert torch.equal(found["z"][101:], torch.zeros(101, dtype=torch.float64))
        assert len(found.modules[0].gates) == 2


def test_units_read_the_constant_on_their_other_side():
    model = build(primitives="relu")
    one = model.layout.columns["one"][0]
    gated = [module for module in model.modules() if isinstance(module, GatedMLP)]
    assert {gate for module in gated for gate in module.gates} == {"relu"}
    for module in gated:
        expected = torch.zeros_like(module.W_a)
        expected[one] = 1.0
        assert torch.equal(module.W_a, expected)


def fitted(algorithm, steps, knots, data, **options):
    """The relu model whose range and bound are those of the data, and how far it is from the exact one."""
    exact = build(algorithm=algorithm, steps=steps, **options)
    met = operand_ranges(exact, *data)
    reciprocal_range = (met.smallest_divisor / 1.5, met.largest_divisor * 1.5)
    model = build(
        primitives="relu", algorithm=algorithm, steps=steps, reciprocal_range=reciprocal_range,
        relu_bound=1.5 * met.largest_factor, relu_knots=knots, **options,
    )  # fmt: skip
    return difference(model(*data), exact(*data))


@pytest.mark.parametrize(("algorithm", "options"), [("richardson", {}), ("chebyshev", {"spectrum": (0.5, 60.0)})])
def test_a_model_nears_the_exact_one_with_the_square_of_the_knots(algorithm, options):
    coarse, fine = (fitted(algorithm, 6, knots, problem(), **options) for knots in (128, 1024))
    assert fine < 1e-3
    assert fine < coarse / 16  # 64 foretold; errors of one sign or another do not add up evenly


def test_conjugate_gradients_get_there_too_with_more_knots():
    coarse, fine = (fitted("cg", 2, knots, problem()) for knots in (128, 1024))
    assert fine < 1e-2
    assert fine < coarse / 16


@pytest.mark.parametrize("algorithm", ["cg", "richardson"])
def test_values_stay_finite_for_200_steps(algorithm):
    trace = build(primitives="relu", algorithm=algorithm, steps=220, relu_knots=64).trace(*problem())
    assert all(bool(torch.isfinite(values).all()) for values in trace.values.values())
    assert trace.f.abs().max() < 100


def test_sharing_channels_changes_no_output():
    shared, apart = (build(primitives="relu", algorithm="richardson", share_channels=share) for share in (True, False))
    assert shared.budget.width < apart.budget.width
    assert difference(shared(*problem()), apart(*problem())) < 1e-12


def test_what_it_costs_is_in_the_budget():
    exact, relu = build().budget, build(primitives="relu", relu_knots=100).budget
    assert relu.gated_per_step == exact.gated_per_step + 3
    assert relu.overhead <= exact.overhead + 1
    assert relu.widest_gated == 2 * 2 * 100 + 2 * 2  # two products, two channels cleared
    assert relu.beyond_stock == ()


def test_units_alone_divide_nothing_but_one():
    with pytest.raises(InputError, match="only divide the constant 1"):
        ReLU().divide(1.0, Operand(3), Operand(4), one=0)
