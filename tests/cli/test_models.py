"""Compiled models on the command line: compile, explain, run, certify."""

import json

import pytest
import torch

import ridgeformer as rf


@pytest.fixture
def model(run):
    options = ("--features", 13, "--outputs", 3, "--ridge", 1, "--steps", 12, "--temperature", 13, "--out", "model")
    code, out, err = run("compile", *options)
    assert (code, err) == (0, "")
    assert out.strip().startswith("A transformer that runs 12 steps of softmax-attention conjugate gradients")
    return "model"


def test_explain(run, model):
    code, out, _ = run("explain", model)
    assert code == 0
    assert "kernel product" in out
    facts = json.loads(run("explain", model, "--json")[1])
    assert facts["channels"]["alpha"] == "coefficients"
    assert facts["budget"]["width"] == 13 + facts["budget"]["overhead"]


def test_run(run, model):
    code, out, _ = run("run", model, "wine")
    assert code == 0
    assert out.strip().startswith("The transformer reaches 9")
    facts = json.loads(run("run", model, "wine", "--json")[1])
    assert facts["held_out_score"] > 0.9
    assert facts["largest_difference"] < 0.1 * facts["typical_output"]
    assert facts["same_decisions"] == 1.0
    assert facts["supports"] + facts["queries"] <= 300


def test_run_writes_a_page_to_watch(run, model, tmp_path):
    code, out, err = run("run", model, "wine", "--html", "pages/trace.html")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "Trace of 16 supports and 5 queries: pages/trace.html"
    assert 'class="trace-viewer"' in (tmp_path / "pages" / "trace.html").read_text()
    facts = json.loads(run("run", model, "wine", "--html", "again.html", "--json")[1])
    assert (facts["page"], facts["watched"]) == ("again.html", [16, 5])


def test_certify(run, model):
    code, out, _ = run("certify", model, "wine")
    assert (code, out.splitlines()[0]) == (0, "Proved within 0.6 % of exact ridge regression.")
    facts = json.loads(run("certify", model, "wine", "--json")[1])
    assert facts["holds"] is facts["accurate"] is True
    assert facts["verdict"] == out.splitlines()[0]
    assert 0.005 < facts["proved_within"] <= 0.006
    assert {check["name"]: check["kind"] for check in facts["checks"]}["accuracy"] == "proved"
    assert "curves" not in facts
    assert json.loads(run("certify", model, "wine", "--json", "--curves")[1])["curves"]["error per step"]["measured"]


def test_a_certificate_that_does_not_hold_is_exit_code_1(run, model, tmp_path):
    changed = rf.load_model(tmp_path / model)
    changed.steps[0][0].W_Q[0].detach().mul_(1.01)
    changed.save(tmp_path / model)
    code, out, _ = run("certify", model, "wine")
    assert code == 1
    assert "but other checks fail: weights, textbook steps" in out.splitlines()[0]
    assert run("certify", model, "wine", "--json")[0] == 1
    changed.steps[0][0].W_Q[0].detach().mul_(1.2)
    changed.save(tmp_path / model)
    code, out, _ = run("certify", model, "wine")
    assert code == 1
    assert out.startswith("Not shown to be accurate: proved only within ")
    assert "the weights are not those of the specification: compile the model again" in out.splitlines()[0]


def test_an_inaccurate_run_is_red_and_exit_code_1(run, monkeypatch):
    """No weight is wrong and every expected line holds: there are only too few steps."""
    options = ("--features", 13, "--outputs", 3, "--ridge", 1, "--temperature", 13, "--json")
    for steps in (2, 12):
        run("compile", *options, "--steps", steps, "--out", f"m{steps}")
    code, out, _ = run("certify", "m2", "wine")
    verdict = "Not shown to be accurate: proved only within 82 % of exact ridge regression; run 10 more steps."
    assert (code, out.splitlines()[0]) == (1, verdict)
    facts = json.loads(run("certify", "m2", "wine", "--json")[1])
    assert [check["name"] for check in facts["checks"] if not check["holds"]] == ["accuracy"]
    assert run("certify", "m2", "wine", "--tolerance", 0.9)[0] == 0
    assert run("certify", "m12", "wine")[0] == 0
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    red, green = "\x1b[1;31m", "\x1b[1;32m"
    assert run("certify", "m2", "wine")[1].startswith(red + "Not shown")
    assert run("certify", "m12", "wine")[1].startswith(green + "Proved within")


