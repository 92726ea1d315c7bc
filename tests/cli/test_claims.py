"""`ridgeformer claims`: the ledger, one claim, JSON, exit codes, a user's data."""

import json
import sys
from dataclasses import replace

import pytest
from findings import BY_ID

from ridgeformer.claims import Verdict
from ridgeformer.cli import claims as command
from ridgeformer.cli import main


def call(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["ridgeformer", "claims", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


def test_a_few_claims(monkeypatch, capsys):
    assert call(monkeypatch, "w4", "W8") == 0
    text = capsys.readouterr().out
    assert "2 claims: 1 amended, 1 false. Every check agrees with its record." in text


def test_one_claim_is_explained_with_a_plot(monkeypatch, capsys):
    assert call(monkeypatch, "W4") == 0
    text = capsys.readouterr().out
    for part in ("As stated", "What is true", "To verify by hand", "Measured", "Tried", "width m", BY_ID["W4"].stated):
        assert part in text


def test_json(monkeypatch, capsys):
    assert call(monkeypatch, "W8", "W4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [record["id"] for record in found] == ["W8", "W4"]
    assert found[1]["figures"]["relative error at width d_eff = 9"] == pytest.approx(0.9)
    assert found[1]["trials"]["corrected"][1]["cases"] == 2000


def test_a_wrong_record_fails_loudly(monkeypatch, capsys):
    wrong = replace(BY_ID["W8"], verdict=Verdict.TRUE)
    monkeypatch.setattr(sys.modules[command.__module__], "CLAIMS", (wrong, BY_ID["W4"]))
    assert call(monkeypatch) == 1
    text = capsys.readouterr().out
    assert "WRONG" in text
    assert "W8: the record says true, the evidence says amended." in text


def test_the_page(monkeypatch, capsys, tmp_path):
    assert call(monkeypatch, "W8", "--html", str(tmp_path / "new" / "claims.html")) == 0
    assert "<math" in (tmp_path / "new" / "claims.html").read_text()


def test_data(monkeypatch, capsys):
    assert call(monkeypatch, "--data", "wine") == 0
    assert "How wide: to keep the worst in-sample error on wine below 10 %" in capsys.readouterr().out
    assert call(monkeypatch, "--data", "wine", "--json") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "wine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["W99"], "unknown claim 'W99'"),
        (["W4", "--data", "wine"], "leave out claim names"),
        (["--data", "no-such-data"], "no-such-data"),
    ],
)
def test_bad_input(monkeypatch, capsys, words, message):
    assert call(monkeypatch, *words) == 2
    assert message in capsys.readouterr().err
