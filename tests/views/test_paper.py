"""Figures for papers: matplotlib has the numbers that plotly has."""

import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views import audit_page
from ridgeformer.views.paper import draw_for_paper, write_figures
from tests.auditing.small_audits import small_audit


def test_lines_keep_numbers_names_and_axes():
    figure = go.Figure()
    figure.add_scatter(x=[1, 10, 100], y=[3.0, 2.0, 1.0], name="one", line={"color": "#3b6fd4", "dash": "dash"})
    figure.add_scatter(y=[5.0, 6.0], name="two", line={"color": "#000000"})
    figure.update_xaxes(type="log", title="step")
    (axes,) = draw_for_paper(figure).axes
    one, two = axes.get_lines()
    np.testing.assert_array_equal(one.get_xydata(), [[1, 3], [10, 2], [100, 1]])
    np.testing.assert_array_equal(two.get_xydata(), [[0, 5], [1, 6]])
    assert (one.get_linestyle(), axes.get_xscale(), axes.get_xlabel()) == ("--", "log", "step")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_bars_keep_numbers_whiskers_and_threshold():
    figure = go.Figure()
    for name, values in (("a", [1.0, 2.0]), ("b", [3.0])):
        look = {"type": "data", "symmetric": False, "array": [0.5] * len(values), "arrayminus": [0.25] * len(values)}
        figure.add_bar(x=values, y=["p<br>q", "r"][: len(values)], orientation="h", name=name, error_x=look)
    figure.add_scatter(x=[1.5, 1.5], y=["p<br>q", "r"], name="limit", line={"color": "#2f9e77"})
    (axes,) = draw_for_paper(figure).axes
    assert [patch.get_width() for patch in axes.patches] == [1.0, 2.0, 3.0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["p\nq", "r"]
    bars = next(one for one in axes.containers if hasattr(one, "errorbar"))
    spans = bars.errorbar.lines[2][0].get_segments()
    assert spans[0][:, 0].tolist() == [0.75, 1.5]
    assert axes.get_lines()[-1].get_xdata() == [1.5, 1.5]


def test_every_named_figure_of_an_audit_is_written_and_repeats_itself(tmp_path):
    page = audit_page(small_audit("digits"))
    paths = write_figures(page, tmp_path / "figures")
    names = {"examples", "spectrum", "fits", "compiled", "width", "depth", "regime_distances", "regime_widths"}
    names |= {"influence", "malleability"}
    assert {path.name for path in paths} == {f"{name}.{ending}" for name in names for ending in ("svg", "pdf")}
    assert all(path.stat().st_size > 1000 for path in paths)
    first = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in write_figures(page, tmp_path / "figures")} == first


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RidgeformerError, match=r"pip install 'ridgeformer\[figures\]'"):
        write_figures(audit_page(small_audit("wine")), tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgeformerError, match="choose another place"):
        write_figures(audit_page(small_audit("wine")), tmp_path / "file" / "figures")
