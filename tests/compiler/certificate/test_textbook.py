"""Equality with the textbook is claimed where it can be, and only there."""

import torch

import ridgeformer as rf
from tests.compiler.certificate.certified_tasks import build, draw, wrong
from tests.compiler.tasks import compiled


def test_conjugate_gradients_are_claimed_until_orthogonality_is_lost():
    X, y, Xq = draw(supports=60)
    certificate = rf.certify(build("softmax", "cg", X, ridge=1e-3, steps=30), X, y, Xq)
    check, curve = certificate["textbook steps"], certificate.curves["textbook steps"]
    claimed = int(check.what.split(" to ")[1].split()[0])
    assert 5 <= claimed < 30
    assert check.holds
    assert curve.measured[0, : min(claimed, 6)].max() < 1e-9


def test_fixed_coefficients_are_claimed_to_the_end():
    X, y, Xq = draw()
    for algorithm in ("richardson", "chebyshev", "heavy_ball", "nesterov"):
        check = rf.certify(build("linear", algorithm, X, steps=30), X, y, Xq)["textbook steps"]
        assert "steps 1 to 30 of 30" in check.what


def test_a_change_in_the_ninth_digit_is_seen():
    X, y, Xq = draw()
    model = build("linear", "cg", X)
    with torch.no_grad():
        for layer in model.modules():
            if getattr(layer, "heads", None) and "ridge" in layer.heads:
                layer.W_Q[layer.heads.index("ridge")].mul_(1 + 1e-8)
    certificate = rf.certify(model, X, y, Xq)
    assert wrong(certificate) == ["weights", "textbook steps"]


def test_one_row_cannot_be_permuted_and_is_no_failure():
    net = compiled("softmax", algorithm="chebyshev", features=2, ridge=0.1, steps=12, spectrum=(0.1, 8.0))
    X = torch.full((1, 2), 0.7, dtype=torch.float64)
    assert not wrong(rf.certify(net, X, torch.ones(1, dtype=torch.float64), 0.7 * X))
