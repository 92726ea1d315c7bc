"""Mechanism: states that are used pass, states that are only decodable do not, rotated models are read alike."""

from dataclasses import replace

import pytest
import torch

import ridgeformer as rf
from ridgeformer.identification import FAMILIES, Tasks, adapters, identify
from ridgeformer.identification.candidates import Member
from ridgeformer.studies.trained_networks import FEATURES, LinearAttentionNetwork, covariance, draw_tasks

THREE = [replace(FAMILIES[name], members=(Member(3),)) for name in ("cg", "gd")]


def examine(model, candidates=THREE):
    return identify(model, candidates=candidates, controls=False).mechanism


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
    assert directions
    assert all(one.driving and one.concordance > 0.99 for one in directions)


def test_compiled_descent_is_descent_by_coefficients():
    model = rf.compile(rf.DotProduct(), rf.Richardson(steps=3, step_size=0.02), features=3, ridge=0.5)
    assert "3 steps of gradient descent by coefficients" in examine(model).confirmed


@pytest.mark.slow
def test_a_rotated_stock_class_is_recognised_and_its_search_directions_are_used():
    """The stream of a rotated softmax network holds more than the states, and a patch of r moves some of that too."""
    options = {"features": 3, "ridge": 0.5, "primitives": "swiglu"}
    model = rf.compile(rf.Exponential(4.0), rf.ConjugateGradients(steps=3), **options)
    exported = rf.export.to_hf(model, "t5", rotate=7)
    families = [replace(FAMILIES[name], members=(Member(3),)) for name in ("kernel_cg_exponential", "cg", "gd")]
    found = identify(exported, candidates=families, controls=False)
    assert found.verdict.keys == {"kernel_cg_exponential-3"}
    tests = found.mechanism.tests["3 steps of conjugate gradients with the exponential kernel"]
    directions = [one for one in tests if one.state == "p"]
    assert len(directions) == 2
    assert all(one.driving and one.passed for one in directions)
    assert all(one.probe > 0.99 for one in tests)
    assert set(found.mechanism.confirmed) <= {"3 steps of conjugate gradients with the exponential kernel"}


def steps_in_layers(sizes):
    """Return linear attention whose layers make steps of covariance-preconditioned descent of these sizes."""
    network = LinearAttentionNetwork(len(sizes), FEATURES, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for A, size in zip(network.A, sizes, strict=True):
            A.copy_(size * torch.linalg.inv(covariance(10.0)))
    return network


@pytest.mark.parametrize("sizes", [(0.5, 1.2), (1.2, 0.5)])
def test_the_order_of_steps_is_settled_inside(sizes):
    group = draw_tasks("linear", 10.0, 24, torch.Generator().manual_seed(1))
    tasks = Tasks("the training distribution", (group,), covariance(10.0))
    families = [replace(FAMILIES[name], members=(Member(2, True),)) for name in ("gd_covariance", "gd")]
    model = adapters.QueryLast(steps_in_layers(sizes))
    found = identify(model, tasks, families, layers=["layers.0", "layers.1"], controls=False)
    assert found.verdict.keys == {"gd_covariance-2/k"}
    orders = [name for name in found.mechanism.tests if name.endswith("in this order")]
    assert len(orders) == 2
    [confirmed] = found.mechanism.confirmed
    assert confirmed.endswith(f"sizes {sizes[0]:g}, {sizes[1]:g} in this order")
    [test] = found.mechanism.tests[confirmed]
    assert test.probe > 0.999
    assert test.twin is not None
    assert test.twin < 0.95
