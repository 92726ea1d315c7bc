"""Exports on the command line: export, and certify on an exported directory."""

import json

import pytest

OPTIONS = ("--features", 13, "--outputs", 3, "--ridge", 1, "--temperature", 13)
VANILLA = ("--attention", "vanilla", "--algorithm", "richardson", "--steps", 20)


@pytest.fixture
def model(run):
    assert run("compile", *OPTIONS, *VANILLA, "--out", "model")[0] == 0
    return "model"


def test_an_exported_directory_is_certified_from_the_stock_class(run, model):
    code, out, err = run("export", model, "--to", "albert", "--out", "stock", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts["class"] == "AlbertModel"
    assert facts["layers"] == 20
    code, out, _ = run("certify", "stock", "wine", "--max-rows", 40, "--tolerance", 10, "--json")
    found = json.loads(out)
    ours = json.loads(run("certify", model, "wine", "--max-rows", 40, "--tolerance", 10, "--json")[1])
    assert code == 0
    assert found["proved_within"] == pytest.approx(ours["proved_within"], rel=1e-6)
    assert "stock class" in found["checks"][0]["what"]


def test_an_exported_directory_runs_in_its_stock_class(run, model, tmp_path):
    assert run("export", model, "--to", "albert", "--out", "stock")[0] == 0
    code, out, err = run("run", "stock", "wine", "--max-rows", 40, "--html", "trace.html", "--json")
    assert (code, err) == (0, "")
    facts, ours = json.loads(out), json.loads(run("run", model, "wine", "--max-rows", 40, "--json")[1])
    assert facts["class"] == "AlbertModel"
    assert ours["class"] is None
    assert facts["largest_difference"] == pytest.approx(ours["largest_difference"], rel=1e-6)
    assert "AlbertModel" in (tmp_path / "trace.html").read_text()
    assert "AlbertModel reaches" in run("run", "stock", "wine", "--max-rows", 40)[1]


def test_what_was_exported_is_said_in_words(run, model):
    code, out, _ = run("export", model, "--to", "bert", "--out", "stock", "--rotate", 1)
    assert code == 0
    assert "BertModel.from_pretrained opens it; ridgeformer is not needed." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "opt"), "unknown target"),
        (("--to", "llama"), "float32"),
        (("--to", "t5", "--max-tokens", 3), "max-tokens"),
    ],
)
def test_wrong_use_is_one_line(run, model, arguments, message):
    code, _, err = run("export", model, *arguments, "--out", "stock")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
