import base64
import csv
import io

import numpy as np
from PIL import Image

from ridgeformer.datasets import Dataset
from ridgeformer.views.figures import bars, curve, draw, heat_map
from ridgeformer.views.parts import Picture, Section, Table, as_bytes, csv_link, png, thumbnail


def test_csv_of_a_table_holds_the_unrounded_values_and_survives_commas():
    table = Table(("a", "b"), (("x, y", "1.5"),), (("x, y", 1.4999999),), "t")
    assert list(csv.reader(io.StringIO(table.csv))) == [["a", "b"], ["x, y", "1.4999999"]]
    assert csv_link(table.csv).startswith("data:text/csv;charset=utf-8,a%2Cb%0A")


def test_a_table_of_values_is_written_column_by_column():
    table = Table.of(
        {"name": "", "n": ",", "rate": lambda part: f"{100 * part:.0f} %"}, [("a", 2000, 0.5), ("b", None, 1)]
    )
    assert table.rows == (("a", "2,000", "50 %"), ("b", "", "100 %"))
    assert list(csv.reader(io.StringIO(table.csv)))[1:] == [["a", "2000", "0.5"], ["b", "", "1"]]


def test_csv_of_a_figure_names_its_curves():
    figure = draw([curve(None, np.array([1.0, 0.25]), "one"), bars([3], ["label"], "")], "x", "y")
    assert Picture(figure, "", "").csv.splitlines() == ["curve,x,y", "one,0,1.0", "one,1,0.25", ",3,label"]


def test_a_figure_without_points_has_no_csv():
    assert Picture(draw([heat_map([[1]], "heat")], "", ""), "", "").csv == ""


def test_columns_of_numbers_are_told_from_text():
    table = Table(("a", "b", "c", "d", "e"), (("1", "x", "", "99.1 %", ""), ("-2e-3", "3", "> 4", "R² 0.5", "")))
    assert table.numeric == (True, False, True, False, False)


def test_a_section_finds_its_parts_by_kind():
    picture, table = Picture(draw([], "", ""), "", ""), Table((), ())
    section = Section("t", ("one", table, picture, "two"))
    assert (section.sentences, section.tables, section.pictures) == (("one", "two"), (table,), (picture,))


def images(shape):
    X = np.linspace(-1, 3, 2 * int(np.prod(shape))).reshape(2, -1)
    return Dataset("images", X, np.zeros(2), image_shape=shape)


def test_brightness_is_relative_to_the_whole_dataset():
    data = images((2, 2))
    assert thumbnail(data, 0, "t").pixels.min() == 0
    assert thumbnail(data, 1, "t").pixels.max() == 1
    assert thumbnail(data, 0, "t").pixels.max() < 0.5


def test_a_constant_image_is_drawn():
    data = Dataset("flat", np.ones((2, 4)), np.zeros(2), image_shape=(2, 2))
    assert thumbnail(data, 0, "t").pixels.tolist() == [[0, 0], [0, 0]]


def test_the_png_holds_the_pixels_in_grey_and_in_colour():
    for shape in ((2, 3), (2, 3, 1), (2, 3, 3)):
        image = thumbnail(images(shape), 1, "t")
        head, data = png(image).split(",")
        assert head == "data:image/png;base64"
        found = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        np.testing.assert_array_equal(found, as_bytes(image.pixels))
