"""Mechanism: states that are used pass, states that are only decodable do not, rotated models are read alike."""

import pytest

import ridgeformer as rf
from ridgeformer.identification import identify


def examine(model):
    return identify(model, candidates=["cg", "gd", "ridge"], controls=False).mechanism


@pytest.fixture(scope="module")
def linear():
    return examine(rf.compile(rf.DotProduct(), rf.ConjugateGradients(steps=3), features=3, ridge=0.5))


def test_conjugate_gradients_are_confirmed_and_descent_is_not(linear):
    assert linear.confirmed == ("3 steps of conjugate gradients",)
    assert "confirmed by probe and patch" in linear.sentence


def test_alpha_of_linear_conjugate_gradients_is_decodable_and_inert(linear):
    alphas = [one for one in linear.tests["3 steps of conjugate gradients"] if one.state == "alpha"]
    assert alphas
    for one in alphas:
        assert one.probe > 0.999
        assert one.effect < 1e-6
        assert one.verdict == "decodable and inert, as predicted"


def test_search_directions_are_used(linear):
    directions = [one for one in linear.tests["3 steps of conjugate gradients"] if one.state == "p"]
    assert all(one.driving and one.concordance > 0.99 for one in directions)


def test_compiled_descent_is_descent_by_coefficients():
    model = rf.compile(rf.DotProduct(), rf.Richardson(steps=3, step_size=0.02), features=3, ridge=0.5)
    assert examine(model).confirmed == ("3 steps of gradient descent by coefficients",)
