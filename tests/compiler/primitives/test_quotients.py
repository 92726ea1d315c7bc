import torch

from ridgeformer.compiler.layout import arrange, lives
from ridgeformer.compiler.primitives import ReLU, SwiGLU
from ridgeformer.language.program import Gate

from .problems import build, problem
from .sublayers import run_gate


def test_a_divisor_shared_by_two_quotients_is_inverted_once():
    values = {name: torch.linspace(0.5, 2.0, 7, dtype=torch.float64) + shift for shift, name in enumerate("xyb")}
    found = run_gate(SwiGLU((1e-2, 10.0)), values, z="x / b + y", w="y / b", clear="b")
    x, y, b = values.values()
    torch.testing.assert_close(found["z"], x / b + y, rtol=1e-14, atol=0)
    torch.testing.assert_close(found["w"], y / b, rtol=1e-14, atol=0)
    assert torch.equal(found["b"], torch.zeros_like(b))
    assert sum(gate.name.endswith("start") for gate in found.program.prelude) == 1


def test_two_divisors_are_inverted_side_by_side():
    values = {name: torch.linspace(0.5, 2.0, 7, dtype=torch.float64) + shift for shift, name in enumerate("xbc")}
    x, b, c = values.values()
    found = run_gate(SwiGLU((1e-2, 10.0)), values, z="x / b - 3 * x / c")
    torch.testing.assert_close(found["z"], x / b - 3 * x / c, rtol=1e-13, atol=0)
    assert found.program.prelude[-1].clear == ("inverse_b", "inverse_c")
    assert found.program.prelude[0].name == "1/b, 1/c: start"


def test_the_numerator_comes_last_and_the_caption_says_so():
    program = build(primitives="relu", relu_bound=4.0, reciprocal_range=(0.125, 8.0)).program
    gates = {gate.name: gate for gate in program.steps[0] if isinstance(gate, Gate)}
    assert gates["step size"].caption == "gamma = rho * 2 * inverse_s"
    assert gates["step size"].clear == ("s", "w", "inverse_s")
    assert gates["1/s"].caption == "inverse_s = 0.5 / s"


def test_a_quotient_the_units_do_natively_stays():
    found = run_gate(ReLU(), {"b": torch.ones(3, dtype=torch.float64)}, z="one / b")
    assert len(found.program.prelude) == 1
    assert "inverse_b" not in found.program.channels


def test_scratch_has_the_size_of_its_divisor_and_a_life_within_its_section():
    model = build(primitives="swiglu", outputs=3)
    sizes = {name: channel.size for name, channel in model.program.channels.items()}
    assert sizes["inverse_a"] == sizes["missing_a"] == "one"
    assert sizes["inverse_rho"] == sizes["missing_rho"] == "outputs"
    alive = lives(model.program)
    assert all(alive[name] is not None for name in ("inverse_s", "missing_s", "inverse_rho", "missing_a"))
    assert alive["inverse_a"] is None  # every step needs it
    assert arrange(model.program, 4, 3, share=True).used < arrange(model.program, 4, 3, share=False).used


def test_records_stay_where_they_were():
    X, y, Xq = problem()
    exact, swiglu = (build(primitives=name, steps=3).trace(X, y, Xq) for name in ("exact", "swiglu"))
    assert exact.values.keys() == swiglu.values.keys()
    for name, values in exact.values.items():
        torch.testing.assert_close(swiglu.values[name], values, rtol=1e-9, atol=1e-11)
