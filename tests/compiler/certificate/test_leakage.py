"""A mask that lets a support or the aggregator read a query is caught, wherever it stands."""

import pytest

import ridgeformer as rf
from ridgeformer.compiler.sublayers import AttentionSublayer
from ridgeformer.language.roles import AGGREGATOR, ANCHOR, QUERY, SUPPORT, Mask, Rule
from tests.compiler.certificate.certified_tasks import build, draw


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
    from ridgeformer.compiler.certificate.leakage import _finding

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
