"""`ridgeformer explore`: what it says when it cannot start."""

import socket
import sys

import pytest

from ridgeformer.cli import main


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["ridgeformer", "explore", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_without_the_extra_it_says_what_to_install(monkeypatch, capsys):
    for name in [
        name for name in sys.modules if name == "dash" or name.startswith(("dash.", "ridgeformer.views.explorer"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dash", None)
    assert run(monkeypatch, "--no-browser") == 2
    assert "pip install 'ridgeformer[app]'" in capsys.readouterr().err


def test_a_taken_port_is_one_line(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(monkeypatch, "--no-browser", "--port", str(taken.getsockname()[1])) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: cannot listen on 127.0.0.1")
    assert error.count("\n") == 1


def test_a_port_that_is_none_is_refused(monkeypatch, capsys):
    assert run(monkeypatch, "--port", "70000") == 2
    assert "65535" in capsys.readouterr().err
