import pytest
import torch
from torch import nn

from ridgeformer.compiler.primitives import Operand, SwiGLU, newton_error, newton_sweeps
from ridgeformer.compiler.sublayers import GatedMLP
from ridgeformer.core.errors import InputError
from ridgeformer.language.interpreter import interpret, read
from ridgeformer.language.program import Channel, Gate, Record

from .problems import build, difference, problem
from .sublayers import run_gate, spread

NARROW = (1e-6, 1e2)


class StockSwiGLU(nn.Module):
    """w_down(silu(w_gate x) * w_up x), as in any transformer library."""

    def __init__(self, width, hidden, dtype):
        super().__init__()
        self.w_gate = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.w_up = nn.Linear(width, hidden, bias=False, dtype=dtype)
        self.w_down = nn.Linear(hidden, width, bias=False, dtype=dtype)

    def forward(self, x):
        return x + self.w_down(nn.functional.silu(self.w_gate(x)) * self.w_up(x))


def stock(sublayer):
    block = StockSwiGLU(*sublayer.W_a.shape, sublayer.W_a.dtype)
    weights = {"w_gate.weight": sublayer.W_b.T, "w_up.weight": sublayer.W_a.T, "w_down.weight": sublayer.W_d.T}
    block.load_state_dict(weights)
    return block


@torch.no_grad()
def run_stock(model, X, y, Xq):
    """What a model records when its gated sublayers are replaced by stock blocks: name to (steps, tokens)."""
    X, y, Xq = (given.to(model.spec.torch_dtype) for given in (X, y, Xq))
    tokens, stream, found = model.tokens(len(X), len(Xq)), model.stream(X, y[:, None], Xq), {}
    blocks = {id(s): stock(s) for s in model.modules() if isinstance(s, GatedMLP)}
    for _, instruction, sublayer in model.schedule:
        if isinstance(instruction, Record):
            value = model.channel(instruction.channel, stream, instruction.role, tokens)
            found.setdefault(instruction.name, []).append(instruction.scale * value[:, 0])
        else:
            stream = blocks[id(sublayer)](stream) if id(sublayer) in blocks else sublayer(stream, tokens)
    return {name: torch.stack(values) for name, values in found.items()}


@pytest.mark.parametrize(("seed", "k", "steps"), [(0, 12, 3), (1, 20, 6), (2, 30, 6)])
def test_softmax_cg_in_stock_blocks_equals_the_exact_model(seed, k, steps):
    X, y, Xq = problem(seed, k)
    exact, swiglu = (build(primitives=name, steps=steps, reciprocal_range=None) for name in ("exact", "swiglu"))
    assert difference(run_stock(swiglu, X, y, Xq)["f"][-1], exact(X, y, Xq)) < 1e-9
    assert difference(exact(X, y, Xq), build(steps=steps - 1)(X, y, Xq)) > 1e-3  # a step more or less would show


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        ("softmax", {"algorithm": "richardson"}),
        ("softmax", {"algorithm": "chebyshev", "spectrum": (0.5, 60.0)}),
        ("softmax", {"through_aggregator": True}),
        ("softmax", {"outputs": 2, "tied": False}),
        ("linear", {"algorithm": "cg", "steps": 3}),
        ("linear", {"algorithm": "pcg", "steps": 3}),
        ("linear", {"algorithm": "richardson"}),
        ("imitation", {"steps": 2}),
    ],
)
def test_every_route_equals_its_exact_model(attention, options):
    X, y, Xq = problem(3, outputs=options.get("outputs"))
    exact, swiglu = (build(attention, name, **options) for name in ("exact", "swiglu"))
    assert difference(swiglu(X, y, Xq), exact(X, y, Xq)) < 1e-9
    assert {gate for s in swiglu.modules() if isinstance(s, GatedMLP) for gate in s.gates} == {"silu"}


def test_nothing_goes_beyond_a_stock_transformer():
    assert build(primitives="swiglu").budget.beyond_stock == ()
    assert build("linear", "swiglu").budget.beyond_stock == ("linear attention (no softmax)",)


def test_the_vanilla_route_has_nothing_to_rewrite():
    exact, swiglu = (build("vanilla", name) for name in ("exact", "swiglu"))
    assert exact.budget == swiglu.budget
    X, y, Xq = problem()
    assert torch.equal(exact(X, y, Xq), swiglu(X, y, Xq))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-15), (torch.float32, 5e-7)])
