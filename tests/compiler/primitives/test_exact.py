import torch

from ridgeformer.compiler.primitives import Exact
from ridgeformer.compiler.specification import write_program

from .problems import build
from .sublayers import run_gate, spread


def test_one_unit_a_term():
    generator = torch.Generator().manual_seed(0)
    x, y = spread(generator), spread(generator).abs()  # divisors are positive
    found = run_gate(Exact(), {"x": x, "y": y}, z="2 * x / y + x * y - 3 * x", clear="x")
    assert torch.equal(found["x"], torch.zeros_like(x))
    torch.testing.assert_close(found["z"], 2 * x / y + x * y - 3 * x, rtol=1e-12, atol=1e-12)
    assert sorted(found.modules[0].gates) == ["identity"] * 3 + ["reciprocal"]


def test_the_program_is_left_as_it_is_and_named_as_the_default():
    model = build()
    assert model.spec.primitives == "exact"
    assert Exact().rewrite(model.program) is model.program
    assert [len(s) for s in write_program(model.spec).steps] == [len(s) for s in model.program.steps]
    assert model.budget.beyond_stock == ("bilinear units (a gate without its sigmoid)", "guarded reciprocal units")
