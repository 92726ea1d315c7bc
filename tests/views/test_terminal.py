"""Plots in characters: the right marks in the right places."""

from ridgeformer.claims import Curve, Plot
from ridgeformer.views.terminal_plot import HEIGHT, draw


def test_a_line_goes_from_corner_to_corner():
    lines = draw(Plot((Curve("up", (0.0, 1.0), (0.0, 1.0)),), "x", "y", ""), 60).splitlines()
    body = [line.split("|", 1)[1] for line in lines[1 : HEIGHT + 1]]
    assert body[0].rstrip().endswith("*")
    assert body[-1].startswith("*")
    assert all("*" in line for line in body)


def test_logarithmic_axes_name_their_ends_and_leave_out_what_they_cannot_show():
    curve = Curve("power", (1.0, 10.0, 100.0), (0.0, 1e-3, 1e3))
    text = draw(Plot((curve,), "size", "time", "", log_x=True, log_y=True), 60)
    assert "1e+03" in text
    assert "0.001" in text
    assert text.splitlines()[-1] == "* power"


def test_nothing_to_draw_and_one_point():
    assert draw(Plot((Curve("gone", (1.0,), (float("nan"),)),), "x", "y", "")) == "(nothing to draw)"
    assert "*" in draw(Plot((Curve("dot", (1.0,), (1.0,)),), "x", "y", ""), 60)


def test_two_curves_have_two_marks():
    text = draw(Plot((Curve("a", (0.0, 1.0), (0.0, 0.0)), Curve("b", (0.0, 1.0), (1.0, 1.0))), "x", "y", ""), 60)
    assert text.splitlines()[-2:] == ["* a", "o b"]
