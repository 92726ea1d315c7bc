import numpy as np

from ridgeformer import datasets
from ridgeformer.influence.answer import ask
from ridgeformer.views import Strip, write_page
from ridgeformer.views.influence_page import influence_page


def test_images_are_shown_where_rows_are_images(tmp_path):
    digits = datasets.load("digits", limit=150)
    answer = ask(digits, 3, points=2)
    page = influence_page(answer, digits)
    (strip,) = (part for part in page.sections[0].parts if isinstance(part, Strip))
    assert [image.mark for image in strip.images] == ["asked", "helps", "helps", "harms", "harms"]
    shown = digits.X[answer.helpful[0].row].reshape(8, 8) / digits.X.max()
    np.testing.assert_allclose(strip.images[1].pixels, shown)
    assert f"row {answer.helpful[0].row}" in write_page(page, tmp_path / "page.html").read_text()


def test_a_table_has_no_pictures():
    wine = datasets.load("wine")
    assert [type(part).__name__ for part in influence_page(ask(wine, 3), wine).sections[0].parts] == ["Table"]