def test_products_are_exact_to_rounding_at_any_magnitude(dtype, tolerance):
    generator = torch.Generator().manual_seed(1)
    x, y = spread(generator, dtype=dtype), spread(generator, dtype=dtype)
    exact = x.double() * y.double()
    found = run_gate(SwiGLU(), {"x": x, "y": y}, z="x * y")
    assert ((found["z"].double() - exact) / exact).abs().max() < tolerance
    assert len(found.modules[0].gates) == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_moves_and_clears_are_exact_bit_for_bit(dtype):
    tiny, large = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max / 256
    ends = torch.tensor([tiny, tiny / 8, -tiny / 1024, large, -large, 1.0, 1 / 3, 0.0], dtype=dtype)
    x = torch.cat([spread(torch.Generator().manual_seed(2), dtype=dtype), ends])
    found = run_gate(SwiGLU(), {"x": x}, z="x", clear="x")
    assert torch.equal(found["z"], x)
    assert torch.equal(found["x"], torch.zeros_like(x))


@pytest.mark.parametrize(("span", "sweeps"), [(1e4, 19), (1e8, 32), (1e12, 45)])
def test_so_many_sweeps_reach_1e14_over_the_range(span, sweeps):
    assert newton_sweeps(1 / span, 1.0) == sweeps
    units = SwiGLU((3.0 / span, 3.0))
    b = 3.0 * 10 ** torch.linspace(-torch.tensor(span).log10().item(), 0.0, 4001, dtype=torch.float64)
    found = run_gate(units, {"b": b}, z="one / b")
    assert (found["z"] * b - 1).abs().max() < 1e-14
    assert sum("sweep" in gate.name for gate in found.program.prelude) == sweeps


def test_one_sweep_less_would_not_do():
    assert newton_error(1e-4, 1.0, 19) <= 1e-14 < newton_error(1e-4, 1.0, 18)


def test_the_error_before_convergence_is_the_one_foretold():
    units = SwiGLU((1e-3, 1.0))
    b = torch.logspace(-9, -3.2, 60, dtype=torch.float64)
    found = run_gate(units, {"b": b}, z="one / b")
    foretold = torch.tensor([newton_error(float(value), 1.0, units.sweeps) for value in b], dtype=torch.float64)
    torch.testing.assert_close(1 - b * found["z"], foretold, rtol=1e-9, atol=1e-14)
    assert foretold.max() > 0.99


def test_below_its_range_an_inverse_is_too_small_and_never_too_large():
    units = SwiGLU(NARROW)
    b = torch.cat([torch.zeros(1), torch.logspace(-300, -6.5, 500)]).double()
    z = run_gate(units, {"b": b}, z="one / b")["z"]
    assert bool((z > 0).all())
    assert bool((z <= 2.0**units.sweeps / NARROW[1] * (1 + 1e-12)).all())
    assert bool((z[1:] * b[1:] <= 1 + 1e-15).all())


@pytest.mark.parametrize(
    ("attention", "dtype"), [("softmax", "float64"), ("softmax", "float32"), ("linear", "float32")]
)
def test_a_converged_network_idles_for_200_steps(attention, dtype):
    X, y, Xq = problem(k=8)
    model = build(attention, "swiglu", steps=210, ridge=2.0, reciprocal_range=(1e-4, 1e2), dtype=dtype)
    found = run_stock(model, X, y, Xq)
    assert all(bool(torch.isfinite(values).all()) for values in found.values())
    K, k = ((rows @ X.T).exp() if attention == "softmax" else rows @ X.T for rows in (X, Xq))
    solved = k @ torch.linalg.solve(K + 2.0 * torch.eye(8), y)
    assert difference(found["f"][9].double(), solved) < 1e-2
    assert difference(found["f"][-1].double(), solved) < 1e-4
    assert found["r"][-1].norm() <= found["r"][9].norm()
    assert float(found["rho"][-1].max()) < 1e-6  # far below the range


def test_zero_targets_stay_zero():
    X, y, Xq = problem()
    assert torch.equal(build(primitives="swiglu")(X, 0 * y, Xq), torch.zeros(4, dtype=torch.float64))


def test_scratch_is_exactly_zero_between_inversions():
    X, y, Xq = problem()
    model = build(primitives="swiglu", share_channels=False, reciprocal_range=NARROW)
    names = ("missing_", "inverse_s", "inverse_rho")
    scratch = [c for name, cs in model.layout.columns.items() if name.startswith(names) for c in cs]
    seen = []

    def look(place, sublayer, before, after):
        if place.endswith((".direction ratio", ".turn", ".curvature")):
            seen.append(after[..., scratch])

    model.run_with_hook(look, X, y, Xq)
    assert len(scratch) == 5
    assert len(seen) == 3 * model.spec.steps
    assert all(torch.equal(values, torch.zeros_like(values)) for values in seen)


def test_sharing_channels_changes_no_output():
    X, y, Xq = problem(5)
    shared, apart = (build(primitives="swiglu", share_channels=share) for share in (True, False))
    assert shared.budget.width < apart.budget.width
    assert difference(shared(X, y, Xq), apart(X, y, Xq)) < 1e-11


