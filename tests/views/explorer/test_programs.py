"""Programs in the explorer: every one has a page, and what cannot be shown says why."""

import json
import re

import pytest

import ridgeformer as rf
from ridgeformer.algorithms.written import WRITTEN
from ridgeformer.programs import PROGRAMS
from ridgeformer.views.explorer.programs import program_page
from ridgeformer.views.explorer.server import build

LONG = ("barzilai_borwein", "huber", "logistic_newton", "nearest_neighbours", "nystrom_regression")


@pytest.fixture(scope="module")
def client():
    return build().server.test_client()


def test_the_explorer_links_to_a_list_of_all_programs(client):
    layout = json.dumps(client.get("/_dash-layout").json)
    assert '"href": "/programs"' in layout
    answer = client.get("/programs")
    assert answer.status_code == 200
    assert set(re.findall(r'href="/programs/(\w+)\?', answer.text)) >= set(PROGRAMS)
    asked = re.findall(r'(?:src|href|action)="([^"]+)"', answer.text)
    assert all(address.startswith(("/", "data:", "#")) for address in asked)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in PROGRAMS]
)
def test_every_program_has_a_page_with_its_trace(name):
    text = program_page(name, steps="1")
    assert "Every step is its program" in text
    assert f"rf.programs.{name}(steps=1" in text


def test_steps_and_data_are_those_of_the_address(client):
    text = client.get("/programs/logistic_descent?data=diabetes&steps=2").text
    assert "2 steps" in text
    assert "1 above their mean" in text
    assert "<option selected>diabetes</option>" in text


def test_a_program_of_one_s_own_is_listed_as_soon_as_it_is_defined(client):
    @rf.algorithm
    def mean_of_explorer(net):
        """The mean <target>."""
        net.features("x"), net.targets("y")
        with net.step():
            net.predict("mean(y)")

    try:
        text = client.get("/programs/mean_of_explorer?steps=1").text
    finally:
        del WRITTEN["mean_of_explorer"]
    assert "The mean &lt;target&gt;." in text
    assert "<code>mean_of_explorer(steps=1)</code>" in text


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("/programs/newton", "unknown program"),
        ("/programs/ista?data=moon", "unknown data"),
        ("/programs/ista?steps=0", "steps is 0"),
        ("/programs/ista?steps=41", "steps is 41"),
        ("/programs/ista?steps=-1", "a whole number from 1 to 40"),
        ("/programs/ista?steps=%C2%B2", "a whole number from 1 to 40"),
        ("/programs/<script>", "unknown program"),
    ],
)
def test_what_cannot_be_shown_says_why(client, address, why):
    answer = client.get(address)
    assert answer.status_code == 400
    assert why in answer.text
    assert "<script>&" not in answer.text
    assert "&#39;&lt;script&gt;&#39;" in answer.text or "script" not in address
