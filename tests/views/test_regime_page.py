"""The kernel-regime page: it shows the numbers of the answer, and leaves out what a network does not have."""

import numpy as np
import pytest
from torch import nn

from ridgeformer.core.words import number
from ridgeformer.datasets import Split, load
from ridgeformer.regime import Architecture, CustomArchitecture, Training, answer_regime
from ridgeformer.views import write_page
from ridgeformer.views.regime_page import (
    DISTANCES,
    criteria_table,
    regime_page,
    spectra_table,
    training_table,
    widths_table,
)

QUICK = {"width": 32, "widest": 10_000, "training": Training("descent", epochs=5, l2=0.0)}


def digits():
    return Split.for_networks(load("digits"), rows=30, test_rows=15)


@pytest.fixture(scope="module")
def attention():
    return answer_regime(digits(), Architecture("mlp-attn", scale=1.0), **QUICK)


@pytest.fixture(scope="module")
def custom():
    def net(features, outputs, width):
        return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, outputs))

    return answer_regime(digits(), CustomArchitecture(net), model="mine:net", **QUICK)


def pictures(page):
    return {section.title: section.pictures[0].figure for section in page.sections if section.pictures}


def test_the_answer_comes_first_and_is_written(attention, tmp_path):
    page = regime_page(attention)
    assert page.answer == attention.sentences
    text = write_page(regime_page(attention), tmp_path / "page.html").read_text()
    assert text.index("At width 32 this network") < text.index("How wide is wide enough</h2>")


def test_widths_are_drawn_with_a_line_of_slope_minus_a_half(attention):
    figure = pictures(regime_page(attention))["How the kernel approaches its limit"]
    named = {trace.get("name"): trace for trace in figure["data"]}
    for name in DISTANCES:
        assert list(named[name]["y"]) == [getattr(one, name) for _, one in attention.at_widths]
        assert named[f"{name}, trained network"]["y"] == [getattr(attention.measured.kernel_start, name)]
    dashed = [trace for trace in figure["data"] if trace.get("line", {}).get("dash") == "dash"]
    assert len(dashed) == len(DISTANCES)
    for trace in dashed:
        slope = np.polyfit(np.log(trace["x"]), np.log(trace["y"]), 1)[0]
        assert slope == pytest.approx(-0.5)


def test_training_curves_and_spectra_are_those_of_the_answer(attention):
    drawn = pictures(regime_page(attention))
    network, linear = drawn["What training did"]["data"]
    assert list(zip(network["x"], network["y"], strict=True)) == list(attention.measured.curve)
    assert list(linear["y"]) == [loss for _, loss in attention.measured.linearised_curve]
    rows, attended = drawn["The spectrum of the rows"]["data"]
    assert rows["y"] == pytest.approx(attention.spectrum.nonzero / attention.spectrum.nonzero[0])
    assert len(attended["y"]) == attention.attended.rank


def test_tables(attention):
    assert [row[0] for row in criteria_table(attention).rows][-1] == "published"
    assert len(widths_table(attention).rows) == len(attention.at_widths)
    assert dict(training_table(attention).rows)["kernel moved"] == number(attention.measured.kernel_drift)
    last = spectra_table(attention).rows[-1]
    assert last[1] == "min(n, d)"
    beyond = attention.attended.rank < len(attention.attended.eigenvalues)
    assert (last[-1] == "round-off") is beyond


def test_a_network_without_a_limit_has_no_widths(custom):
    titles = [section.title for section in regime_page(custom).sections]
    assert titles == ["What training did", "The spectrum of the rows", "What was done"]
    assert dict(training_table(custom).rows)["test error"] == number(custom.measured.test_error)