def test_the_interpreter_runs_the_sweeps_and_agrees():
    X, y, Xq = problem(6)
    model = build(primitives="swiglu", reciprocal_range=NARROW, steps=3)
    tokens, readings = model.tokens(len(X), len(Xq)), []
    for _, instruction, state in interpret(model.program, tokens, X, y[:, None], Xq, 3):
        if isinstance(instruction, Record) and instruction.name == "f":
            readings.append(read(instruction, state, tokens))
    assert difference(model.trace(X, y, Xq).f, torch.stack(readings)) < 1e-12
    gates = [gate for _, gate in model.program.timeline() if isinstance(gate, Gate)]
    terms = [term for gate in gates for _, found in gate.assignments for term in found]
    assert terms
    assert not any(term.divisor for term in terms)


def test_what_it_costs_is_in_the_budget():
    exact, swiglu = build().budget, build(primitives="swiglu", reciprocal_range=(1e-4, 1.0)).budget
    inversion = 1 + 19 + 3  # start, sweeps, and what is missing measured before sweeps 9, 17 and 19
    assert swiglu.gated_per_step == exact.gated_per_step + inversion  # of s and rho, side by side
    assert swiglu.attention_per_step == exact.attention_per_step
    assert swiglu.sublayers - exact.sublayers == 5 * inversion + 1 + inversion  # a is inverted once, before the steps
    assert swiglu.overhead <= exact.overhead + 4  # inverses of a, s and rho, and what two of them miss
    assert swiglu.widest_gated <= 12


def test_softmax_cg_takes_75_gated_layers_a_step_at_full_accuracy():
    X, y, Xq = problem(1, 12, 3)
    options = {"primitives": "swiglu", "reciprocal_range": None, "ridge": 0.1, "temperature": 0.5, "steps": 12}
    model = build(**options)
    assert model.budget.gated_per_step == 75
    K, k = ((rows @ X.T / 0.5).exp() for rows in (X, Xq))
    exact = k @ torch.linalg.solve(K + 0.1 * torch.eye(12, dtype=K.dtype), y)
    assert difference(model(X, y, Xq), exact) < 1e-8
    assert difference(model(X, y, Xq), build(**{**options, "primitives": "exact"})(X, y, Xq)) < 1e-9


def test_a_weight_is_inverted_up_to_1_and_once():
    program = build(primitives="swiglu", reciprocal_range=None).program
    assert "inverse_a" in program.channels
    assert "by 45 Newton sweeps" in program.channels["inverse_a"].meaning
    assert not any("a" in instruction.writes for instruction in program.steps[0] if not isinstance(instruction, Record))
    assert SwiGLU((1e-2, 10.0)).range_of(Channel("b", "one", "")) == (1e-2, 10.0)
    assert SwiGLU((1e-2, 10.0)).range_of(Channel("b", "one", "", most=1.0)) == (1e-2, 1.0)
    assert SwiGLU((2.0, 10.0)).range_of(Channel("b", "one", "", most=1.0)) == (2.0, 10.0)


@pytest.mark.parametrize("algorithm", ["richardson", "cg"])
def test_a_step_that_divides_by_what_the_prelude_divided_by_inverts_it_once(algorithm):
    program = build(primitives="swiglu", algorithm=algorithm, reciprocal_range=NARROW).program
    gates = [gate.name for _, gate in program.timeline() if isinstance(gate, Gate)]
    assert gates.count("1/a: start") == 1


def test_the_overhead_does_not_depend_on_the_range_or_the_features():
    narrow = build(primitives="swiglu", reciprocal_range=(0.1, 1.0)).budget.overhead
    assert build(primitives="swiglu", features=9).budget.overhead == narrow


def test_supports_do_not_depend_on_queries():
    X, y, Xq = problem(7, k=8)
    Xq.requires_grad_(True)
    trace = build(primitives="swiglu", reciprocal_range=NARROW, steps=2).trace(X, y, Xq)
    (of_supports,) = torch.autograd.grad(trace.alpha.square().sum(), Xq, retain_graph=True)
    (of_queries,) = torch.autograd.grad(trace.f.square().sum(), Xq)
    assert torch.equal(of_supports, torch.zeros_like(Xq))
    assert of_queries.abs().min() > 0


def test_explain_shows_the_sweeps_in_few_lines():
    text = build(primitives="swiglu", reciprocal_range=None).explain()
    assert "inverse_rho 1 / rho, by 59 Newton sweeps" in text
    assert "missing_a = 1 - a * inverse_a" in text
    assert "u = o * inverse_a + ridge * p   [clears o]" in text
    assert "o = softmax attention to p and to the sink" in text
    assert "[8 times]" in text
    assert len(text.splitlines()) < 110


def test_units_alone_do_not_divide():
    with pytest.raises(InputError, match="do not divide"):
        SwiGLU().divide(1.0, Operand(3), Operand(4), one=0)
