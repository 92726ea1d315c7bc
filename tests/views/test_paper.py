"""Figures for papers: matplotlib has the numbers that plotly has."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.audit_page import audit_page
from ridgeformer.views.figures import bars, curve, draw
from ridgeformer.views.paper import draw_for_paper, write_figures
from tests.auditing.small_audits import small_audit


def test_lines_keep_numbers_names_and_axes():
    one, two = curve([1, 10, 100], [3.0, 2.0, 1.0], "one", dash="dash"), curve(None, [5.0, 6.0], "two")
    (axes,) = draw_for_paper(draw([one, two], {"title": "step", "type": "log", "range": [0, 2]}, "error")).axes
    one, two = axes.get_lines()
    np.testing.assert_array_equal(one.get_xydata(), [[1, 3], [10, 2], [100, 1]])
    np.testing.assert_array_equal(two.get_xydata(), [[0, 5], [1, 6]])
    assert (one.get_linestyle(), axes.get_xscale(), axes.get_xlabel()) == ("--", "log", "step")
    assert axes.get_xlim() == (1, 100)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_bars_keep_numbers_whiskers_and_threshold():
    traces = [
        bars([1.0, 2.0], ["p<br>q", "r"], "a", whiskers=([0.75, 1.75], [1.5, 2.5])),
        bars([3.0], ["p<br>q"], "b"),
        curve([1.5, 1.5], ["p<br>q", "r"], "limit"),
    ]
    (axes,) = draw_for_paper(draw(traces, "share", "")).axes
    assert [patch.get_width() for patch in axes.patches] == [1.0, 2.0, 3.0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["p\nq", "r"]
    bar = next(one for one in axes.containers if hasattr(one, "errorbar"))
    spans = bar.errorbar.lines[2][0].get_segments()
    assert spans[0][:, 0].tolist() == [0.75, 1.5]
    assert axes.get_lines()[-1].get_xdata() == [1.5, 1.5]


def test_every_named_figure_of_an_audit_is_written(tmp_path):
    page = audit_page(small_audit("digits"))
    paths = write_figures(page, tmp_path / "figures")
    names = {"examples", "spectrum", "fits", "compiled", "width", "depth", "regime_distances", "regime_widths"}
    names |= {"influence", "malleability", "suspects", "coverage"}
    assert {path.name for path in paths} == {f"{name}.{ending}" for name in names for ending in ("svg", "pdf")}
    assert all(path.stat().st_size > 1000 for path in paths)


def test_figures_repeat_themselves_byte_for_byte(tmp_path):
    page = audit_page(small_audit("digits"))
    few = replace(page, sections=tuple(section for section in page.sections if section.pictures)[:2])
    first = {path: path.read_bytes() for path in write_figures(few, tmp_path / "figures")}
    assert first
    assert {path: path.read_bytes() for path in write_figures(few, tmp_path / "figures")} == first


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RidgeformerError, match=r"pip install 'ridgeformer\[figures\]'"):
        write_figures(audit_page(small_audit("digits")), tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RidgeformerError, match="choose another place"):
        write_figures(audit_page(small_audit("digits")), tmp_path / "file" / "figures")
