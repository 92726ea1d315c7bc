"""The server and what events do to the page, without a browser."""

import json
import re
import socket
from dataclasses import replace

import pytest
from dash import no_update

from ridgeformer.core.errors import InputError, RidgeformerError
from ridgeformer.views.explorer import server as served
from ridgeformer.views.explorer.controls import PRESETS, scope, settle, shown
from ridgeformer.views.explorer.data import MOST_BYTES
from ridgeformer.views.explorer.layout import INPUTS
from ridgeformer.views.explorer.panels import PANELS
from ridgeformer.views.explorer.server import (
    BLOCKED,
    _page_of,
    _panel,
    build,
    certify,
    headline,
    next_state,
    open_server,
    place,
    serve,
    show,
    take_file,
)
from ridgeformer.views.explorer.state import State


@pytest.fixture(scope="module")
def client():
    return build().server.test_client()


def test_the_page_asks_for_nothing_from_elsewhere(client):
    text = client.get("/").text
    asked = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert asked
    assert all(address.startswith(("/", "data:")) for address in asked)


def test_no_version_check_and_no_developer_tools(client):
    text = client.get("/").text
    config = json.loads(re.search(r'<script id="_dash-config"[^>]*>(.*?)</script>', text, re.S).group(1))
    assert not config["ui"]
    assert config["disable_version_check"]
    (renderer,) = re.findall(r'src="([^"]*dash_renderer[^"]*)"', text)
    assert "dash_version_url" not in client.get(renderer).text


def test_the_browser_is_told_to_keep_to_this_computer(client):
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    ("name", "code"), [("127.0.0.1:8050", 200), ("localhost:1", 200), ("[::1]:8050", 200), ("evil.example", 403)]
)
def test_a_foreign_name_is_refused_on_a_local_address(client, name, code):
    assert client.get("/", headers={"Host": name}).status_code == code


def test_told_to_listen_elsewhere_it_answers_by_any_name():
    anywhere = build("0.0.0.0").server.test_client()
    assert anywhere.get("/", headers={"Host": "lab.example"}).status_code == 200


def test_requests_larger_than_an_upload_are_refused(client):
    body = b"x" * (2 * MOST_BYTES + 1)
    assert client.post("/_dash-update-component", data=body, content_type="application/json").status_code == 413


def test_a_taken_port_is_said_to_be_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RidgeformerError, match=f"port {port} .*another with --port"):
            open_server("127.0.0.1", port)


def test_an_address_of_another_computer_is_refused():
    with pytest.raises(RidgeformerError, match=r"cannot listen on 203\.0\.113\.1"):
        open_server("203.0.113.1", 0)


class Interrupted:
    port, closed = 1234, False

    def __init__(self, swallows):
        self.swallows = swallows

    def serve_forever(self):
        if not self.swallows:
            raise KeyboardInterrupt

    def server_close(self):
        self.closed = True


@pytest.mark.parametrize(("host", "lines"), [("127.0.0.1", 2), ("::1", 2), ("0.0.0.0", 3)])
@pytest.mark.parametrize("swallows", [True, False])
def test_it_says_where_it_is_and_stops_when_told(monkeypatch, host, lines, swallows):
    fake, said = Interrupted(swallows), []
    monkeypatch.setattr(served, "open_server", lambda host, port: fake)
    serve(host, 0, False, said.append)
    assert f"http://{host}:1234/" in said[0].replace("[", "").replace("]", "")
    assert said[-1] == "Stopped."
    assert len(said) == lines
    assert fake.closed


NOTHING = {"search": None, "event": None, "x": None, "y": None}


def after(trigger, state=None, chosen=None, **given):
    state = state or State()
    return next_state(state, trigger, shown(state, scope(state)) | (chosen or {}), NOTHING | given)


def test_the_address_is_read_first():
    assert after(None, search="?steps=5") == State(steps=5)
    assert after("location", search=None) == State()
    with pytest.raises(InputError):
        after("location", search="?steps=x")


def test_every_scene_is_one_click_away():
    for name, state in PRESETS.items():
        assert after({"scene": name}) == settle(state)


def test_clicks_pick_and_draw():
    assert after("event", event={"point": 3}).point == 3
    assert len(after("event", event={"x": 0.1, "y": 0.2}).points) == 25
    with pytest.raises(InputError, match="7 MB"):
        after("event", event={"refused": "big.csv has 7 MB"})


def test_numbers_draw_too():
    assert (0.1, 0.2) in after("add", x=0.1, y=0.2).points
    with pytest.raises(InputError, match="both x and y"):
        after("add", x=None, y=1)
    assert len(after("remove", State(point=0)).points) == 23


def test_settings_are_kept_swapped_and_dropped():
    kept = after("keep", State(steps=5, point=2))
    assert kept == State(steps=5, point=2, against="steps=5")
    assert after("steps", kept, chosen={"steps": 9}).kept == State(steps=5)
    assert after({"scene": "Momentum"}, kept) == settle(replace(PRESETS["Momentum"], against="steps=5"))
    assert after("swap", State(steps=9, against="steps=5")) == State(steps=5, against="steps=9")
    assert after("drop", kept) == State(steps=5, point=2)
    with pytest.raises(InputError, match="keep some first"):
        after("swap", State())


