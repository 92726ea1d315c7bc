"""Pages of any kind: everything in its place, escaped, complete in itself."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest

from ridgeformer import errors
from ridgeformer.claims import CLAIMS
from ridgeformer.views import Facts, Fragment, Page, Picture, Section, Strip, Table, render_page, write_page
from ridgeformer.views.figures import curve, draw
from ridgeformer.views.parts import Thumbnail

FIGURE = draw([curve([1, 2], [3.0, 4.5], "a </script> curve")], "x", "y")

PAGE = Page(
    "A <title>",
    "below",
    ("How good: very.", "How long: short."),
    (
        Section("First & last", ("one", Table(("what", "value"), (("a", "1.5"), ("b", "> 20")), name="facts"))),
        Section("First & last", (
            "then", Facts(("one fact", "two facts")), Picture(FIGURE, "see this", "a line", "line"),
            Strip((Thumbnail(np.eye(2), "title", "note", "helps"),), "strip caption", "strip"),
            Fragment("<b id='ready'>ready</b>"),
        )),
        Section("Linked", (Table(("claim",), (("W1",),), links={"W1": "#W1"}),)),
    ),
    CLAIMS[:1],
    "the end",
)  # fmt: skip


class Reader(HTMLParser):
    """Collects what a browser would see: elements by name, ids, and whether tags are balanced."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.elements = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.elements.append((tag, facts))
        self.ids += [facts["id"]] if "id" in facts else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag):
        return [facts for name, facts in self.elements if name == tag]


@pytest.fixture(scope="module")
def text():
    return render_page(PAGE)


@pytest.fixture(scope="module")
def page(text):
    return Reader(text)


def test_well_formed_with_unique_addresses_that_all_exist(page):
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    inside = [facts["href"][1:] for facts in page.all("a") if facts["href"].startswith("#")]
    assert inside
    assert set(inside) <= set(page.ids)


def test_no_outside_request(page):
    places = [facts[key] for _, facts in page.elements for key in ("src", "href") if facts.get(key)]
    assert places
    assert all(place.startswith(("#", "data:")) for place in places)


def test_text_is_escaped_and_scripts_cannot_be_broken_out_of(text):
    assert "A &lt;title&gt;" in text
    assert "a </script> curve" not in text
    kept = re.search(r'<script type="application/json">(.*?)</script>', text, re.S).group(1)
    assert json.loads(kept)["data"][0]["name"] == "a </script> curve"


def test_a_lead_is_set_apart(text):
    assert "<strong>How good</strong><span>Very.</span>" in text


def test_every_image_and_figure_has_words(page):
    assert [image["alt"] for image in page.all("img")] == ["title, note"]
    assert [figure.get("aria-label") for figure in page.all("figure")] == ["a line", None]


def test_tables_and_figures_can_be_taken_as_csv(page):
    taken = {
        facts["download"]: unquote(facts["href"].partition(",")[2]) for facts in page.all("a") if "download" in facts
    }
    assert taken == {
        "facts.csv": "what,value\na,1.5\nb,> 20\n",
        "line.csv": "curve,x,y\na </script> curve,1,3.0\na </script> curve,2,4.5\n",
    }


def test_numbers_are_right_aligned_and_text_is_not(text):
    assert '<th scope="col">what</th><th scope="col" class="num">value</th>' in text
    assert '<td>b</td><td class="num">&gt; 20</td>' in text


def test_skip_link_contents_and_theme_button(page):
    first = page.all("a")[0]
    assert (first["class"], first["href"]) == ("skip", "#content")
    assert "content" in page.ids
    assert len(page.all("nav")) == 1
    assert page.all("button")[0]["id"] == "theme"


def test_sections_of_one_name_have_addresses_of_their_own(page):
    assert [one for one in page.ids if one.startswith("first")] == ["first-last", "first-last--2"]


def test_a_short_page_has_no_contents():
    assert "<nav" not in render_page(Page("t", "s", ("a",), (Section("one"),)))


def test_plotly_is_there_once(text):
    assert len(re.findall(r"plotly\.js v\d", text)) == 1
    assert len(text) < 6_000_000


def test_writing_replaces_the_old_page_and_leaves_nothing_else(tmp_path):
    (tmp_path / "report.html").write_text("old")
    path = write_page(PAGE, tmp_path / "report.html")
    assert path.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.RidgeformerError, match="choose another place"):
        write_page(PAGE, tmp_path / "file" / "inner.html")
