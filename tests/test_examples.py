"""Every example of the gallery draws its figure, in small, and the gallery's page says what the examples say."""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GALLERY = runpy.run_path(str(ROOT / "docs" / "draw_gallery.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_draws_something_in_every_axes(example):
    figure = runpy.run_path(str(example))["draw"](quick=True)
    shown = [axes for axes in figure.axes if axes.axison]
    assert shown
    assert all(axes.lines or axes.images for axes in shown)
    assert all(axes.images or axes.get_xlabel() or axes.get_ylabel() for axes in shown)
    plt.close(figure)


def test_every_example_is_in_the_gallery():
    assert sorted(GALLERY["ORDER"]) == [example.stem for example in EXAMPLES]
    for name in GALLERY["ORDER"]:
        assert (ROOT / "docs" / "figures" / "gallery" / f"{name}.svg").is_file(), "make figures"


def test_gallery_page_is_up_to_date():
    assert (ROOT / "docs" / "gallery.md").read_text() == GALLERY["page"](), "make figures"