@pytest.mark.parametrize(
    "attention",
    [
        ("--kernel", "dot_product"),
        ("--kernel", "gaussian"),
        ("--attention", "vanilla", "--algorithm", "richardson"),
        ("--kernel", "dot_product", "--attention", "imitation"),
        ("--algorithm", "nesterov", "--spectrum", 2000, 3000),
    ],
)
def test_every_attention(run, attention):
    options = (
        "--features",
        13,
        "--outputs",
        3,
        "--ridge",
        2000,
        "--steps",
        40,
        "--temperature",
        13,
        "--precision",
        "float64",
    )
    assert run("compile", *attention, *options, "--out", "m", "--json")[0] == 0
    assert run("certify", "m", "wine", "--json")[0] == 0


def test_chebyshev_and_a_sketch_of_reference_data(run):
    many = ("--features", 13, "--outputs", 3, "--ridge", 1, "--steps", 5)
    code, out, _ = run(
        "compile", "--kernel", "dot_product", *many, "--algorithm", "chebyshev", "--spectrum", 1, 900, "--out", "c"
    )
    assert code == 0, out
    code, out, _ = run("certify", "c", "wine")
    assert code == 1
    assert out.count("FAILS") == 1
    narrow = ("--width", 30, "--sketch", "pca", "--reference", "wine", "--out", "s", "--json")
    facts = json.loads(run("compile", "--kernel", "dot_product", *many, *narrow)[1])
    assert facts["specification"]["carried"] == 8
    code, out, _ = run("certify", "s", "wine")
    assert code == 1
    assert "its sketch of 13 features to 8 alone costs" in out
    assert out.count("FAILS") == 1


@pytest.mark.parametrize("command", ["compile", "run", "explain", "certify"])
def test_help_has_an_example(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: ridgeformer {command}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compile", "--out", "m"), "Missing option"),
        (("compile", "--features", "3", "--kernel", "exponentail", "--out", "m"), "did you mean 'exponential'"),
        (("compile", "--features", "3", "--algorithm", "direct", "--out", "m"), "'direct' cannot be compiled"),
        (("compile", "--features", "3", "--ridge", "0", "--out", "m"), "ridge is 0"),
        (("compile", "--features", "3", "--width", "5", "--out", "m"), "give a width of at least"),
        (("compile", "--features", "30", "--width", "20", "--sketch", "pca", "--out", "m"), "needs reference"),
        (("explain", "nowhere"), "not a saved model"),
        (("run", "nowhere", "wine"), "not a saved model"),
        (("certify", "model", "digits"), "digits has 64 features and the model was compiled for 13"),
        (("run", "model", "digits"), "compile one with --features 64"),
        (("run", "model", "wnie"), "did you mean 'wine'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, model, arguments, words, tmp_path):
    code, out, err = run(*arguments)
    assert code == 2
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "m").exists()


def test_another_number_of_outputs(run):
    run("compile", "--features", 13, "--steps", 2, "--out", "one")
    code, _, err = run("certify", "one", "wine")
    assert code == 2
    assert "wine has 3 outputs and the model was compiled for 1" in err


def test_a_saved_float32_model_runs(run):
    run("compile", "--features", 13, "--outputs", 3, "--steps", 3, "--temperature", 13, "--precision", "float32",
        "--out", "f")  # fmt: skip
    facts = json.loads(run("run", "f", "wine", "--json")[1])
    assert torch.isfinite(torch.tensor(facts["held_out_score"]))
