import pytest

from ridgeformer import datasets
from ridgeformer.influence.answer import ask
from ridgeformer.views.influence_page import influence_page, write_influence_page


def test_images_are_shown_where_rows_are_images(tmp_path):
    digits = datasets.load("digits", limit=150)
    answer = ask(digits, 3, points=2)
    page = influence_page(answer, digits)
    assert [len(picture.figure.data) for picture in page.sections[0].pictures] == [3, 3]
    shown = page.sections[0].pictures[0].figure.data[1].z
    assert shown == pytest.approx(digits.X[answer.helpful[0].row].reshape(8, 8))
    text = write_influence_page(answer, digits, tmp_path / "page.html").read_text()
    assert f"row {answer.helpful[0].row}" in text


def test_a_table_has_no_pictures():
    wine = datasets.load("wine")
    assert influence_page(ask(wine, 3), wine).sections[0].pictures == ()
