import csv
import io

import numpy as np
import plotly.graph_objects as go

from ridgeformer.views import Picture, Section, Table
from ridgeformer.views.sections import csv_link


def test_csv_of_a_table_holds_the_unrounded_values_and_survives_commas():
    table = Table(("a", "b"), (("x, y", "1.5"),), (("x, y", 1.4999999),), "t")
    assert list(csv.reader(io.StringIO(table.csv))) == [["a", "b"], ["x, y", "1.4999999"]]
    assert csv_link(table.csv).startswith("data:text/csv;charset=utf-8,a%2Cb%0A")


def test_csv_of_a_figure_names_its_curves():
    figure = go.Figure([go.Scatter(y=np.array([1.0, 0.25]), name="one"), go.Bar(x=[3], y=["label"], orientation="h")])
    assert Picture(figure, "", "").csv.splitlines() == ["curve,x,y", "one,0,1.0", "one,1,0.25", ",3,label"]


def test_a_figure_without_points_has_no_csv():
    assert Picture(go.Figure(go.Heatmap(z=[[1]])), "", "").csv == ""


def test_columns_of_numbers_are_told_from_text():
    table = Table(("a", "b", "c", "d", "e"), (("1", "x", "", "99.1 %", ""), ("-2e-3", "3", "> 4", "R² 0.5", "")))
    assert table.numeric == (True, False, True, False, False)


def test_the_body_is_in_reading_order():
    picture, table = Picture(go.Figure(), "", ""), Table((), ())
    section = Section("t", ("one",), table, (picture,), ("two",))
    assert section.body == ("one", table, picture, "two")
