"""Every edit of the weights is seen, however small, and the reference stays the specification's."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate.weights import check_weights
from ridgeformer.core.errors import InputError
from ridgeformer.language.roles import QUERY, SUPPORT, Mask, Rule
from tests.compiler.certificate.certified_tasks import build, draw


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("attention", ["linear", "softmax", "vanilla", "imitation"])
def test_compiled_weights_are_the_specifications(attention, dtype, tmp_path):
    X, _, _ = draw()
    U = draw(supports=4, seed=1)[0]
    for options in ({}, {"projection": U}, {"tied": False}):
        model = build(attention, None, X, dtype=dtype, **options)
        assert check_weights(model).measured == 0
        assert check_weights(rf.load_model(model.save(tmp_path / "model"))).measured == 0


def test_the_first_tensor_that_differs_is_named_with_its_number_of_entries():
    X, y, Xq = draw()
    model = build("softmax", "cg", X)
    weight = model.steps[0][0].W_K[0].detach()
    entries = weight.nonzero()[:2]
    for place in entries:
        weight[tuple(place)] *= 1 + 2.0**-52
    line = rf.certify(model, X, y, Xq).checks[0]
    assert (line.name, line.kind, line.holds, line.measured) == ("weights", "observed", False, 2.0)
    assert "steps.0.0.W_K.0 differs first, in 2 of its entries" in line.what


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), float("inf"), 2.0])
def test_any_other_value_is_seen(value):
    X, _, _ = draw()
    model = build("linear", "cg", X)
    weight = next(model.parameters()).detach()
    place = tuple((weight == 0).nonzero()[0]) if str(value) == "-0.0" else tuple(weight.nonzero()[0])
    weight[place] = value
    assert check_weights(model).measured == 1


def test_masks_are_compared_too():
    X, _, _ = draw()
    model = build("linear", "cg", X)
    layer = model.steps[0][0]
    layer.masks[0] = Mask((*layer.masks[0].rules, Rule(SUPPORT, QUERY)))
    assert "steps.0.0 (masks or gates)" in check_weights(model).what


@pytest.mark.parametrize("name", ["embedding", "unsketched"])
def test_a_projection_that_was_changed_is_refused(name):
    """The specification names it by its SHA-256: there is no other record of what was to be solved."""
    X, y, Xq = draw()
    full = build("linear", None, X)
    model = build("linear", None, X, width=full.budget.overhead + 3, sketch="gaussian")
    getattr(model, name)[0, 0] += 1.0
    with pytest.raises(InputError, match="SHA-256"):
        rf.certify(model, X, y, Xq)


def test_the_projection_given_is_copied():
    X, y, Xq = draw()
    U = torch.eye(X.shape[1], dtype=torch.float64)
    model = build("linear", None, X, projection=U)
    U.zero_()
    assert rf.certify(model, X, y, Xq)["weights"].holds
