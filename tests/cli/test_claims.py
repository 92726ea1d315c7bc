"""`ridgeformer claims`: the ledger, one claim, JSON, exit codes, a user's data."""

import json
from dataclasses import replace

import pytest

from ridgeformer import claims
from ridgeformer.claims import Verdict
from tests.claims.findings import BY_ID


def test_a_few_claims(run):
    code, text, _ = run("claims", "w4", "W8")
    assert code == 0
    assert "2 claims: 2 amended. Every check agrees with its record." in text


def test_one_claim_is_explained_with_a_plot(run):
    code, text, _ = run("claims", "W4")
    assert code == 0
    for part in (
        "As stated",
        "Where it comes from",
        BY_ID["W4"].quote,
        "What is true",
        "To verify by hand",
        "Measured",
        "Tried",
        "width m",
        BY_ID["W4"].stated,
    ):
        assert part in text


def test_json(run):
    code, text, _ = run("claims", "W8", "W4", "--json")
    assert code == 0
    found = json.loads(text)
    assert [record["id"] for record in found] == ["W8", "W4"]
    assert found[1]["figures"]["relative error at width d_eff = 9"] == pytest.approx(0.9)
    assert found[1]["trials"]["corrected"][1]["cases"] == 2000


def test_a_wrong_record_fails_loudly(run, monkeypatch):
    wrong = replace(BY_ID["W8"], verdict=Verdict.TRUE)
    monkeypatch.setattr(claims, "CLAIMS", (wrong, BY_ID["W4"]))
    code, text, _ = run("claims")
    assert code == 1
    assert "WRONG" in text
    assert "W8: the record says true, the evidence says amended." in text


def test_the_page(run, tmp_path):
    assert run("claims", "W8", "--html", "new/claims.html")[0] == 0
    assert "<math" in (tmp_path / "new" / "claims.html").read_text()


def test_data(run):
    code, text, _ = run("claims", "--data", "wine")
    assert code == 0
    assert "How wide: to keep the worst in-sample error on wine below 10 %" in text
    code, text, _ = run("claims", "--data", "wine", "--json")
    assert code == 0
    assert json.loads(text)["name"] == "wine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["W99"], "unknown claim 'W99'"),
        (["W4", "--data", "wine"], "leave out claim names"),
        (["--data", "no-such-data"], "no-such-data"),
    ],
)
def test_bad_input(run, words, message):
    code, _, error = run("claims", *words)
    assert code == 2
    assert message in error
