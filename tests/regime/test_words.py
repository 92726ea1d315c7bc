from dataclasses import replace

import pytest

from ridgeformer.datasets import Split, load
from ridgeformer.regime import Architecture, OutputDistance, Training, measure
from ridgeformer.regime.words import CLOSE, influence_supported, obstacles, sentences


@pytest.fixture(scope="module")
def measured():
    problem = Split.for_networks(load("digits"), rows=40, test_rows=20, seed=0, classes=("3", "8"))
    how = Training("descent", rate=1.0, epochs=60, l2=0.0)
    found = measure(problem, Architecture("relu", scale=1.0), how, width=2048, seed=0, ridge=1.0)
    return replace(found, to_ridge=OutputDistance(1.0, CLOSE / 2))  # as after long training


def test_a_wide_network_is_close(measured):
    assert influence_supported(measured)
    said = sentences(measured, ())
    assert said[0].startswith("At width 2,048 this network's kernel is within ")
    assert f"{100 * measured.kernel_start.whitened:.2g} %" in said[0]
    assert f"the kernel moved {100 * measured.kernel_drift:.2g} %" in said[1]
    assert said[-1].startswith("Influence by NTK is supported, with the limit kernel or the network's own")


@pytest.mark.parametrize(
    "change",
    [
        {"kernel_drift": 2 * CLOSE},
        {"to_linearised": OutputDistance(1.0, 2 * CLOSE)},
        {"to_linearised": None},
        {"to_ridge": OutputDistance(1.0, 2 * CLOSE)},
        {"kernel_drift": None},
        {"dead": True},
        {"diverged": True},
    ],
)
def test_each_condition_is_needed(measured, change):
    changed = replace(measured, **change)
    assert not influence_supported(changed)
    assert len(obstacles(changed)) == 1
    (said,) = [
        sentence for sentence in sentences(changed, ()) if sentence.startswith("Influence by NTK is not supported")
    ]
    assert obstacles(changed)[0] in said


def test_a_kernel_far_from_its_limit_leaves_the_network_s_own(measured):
    far = replace(measured, kernel_start=replace(measured.kernel_start, whitened=3.0))
    said = sentences(far, ())
    assert "300 % away from" in said[0]
    assert "with the network's own kernel" in said[-1]


def test_what_went_wrong_is_said(measured):
    assert any("diverged" in sentence for sentence in sentences(replace(measured, diverged=True), ()))
    assert any("is dead" in sentence for sentence in sentences(replace(measured, dead=True), ()))
