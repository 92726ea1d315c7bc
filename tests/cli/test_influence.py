import json
import sys

import pytest

from ridgeformer.cli import main


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["ridgeformer", "influence", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


def test_words_points_and_pictures(monkeypatch, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert call(monkeypatch, "digits", "--query", "17", "--max-rows", "200", "--html", str(page)) == 0
    text = capsys.readouterr().out
    for part in ("Row 17 of digits is of class 7", "Robustness:", "helps", "harms", "██", str(page.name)):
        assert part in text
    assert page.exists()


def test_json(monkeypatch, capsys):
    assert call(monkeypatch, "wine", "--query", "7", "--points", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["row"], len(found["helpful"]), found["page"]) == (7, 2, None)


def test_a_query_out_of_range_is_one_line(monkeypatch, capsys):
    assert call(monkeypatch, "wine", "--query", "178") == 2
    assert capsys.readouterr().err == "error: wine has no row 178: it has rows 0 to 177.\n"


def test_a_network_of_ones_own(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_influence_net.py").write_text(
        "from torch import nn\ndef net(d, c, m): return nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c))\n"
    )
    words = ("wine", "--query", "7", "--max-rows", "40", "--width", "8", "--epochs", "20")
    assert call(monkeypatch, *words, "--model", "my_influence_net:net", "--html", "page.html", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["warning"] == found["sentences"][0]
    assert found["model"] == "the tangent kernel of my_influence_net:net of width 8"
    assert found["warning"].split(",")[0] in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("model", "message"), [("mlp-atn", "did you mean 'mlp-attn'?"), ("nowhere_at_all:net", "cannot be imported")]
)
def test_a_network_that_is_not_there(monkeypatch, capsys, model, message):
    assert call(monkeypatch, "wine", "--query", "7", "--model", model) == 2
    assert message in capsys.readouterr().err


def test_suspects(monkeypatch, capsys):
    assert call(monkeypatch, "digits", "--suspects", "--max-rows", "200", "--points", "3") == 0
    text = capsys.readouterr().out
    assert "have a target that the fit to all other rows contradicts" in " ".join(text.split())
    assert "██" in text
    assert call(monkeypatch, "wine", "--suspects", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 178


def test_a_query_or_suspects_but_not_both(monkeypatch, capsys):
    for words in ((), ("--query", "3", "--suspects")):
        assert call(monkeypatch, "wine", *words) == 2
        assert "not both" in capsys.readouterr().err
