"""The server: for this computer, from this computer, and clear about what it cannot do."""

import json
import re
import socket

import pytest

from ridgeformer.core.errors import RidgeformerError
from ridgeformer.views.explorer import server as served
from ridgeformer.views.explorer.server import build, open_server, serve
from ridgeformer.views.explorer.uploads import MOST_BYTES


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
