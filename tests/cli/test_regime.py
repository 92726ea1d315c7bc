"""The kernel regime on the command line, also for a network of one's own."""

import json
import sys

import pytest

from ridgeformer.cli import main

QUICK = ("--rows", 40, "--test-rows", 20, "--width", 32, "--widest", 1000, "--epochs", 5)
FACTORY = """
from torch import nn
def net(d, c, m): return nn.Sequential(nn.Linear(d, m), nn.Tanh(), nn.Linear(m, c))
def flat(d, c, m): return nn.Sequential(nn.Linear(d, c), nn.Flatten(0))
number = 3
"""


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_regime_net.py").write_text(FACTORY)
    (tmp_path / "my_broken_net.py").write_text("def net(:")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ridgeformer", "regime", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("model", ["mlp-attn", "relu", "qkv", "my_regime_net:net"])
def test_the_answer_comes_first(run, model):
    before = list(sys.path)
    code, out, err = run("digits", "--model", model, *QUICK)
    assert (code, err) == (0, "")
    assert out.strip().startswith("At width 32 this network")
    assert "Influence by NTK is" in out
    assert ("reachable" in out) == (model in ("mlp-attn", "relu"))
    assert sys.path == before


def test_page_and_precision(run, tmp_path):
    code, out, err = run("digits", "--float32", "--html", "page.html", *QUICK)
    assert (code, err) == (0, "")
    assert "Written to page.html." in out
    assert "How the kernel approaches its limit" in (tmp_path / "page.html").read_text()


def test_a_table_is_scaled_before_a_network_sees_it(run, tmp_path):
    """Columns and target as given moved the weights by 448,601,157 %, and another unit of the target changed that."""
    lines = ["a,b,price"] + [f"{k % 7},{1000 * (k % 11)},{250_000 + 900 * (k % 7)}" for k in range(60)]
    (tmp_path / "houses.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "cents.csv").write_text("\n".join([lines[0], *(line + "00" for line in lines[1:])]) + "\n")
    one, other = (
        json.loads(run(name, "--target", "price", "--scale", 1, "--json", *QUICK)[1])["measured"]
        for name in ("houses.csv", "cents.csv")
    )
    assert one["weight_movement"] < 1
    assert one["weight_movement"] == pytest.approx(other["weight_movement"])
    assert one["test_error"] < 4  # the mean would have about 1


def test_json(run):
    facts = json.loads(run("digits", "--model", "mlp-attn", "--rank", 8, "--seed", 3, "--json", *QUICK)[1])
    assert facts["architecture"]["rank"] == 8
    assert facts["measured"]["width"] == 32
    assert facts["measured"]["seed"] == 3
    assert [epoch for epoch, _ in facts["measured"]["curve"]] == [0, 1, 2, 3, 4, 5]
    assert facts["page"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "mlp-atn"), "did you mean 'mlp-attn'?"),
        (("--model", "nowhere_at_all:net"), "cannot be imported"),
        (("--model", "my_regime_net:nothing"), "cannot be imported"),
        (("--model", "my_regime_net:number"), "is a int; a function"),
        (("--model", "my_regime_net:flat"), "(rows, outputs) was expected"),
        (("--model", "my_broken_net:net"), "cannot be imported"),
        (("--method", "adamm"), "did you mean 'adam'?"),
        (("--ridge", "0"), "ridge is 0"),
        (
            ("--width", 10**12),
            "a network of width 1,000,000,000,000 on 40 rows of 64 features needs about 4,032,000.0 GB",
        ),
    ],
)
def test_what_is_refused(run, arguments, message):
    code, _, err = run("digits", *QUICK, *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1,2,x", "2,1,y"], "2 rows; at least 3 are needed"),
        (["1,1,x", "1,1,y", "1,1,x", "1,1,y"], "constant"),
        (["1,2,x", "2,1,x", "2,3,x", "3,1,x"], "class"),
    ],
)
def test_bad_data_are_refused_in_one_sentence(run, tmp_path, rows, message):
    (tmp_path / "own.csv").write_text("\n".join(["a,b,t", *rows]))
    code, _, err = run("own.csv", "--target", "t", *QUICK)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
