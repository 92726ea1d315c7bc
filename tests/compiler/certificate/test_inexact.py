"""The imitation's products are as far off as its tilt makes them."""

import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate.evidence import gather
from ridgeformer.compiler.certificate.inexact import measured_error, remainder
from tests.compiler.certificate.certified_tasks import build, draw


def test_the_remainder_is_the_difference_of_the_operators():
    X, _, _ = draw()
    S = (X - X.mean(0)) @ (X - X.mean(0)).T
    n, eps = len(S), 1e-2
    exact = (n / eps) * ((eps * S).softmax(1) - 1 / n) - S
    torch.testing.assert_close(remainder(S, eps), exact, atol=1e-10, rtol=0)


def test_the_error_of_a_product_follows_the_tilt():
    X, y, Xq = draw()
    errors = [measured_error(gather(build("imitation", None, X, epsilon=e), X, y, Xq)[0]) for e in (1e-2, 1e-3)]
    assert 5 < errors[0] / errors[1] < 20


def test_a_tilt_too_large_is_no_longer_the_same_problem():
    X, y, Xq = draw()
    certificate = rf.certify(build("imitation", None, X, epsilon=1.0, ridge=0.01), X, y, Xq)
    assert not certificate["inexactness"].holds


def test_uncentred_rows_are_centred_before_they_are_judged():
    X, y, Xq = draw()
    assert rf.certify(build("imitation", None, X), X + 3.0, y, Xq + 3.0).holds
