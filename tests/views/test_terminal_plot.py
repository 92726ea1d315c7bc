"""Plots in characters: the right marks in the right places."""

from ridgeformer.claims import Plot
from ridgeformer.views.terminal_plot import HEIGHT, draw


def test_a_line_goes_from_corner_to_corner():
    lines = draw(Plot("x", "y", [0, 1], {"up": [0, 1]}), 60).splitlines()
    body = [line.split("|", 1)[1] for line in lines[1 : HEIGHT + 1]]
    assert body[0].rstrip().endswith("*")
    assert body[-1].startswith("*")
    assert all("*" in line for line in body)


def test_logarithmic_axes_name_their_ends_and_leave_out_what_they_cannot_show():
    text = draw(Plot("size", "time", [1, 10, 100], {"power": [0.0, 1e-3, 1e3]}, log="xy"), 60)
    assert "1e+03" in text
    assert "0.001" in text
    assert text.splitlines()[-1] == "* power"


def test_nothing_to_draw_and_one_point():
    assert draw(Plot("x", "y", [1.0], {"gone": [float("nan")]})) == "(nothing to draw)"
    assert "*" in draw(Plot("x", "y", [1.0], {"dot": [1.0]}), 60)


def test_two_curves_have_two_marks():
    text = draw(Plot("x", "y", [0, 1], {"a": [0, 0]}, {"b": [1, 1]}), 60)
    assert text.splitlines()[-2:] == ["* a", "o b"]
