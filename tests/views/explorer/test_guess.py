"""The game: its evidence is the library's, its rounds can be won, and it runs in a browser."""

import json
import re

import numpy as np
import pytest
import torch

import ridgeformer as rf
from ridgeformer.core.errors import InputError, UnknownNameError
from ridgeformer.views.explorer import guess
from ridgeformer.views.explorer.server import build
from tests.accessibility import violations
from tests.real_browser import chromium, needs_chromium, new_page
from tests.views.explorer.served_explorer import served

RIGHT = {"converged": {"cg", "ridge"}, "unlisted": {guess.NONE}, "noisy": {guess.NONE}}


def judged(number):
    """The kind of a round, and the guesses that are right in it."""
    right = {name for name in (*guess.SUSPECTS, guess.NONE) if guess.answer(number, name).right}
    return guess.hide(number).kind, right


@pytest.mark.parametrize("number", [2, 4, 5])
def test_the_truth_wins_and_nothing_else(number):
    kind, right = judged(number)
    assert right == RIGHT.get(kind, {kind})


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, 1, 2])
def test_every_round_can_be_won(block):
    kinds = set()
    for place in range(len(guess.KINDS)):
        kind, right = judged(1 + block * len(guess.KINDS) + place)
        assert right == RIGHT.get(kind, {kind}), (block, place)
        kinds.add(kind)
    assert kinds == set(guess.KINDS)


def test_evidence_is_that_of_identify():
    evidence = guess.examine(2)
    found = rf.identify(
        guess.hide(2).network, candidates=list(guess.SUSPECTS), controls=False, layers=[], features=guess.FEATURES
    )
    assert evidence.symmetry("additivity")[0] == found.signatures.additivity > 0.02
    assert evidence.symmetry("homogeneity")[0] == found.signatures.homogeneity < 1e-9
    errors = {}
    for one in found.verdict.coordinates:
        name = one.candidate.family.name
        errors[name] = min(errors.get(name, np.inf), one.error)
    assert all(evidence.suspect(name).error == errors[name] for name in set(guess.SUSPECTS) - {"cg"})
    assert evidence.suspect("cg").error == found.verdict.unexplained < 1e-12
    assert guess.answer(2, "cg").verdict == found.sentences[0]


def test_the_curve_is_the_networks_and_the_suspects():
    x, y = guess.first_points(2)
    curve = guess.draw_curve(2, x, y, "cg")
    assert np.allclose(curve["model"], curve["suspect"], atol=1e-6)
    assert not np.allclose(curve["model"], guess.draw_curve(2, x, y, "gd")["suspect"], atol=1e-3)
    features = guess.lift(np.array(x), guess.HARMONICS) * guess.FEATURES**0.5
    queries = guess.lift(np.array(curve["grid"]), guess.HARMONICS) * guess.FEATURES**0.5
    targets = torch.tensor(y, dtype=torch.float64)
    assert np.allclose(curve["model"], guess.hide(2).network(features, targets, queries).detach(), atol=1e-12)


def test_a_noisy_model_never_answers_twice_alike_and_the_others_do():
    x, y = guess.first_points(1)
    noisy = next(n for n in range(1, 10) if guess.hide(n).kind == "noisy")
    assert guess.draw_curve(1, x, y) == guess.draw_curve(1, x, y)
    assert guess.draw_curve(noisy, x, y) != guess.draw_curve(noisy, x, y)


@pytest.mark.parametrize(("given", "error"), [
    (lambda: guess.hide(0), InputError),
    (lambda: guess.draw_curve(1, [0.0, np.nan], [0.0, 1.0]), InputError),
    (lambda: guess.draw_curve(1, [0.0], [1.0]), InputError),
    (lambda: guess.answer(1, "butler"), UnknownNameError),
])  # fmt: skip
def test_nonsense_is_refused(given, error):
    with pytest.raises(error):
        given()


@pytest.fixture(scope="module")
def client():
    return build().server.test_client()


@pytest.mark.parametrize("address", [
    "points?round=x", "points", "curve?round=1&x=a&y=1", "curve?round=1&x=1,2&y=1", "symmetry?round=2&name=colour",
    "suspect?round=2&name=butler", "answer?round=2&guess=", "secrets?round=1", "points?round=99999999",
])  # fmt: skip
def test_bad_requests_are_a_sentence(client, address):
    reply = client.get(f"/guess/{address}")
    assert reply.status_code == 400
    assert json.loads(reply.text)["refused"].endswith(".")


def test_the_page_asks_for_nothing_from_elsewhere(client):
    text = client.get("/guess").text
    assert set(re.findall(r'(?:src|href)="([^"]+)"', text)) == {"data:,", "./"}
    assert "conjugate gradients" in text


@needs_chromium
def test_a_round_is_played_in_a_browser(client):
    complaints, asked = [], []
    with served() as base, chromium() as browser:
        for options in ({"viewport": {"width": 1280, "height": 900}},
                        {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark"}):  # fmt: skip
            page = new_page(browser, reduced_motion="reduce", **options)
            page.on("console", lambda said: complaints.append(said.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"{base}guess?round=2")
            page.wait_for_selector("#plot .model-line", state="attached")
            page.click("[data-test=additivity]")
            page.wait_for_function("document.querySelector('[data-test=additivity] + output').textContent")
            assert "not linear in the targets" in page.inner_text("[data-test=additivity] + output")
            page.click("[data-fit=cg]")
            page.wait_for_selector("#plot .suspect-line", state="attached")
            before = page.get_attribute("#plot .model-line", "d")
            page.focus("#height")
            page.keyboard.press("ArrowRight")
            page.wait_for_function(
                "before => document.querySelector('#plot .model-line').getAttribute('d') !== before", arg=before
            )
            page.click("[data-guess=cg]")
            page.wait_for_selector("#answer:not([hidden])")
            assert page.inner_text("#headline") == "Right: conjugate gradients."
            assert page.inner_text("#score") == "1 of 1 right."
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
            page.click("#next")
            page.wait_for_function("document.getElementById('round').textContent === 'round 3'")
            page.context.close()
    assert complaints == []
    assert all(url.startswith((base, "data:")) for url in asked)