def test_facts_stand_beside_those_of_the_kept_settings():
    facts = headline(State(steps=20, against="steps=3"))[1]
    alone = headline(State(steps=3))[1]
    assert [fact.children[2].children for fact in facts] == [f"kept: {fact.children[0].children}" for fact in alone]


def test_uploads_become_the_data():
    contents = "data:;base64,eCx5CjEsMgozLDQKNSw2Cg=="  # x,y and three rows
    event = take_file(contents, None, "tiny.csv")
    assert after("event", event=event).data == event["data"]
    assert take_file(None, "z", None) is no_update
    with pytest.raises(InputError, match="no column 'z'"):
        after("event", event=take_file(contents, "z", "tiny.csv"))


def test_controls_move_the_state():
    assert after("steps", chosen={"steps": 3}) == State(steps=3)


def test_a_page_leaves_alone_what_a_control_says_already():
    state = State(width=15)
    said = shown(state, scope(state))
    values = _page_of(state, said | {"steps": 3}, "")[3]
    assert values["steps"] == state.steps
    assert all(value is no_update for name, value in values.items() if name != "steps")
    assert set(values) == set(INPUTS)


def test_algorithms_that_an_attention_cannot_run_are_disabled():
    for attention, disabled in (("softmax", {"pcg"}), ("imitation", {"pcg", "richardson", "neumann", "chebyshev"})):
        state = State.parse(f"attention={attention}")
        options = _page_of(state, shown(state, scope(state)), "")[4]["algorithm"]
        assert {o["value"] for o in options if o["disabled"]} >= disabled
        assert not next(o for o in options if o["value"] == "cg")["disabled"]


@pytest.mark.parametrize("name", PANELS)
def test_panels_show_a_figure_and_a_sentence(name):
    figure, said = _panel(name, State(steps=4, against="steps=2"))
    assert figure["data"]
    assert said.endswith(".")
    json.dumps(figure)


@pytest.mark.parametrize("address", ["algorithm=neumann", "data=drawn", "data=upload-0123456789abcdef"])
def test_a_refused_state_is_a_sentence_everywhere(address):
    state = State.parse(address)
    assert headline(state)[0].endswith((".", "again."))
    assert headline(state)[1:] == ([], "")
    shown_anyway = {"kept", *(("spectrum", "influence") if address == "algorithm=neumann" else ())}
    for name in PANELS:
        assert (_panel(name, state)[1] == BLOCKED) == (name not in shown_anyway)
    assert place(state) == (BLOCKED, "")


def _told(parts):
    """Return the names of the parts of a page that are not left alone."""
    _, plots, says, top, inside, pictures = parts
    named = {**plots, **{f"{name}-says": one for name, one in says.items()}, **top, **inside, "pictures": pictures}
    return {name for name, one in named.items() if one is not no_update}


def test_a_first_page_is_told_everything():
    parts = show("steps=4", None)
    assert parts[0] == "steps=4"
    assert _told(parts) == {
        *PANELS, *(f"{name}-says" for name in PANELS),
        "headline", "facts", "notes", "place", "formula", "pictures",
    }  # fmt: skip


@pytest.mark.parametrize("before", [State(steps=4), State(data="digits", rows=40, point=3, steps=4)])
@pytest.mark.parametrize("view", [{"sublayer": 9}, {"head": 1}, {"point": 1}, {"against": "steps=2"}])
def test_what_is_left_alone_would_have_been_the_same(before, view):
    after = replace(before, **view)
    told = _told(show(after.address, before.address))
    assert 0 < len(told) < len(PANELS) * 2
    old, new = show(before.address, None), show(after.address, None)
    for name in PANELS:
        assert name in told or old[1][name] == new[1][name]
        assert f"{name}-says" in told or old[2][name] == new[2][name]
    for part in (3, 4):
        for name in old[part]:
            assert name in told or str(old[part][name]) == str(new[part][name])
    assert "pictures" in told or str(old[5]) == str(new[5])


def test_another_ridge_concerns_every_panel():
    assert _told(show("steps=4&ridge=0.2", "steps=4")) == _told(show("steps=4", None))


def test_facts_are_those_of_the_run():
    said, facts, notes = headline(State(steps=20))
    assert said.startswith("20 steps, 203 sublayers")
    assert [fact.children[0].id for fact in facts] == [
        f"fact-{name}" for name in ("distance", "error", "bound", "kappa", "width", "layers")
    ]
    assert facts[-1].children[0].children == "203"
    assert "sines and cosines" in notes


@pytest.mark.parametrize(
    ("address", "colour", "words"),
    [
        ("?steps=1", "alarm", "Not shown to be accurate: proved only within "),
        ("?steps=40", "proved", "Proved within "),
        ("?steps=x", "alarm", "steps"),
    ],
)
def test_the_certificate_is_red_where_it_fails(address, colour, words):
    verdict, *rest = certify(1, address)
    assert verdict.className == colour
    assert words in verdict.children
    assert bool(rest) is ("x" not in address)
