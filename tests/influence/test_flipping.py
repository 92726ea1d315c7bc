import math

import pytest
import torch

from ridgeformer import errors
from ridgeformer.influence import AttentionFeatures, RawFeatures, leave_one_out, smallest_flipping_eps
from ridgeformer.influence.attacks import FGSM, PGD
from ridgeformer.kernels import DotProduct, Exponential
from tests.influence.influence_case import KERNELS, problem


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_bracket_holds_the_answer(name, norm):
    X, y, Xq = problem()
    attack = PGD(0.1, norm, steps=10, relative_step=0.25, random_start=False)
    found = smallest_flipping_eps(KERNELS[name](X), X, y, Xq, 0.3, attack, index=2, tolerance=0.01)
    assert 0 < found.certified <= found.found
    assert found.kept <= found.found <= found.kept * 1.02 or found.found == math.inf


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_for_the_dot_product_the_attack_reaches_the_certificate(norm):
    """Both factors are linear in the row, so one gradient step is the best attack there is."""
    X, y, Xq = problem()
    for i in range(6):
        found = smallest_flipping_eps(
            DotProduct(), X, y, Xq, 0.3, FGSM(0.1, norm), index=i, largest=1e3, tolerance=1e-6
        )
        assert found.certified == pytest.approx(found.found, rel=1e-5)


@pytest.mark.parametrize("features", [RawFeatures(), AttentionFeatures()])
def test_what_was_found_is_a_flip_of_the_recomputed_influence(features):
    X, y, Xq = problem(classes=2)
    kernel, attack = Exponential(1.0), FGSM(0.05)
    found = smallest_flipping_eps(kernel, X, y, Xq, 0.3, attack, index=1, query=3, output=1, features=features)

    def influence(X):
        rows, queries = features(X, Xq)
        return leave_one_out(kernel, rows, y, queries, 0.3)[1, 3, 1]

    before = float(influence(X))

    def flips(eps):
        corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 4)
        moved = [torch.cat([X[:1], X[1:2] + eps * corner, X[2:]]) for corner in corners]
        return any(float(influence(each)) * before < 0 for each in moved)

    assert math.isfinite(found.found)
    assert flips(found.found)  # the gradient's signs are one of the corners
    assert found.kept < found.found


def test_bounds_can_make_it_unflippable():
    X, y, Xq = problem()
    low, high = float(X.min()), float(X.max())
    tight = FGSM(0.1, bounds=(low, high))
    free = smallest_flipping_eps(DotProduct(), X, y, Xq, 0.3, FGSM(0.1), index=2, largest=1e4)
    bound = smallest_flipping_eps(DotProduct(), X, y, Xq, 0.3, tight, index=2, largest=1e4)
    assert bound.found >= free.found


def test_never_found_is_infinite():
    X, y, Xq = problem()
    found = smallest_flipping_eps(DotProduct(), X, y, Xq, 0.3, FGSM(1e-9), index=2, largest=1e-8)
    assert (found.kept, found.found) == (1e-8, math.inf)


def test_a_query_out_of_range():
    X, y, Xq = problem()
    with pytest.raises(errors.InputError, match="query is 99"):
        smallest_flipping_eps(DotProduct(), X, y, Xq, 0.3, FGSM(0.1), index=2, query=99)


def test_an_influence_of_zero_has_no_sign_to_keep():
    X, y, Xq = problem()
    found = smallest_flipping_eps(DotProduct(), X, y, 0 * Xq, 0.3, FGSM(0.1), index=2)
    assert (found.certified, found.kept, found.found) == (0, 0, 0)
