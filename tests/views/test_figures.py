import json
from math import log10

import numpy as np
import pytest

from ridgeformer.views.figures import MOST_TICKS, PALETTE, bars, curve, draw, figure_json, heat_map, log_axis, packed


@pytest.mark.parametrize("lowest", [1e-3, 1e-5, 1e-9, 1e-16])
def test_a_logarithmic_axis_has_few_ticks(lowest):
    step = log_axis("x", [1.0, 0.0], [lowest])["dtick"]
    assert step >= 1
    assert -round(log10(lowest)) / step <= MOST_TICKS


def test_few_decades_have_ticks_between_the_powers_of_ten():
    axis = log_axis("x", [0.3, 4.0])
    assert sum(0.3 <= tick <= 4 for tick in axis["tickvals"]) >= 3
    assert axis["ticktext"][axis["tickvals"].index(1.0)] == "1"


def test_nothing_to_show_is_no_error():
    assert log_axis("x", [0.0, float("inf")])["type"] == "log"


def test_an_axis_is_a_title_or_options():
    figure = draw([], "step", {"title": "error", "range": [0, 1]})
    assert figure["layout"]["xaxis"]["title"]["text"] == "step"
    assert figure["layout"]["yaxis"]["title"]["text"] == "error"
    assert figure["layout"]["yaxis"]["range"] == [0, 1]


def test_whiskers_are_given_by_their_ends():
    bar = bars([2.0, 3.0], ["a", "b"], "n", whiskers=([1.5, 2.0], [4.0, 3.5]))["error_x"]
    assert (list(bar["array"]), list(bar["arrayminus"])) == ([2.0, 0.5], [0.5, 1.0])
    assert list(curve([1], [2.0], "n", whiskers=([1.0], [5.0]))["error_y"]["array"]) == [3.0]


def test_colours_of_a_heat_map_are_symmetric_about_zero_if_the_sign_matters():
    signed, plain = heat_map([[-1.0, 3.0]], "n"), heat_map([[1.0, 3.0]], "n", signed=False)
    assert (signed["zmin"], signed["zmax"], plain["zmin"]) == (-3.0, 3.0, 0.0)


def test_json_keeps_every_bit_of_an_array_and_has_no_nan():
    figure = draw(
        [curve(np.arange(2), np.array([1 / 3, np.nan]), "a", PALETTE[1]), curve(None, [1.0, np.nan], "b")], "", ""
    )
    first, second = json.loads(figure_json(figure))["data"]
    assert first["y"] == packed(np.array([1 / 3, np.nan]))
    assert second["y"] == [1.0, None]
