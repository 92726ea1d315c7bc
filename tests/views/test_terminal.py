"""Plots in characters: the right marks in the right places."""

import numpy as np

from ridgeformer.claims import Plot
from ridgeformer.views.terminal import HEIGHT, LARGEST, SHADES, blocks, draw_curves, side_by_side


def test_a_line_goes_from_corner_to_corner():
    lines = draw_curves(Plot("x", "y", [0, 1], {"up": [0, 1]}), 60).splitlines()
    body = [line.split("|", 1)[1] for line in lines[1 : HEIGHT + 1]]
    assert body[0].rstrip().endswith("*")
    assert body[-1].startswith("*")
    assert all("*" in line for line in body)


def test_logarithmic_axes_name_their_ends_and_leave_out_what_they_cannot_show():
    text = draw_curves(Plot("size", "time", [1, 10, 100], {"power": [0.0, 1e-3, 1e3]}, log="xy"), 60)
    assert "1e+03" in text
    assert "0.001" in text
    assert text.splitlines()[-1] == "* power"


def test_nothing_to_draw_and_one_point():
    assert draw_curves(Plot("x", "y", [1.0], {"gone": [float("nan")]})) == "(nothing to draw)"
    assert "*" in draw_curves(Plot("x", "y", [1.0], {"dot": [1.0]}), 60)


def test_two_curves_have_two_marks():
    text = draw_curves(Plot("x", "y", [0, 1], {"a": [0, 0]}, {"b": [1, 1]}), 60)
    assert text.splitlines()[-2:] == ["* a", "o b"]


def test_large_images_are_averaged_down_and_colours_to_grey():
    image = np.zeros((28, 28, 3))
    image[14:] = 1.0
    lines = blocks(image)
    assert len(lines) == LARGEST
    assert lines[0] == SHADES[0] * 2 * LARGEST
    assert lines[-1] == SHADES[-1] * 2 * LARGEST


def test_a_constant_image_is_drawn():
    assert blocks(np.ones((1, 2))) == [SHADES[0] * 4]


def test_only_as_many_as_fit():
    assert side_by_side(["one", "two"], [["##"], ["%%"]], 8) == "one\n##"
