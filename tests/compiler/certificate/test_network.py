"""Every edit of the weights is seen, however small, and so is a mask that lets a support read a query."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate.network import check_weights
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.core.errors import InputError
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, QUERY, SUPPORT, Mask, Rule
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


def leak(model, head, reader):
    """Let tokens of a role read the queries in every head of this name."""
    for layer in model.modules():
        if isinstance(layer, AttentionSublayer):
            for number, name in enumerate(layer.heads):
                if name == head:
                    layer.masks[number] = Mask((*layer.masks[number].rules, Rule(reader, QUERY)))


@pytest.mark.parametrize(
    ("attention", "head", "reader"),
    [
        ("linear", "kernel product", SUPPORT),
        ("linear", "p'u", SUPPORT),
        ("softmax", "mean", SUPPORT),
        ("softmax", "mean", AGGREGATOR),
        ("softmax", "kernel product", SUPPORT),
        ("vanilla", "update anchors", ANCHOR),
        ("imitation", "centre", SUPPORT),
        ("imitation", "count", AGGREGATOR),
    ],
)
def test_a_leaking_mask_is_caught(attention, head, reader):
    X, y, Xq = draw()
    model = build(attention, None, X)
    assert rf.certify(model, X, y, Xq)["leakage"].measured == 0.0
    leak(model, head, reader)
    check = rf.certify(model, X, y, Xq)["leakage"]
    assert not check.holds
    assert check.measured > 0
    assert "depends on a query from sublayer" in check.what


def test_every_sublayer_is_looked_at():
    X, y, Xq = draw()
    model = build("softmax", "cg", X)
    measured = rf.certify(model, X, y, Xq).curves["leakage"].measured
    assert measured.shape == (1, sum(isinstance(layer, AttentionSublayer) for _, _, layer in model.schedule))
    assert (measured == 0.0).all()


def test_long_after_convergence_it_is_still_exactly_zero():
    X, y, Xq = draw(supports=10)
    for dtype in ("float32", "float64"):
        assert rf.certify(build("softmax", "cg", X, steps=80, dtype=dtype), X, y, Xq)["leakage"].holds


def test_a_network_whose_queries_nothing_moves_proves_nothing():
    from ridgeformer.compiler.certificate.network import _finding

    assert not _finding([("step 1.mean", 0.0)], alive=False, probed="all").met
    assert _finding([("step 1.mean", 0.0)], alive=True, probed="all").met


def test_all_is_probed_up_to_the_budget_and_the_fraction_is_said():
    X, y, Xq = draw(supports=40, queries=5, outputs=3, tasks=2)
    model = build("linear", "cg", X, outputs=3)
    condition = rf.certify(model, X, y, Xq)["leakage"].condition
    assert "40 of 40 supports and 5 of 5 queries of 2 of 2 tasks, 100 % of the tokens; every output of 3" in condition
    X, y, Xq = draw(supports=500, queries=100)
    condition = rf.certify(build("linear", "cg", X, steps=2), X, y, Xq)["leakage"].condition
    assert "256 of 500 supports and 64 of 100 queries of 1 of 1 tasks, 53.3 % of the tokens" in condition


def test_a_leak_of_one_output_into_late_supports_is_caught():
    """The head of the second output alone, in a batch of more than sixteen supports."""
    X, y, Xq = draw(supports=40, outputs=2, tasks=2)
    model = build("linear", "cg", X, outputs=2)
    leak(model, "p'u 2", SUPPORT)
    assert not rf.certify(model, X, y, Xq)["leakage"].holds
