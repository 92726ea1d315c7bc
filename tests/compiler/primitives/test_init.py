import json

import pytest
import torch

from ridgeformer.compiler import load_model
from ridgeformer.compiler.primitives import PRIMITIVES, ReLU, SwiGLU, choose
from ridgeformer.compiler.specification import Specification
from ridgeformer.core.errors import DataFileError, InputError, RidgeformerError, UnknownNameError

from .problems import build, problem


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown primitives 'swigle': did you mean 'swiglu'\?"):
        build(primitives="swigle")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("swiglu", {"reciprocal_range": (0.0, 1.0)}, "b_min < B"),
        ("swiglu", {"reciprocal_range": (2.0, 1.0)}, "b_min < B"),
        ("swiglu", {"reciprocal_range": (1e-40, 1.0)}, "1e-30 <= b_min"),
        ("swiglu", {"reciprocal_range": (1.0, float("inf"))}, "B <= 1e"),
        ("swiglu", {"reciprocal_range": (float("nan"), 1.0)}, "b_min < B"),
        ("swiglu", {"reciprocal_range": 3.0}, "two numbers"),
        ("swiglu", {"reciprocal_range": (1.0, 2.0, 3.0)}, "two numbers"),
        ("swiglu", {"reciprocal_range": ("low", "high")}, "two numbers"),
        ("swiglu", {"relu_knots": 8}, "have no relu_knots: leave it out, or choose primitives 'relu'"),
        ("exact", {"reciprocal_range": (1e-3, 1.0)}, "choose primitives 'swiglu' or 'relu'"),
        ("relu", {"relu_bound": 0.0}, "relu_bound is 0; it must be a finite number > 0"),
        ("relu", {"relu_bound": "big"}, "relu_bound is 'big'"),
        ("relu", {"relu_knots": 7}, "an even whole number"),
        ("relu", {"relu_knots": 0}, "an even whole number"),
        ("relu", {"relu_knots": 8.0}, "an even whole number"),
        ("relu", {"relu_knots": True}, "an even whole number"),
        ("relu", {"relu_knots": 2**20}, "from 2 to 65536"),
    ],
)
def test_bad_options_are_refused_in_one_line(name, options, message):
    with pytest.raises(InputError, match=message) as caught:
        choose(name, **options)
    assert isinstance(caught.value, RidgeformerError)
    assert "\n" not in str(caught.value)


def test_compile_passes_its_options_through_the_same_checks():
    with pytest.raises(InputError, match="b_min < B"):
        build(primitives="swiglu", reciprocal_range=(2.0, 1.0))
    with pytest.raises(InputError, match="an even whole number"):
        build(primitives="relu", relu_knots=7)
    with pytest.raises(InputError, match="have no relu_bound"):
        build("vanilla", primitives="exact", relu_bound=1.0)


def test_defaults_are_filled_in_and_kept_in_the_specification():
    assert (
        build(primitives="swiglu", reciprocal_range=None).spec.reciprocal_range
        == SwiGLU().reciprocal_range
        == (1e-12, 1e4)
    )
    relu = build(primitives="relu").spec
    assert (relu.reciprocal_range, relu.relu_bound, relu.relu_knots) == ((1e-2, 1e2), 8.0, 256)
    assert build().spec.reciprocal_range is None


@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_specification_survives_json(name):
    spec = build(primitives=name).spec
    assert Specification.from_dict(json.loads(json.dumps(spec.as_dict()))) == spec
    assert choose(name).name == name


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("swiglu", {"reciprocal_range": (1e-6, 1e2)}),
        ("relu", {"reciprocal_range": (0.01, 50.0), "relu_bound": 20.0, "relu_knots": 64}),
    ],
)
def test_a_saved_model_comes_back_bit_for_bit(name, options, tmp_path):
    model = build(primitives=name, **options)
    again = load_model(model.save(tmp_path / "model"))
    assert again.spec == model.spec
    assert again.budget == model.budget
    assert torch.equal(again(*problem()), model(*problem()))
    for key, weight in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], weight)


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [("primitives", "gelu", "unknown primitives"), ("reciprocal_range", [5.0, 1.0], "b_min < B")],
)
def test_a_foreign_configuration_is_refused(entry, value, message, tmp_path):
    directory = build(primitives="swiglu", reciprocal_range=(1e-2, 1.0)).save(tmp_path / "model")
    config = json.loads((directory / "config.json").read_text())
    config["specification"][entry] = value
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataFileError, match=message):
        load_model(directory)


def test_a_width_that_exact_units_more_than_fit_into_leaves_swiglu_a_feature_less():
    widths = {name: build(primitives=name).budget.width for name in PRIMITIVES}
    assert widths == {"exact": 15, "swiglu": 19, "relu": 16}
    squeezed = build(primitives="swiglu", width=18, sketch="orthogonal")
    assert squeezed.spec.carried == 3
    assert bool(torch.isfinite(squeezed(*problem())).all())


def test_a_choice_has_only_its_own_options():
    assert choose("relu", relu_bound=3, relu_knots=8, reciprocal_range=None) == ReLU(bound=3.0, knots=8)
    assert set(choose("exact").options) == set(choose("relu").options)
