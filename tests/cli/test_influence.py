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
    for part in ("Row 17 of digits is of class 7", "How firm that is", "helps", "harms", "██", str(page.name)):
        assert part in text
    assert page.exists()


def test_json(monkeypatch, capsys):
    assert call(monkeypatch, "wine", "--query", "7", "--points", "2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["row"], len(found["helpful"]), found["page"]) == (7, 2, None)


def test_a_query_out_of_range_is_one_line(monkeypatch, capsys):
    assert call(monkeypatch, "wine", "--query", "178") == 2
    assert capsys.readouterr().err == "error: wine has no row 178: it has rows 0 to 177.\n"
