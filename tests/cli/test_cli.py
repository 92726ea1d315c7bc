"""The command line as a person or a script meets it: text, JSON, exit codes, one-line errors."""

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
import typer

from ridgeformer.cli.commands import app


def table(path, rows=60):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((rows, 3))
    lines = ["a,b,c,price", *(f"{x[0]},{x[1]},{x[2]},{x[0] + 0.1 * x[1]}" for x in X)]
    path.write_text("\n".join(lines) + "\n")


def test_a_real_process_prints_its_version():
    done = subprocess.run(
        [sys.executable, "-m", "ridgeformer", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ridgeformer {version('ridgeformer')}\n"


def test_solve_prints_plain_words_first(run):
    code, out, err = run("solve", "wine", "--ridge", "0.1", "--algorithm", "cg")
    assert (code, err) == (0, "")
    assert out.strip().startswith("Converged")
    assert "(proved)" in out


def test_solve_as_json_on_a_file_of_ones_own(run, tmp_path):
    table(tmp_path / "mine.csv")
    code, out, _ = run("solve", "mine.csv", "--target", "price", "--kernel", "dot_product", "--ridge", "1e-3", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["status"] == "converged"
    assert facts["held_out_score"] > 0.99
    assert facts["largest_prediction_bound"] < 1e-8


def test_solve_explains_its_plan(run):
    code, out, _ = run("solve", "wine", "--ridge", "0.1", "--explain")
    text = " ".join(out.split())
    assert code == 0
    assert "direct on the stored engine, working in float64: about" in text
    assert "few rows" in text
    code, out, _ = run("solve", "wine", "--ridge", "0.1", "--algorithm", "mixed_pcg", "--engine", "tiles", "--json")
    assert (code, json.loads(out)["plan"]["engine"]) == (0, "tiles")


def test_solve_on_centres(run):
    code, out, _ = run("solve", "wine", "--ridge", "0.1", "--algorithm", "nystrom", "--centres", "20", "--json")
    facts = json.loads(out)
    assert (code, facts["status"], facts["plan"]["rank"]) == (0, "subset", 20)
    assert facts["fit_error"] > 0


def test_solve_on_centres_that_are_doubled(run):
    code, out, _ = run("solve", "wine", "--ridge", "0.1", "--algorithm", "nystrom", "--centres", "auto", "--json")
    assert code == 0
    assert [one["centres"] for one in json.loads(out)["doublings"]] == [125]  # all training rows are fewer than 256
    code, _, err = run("solve", "wine", "--algorithm", "nystrom", "--centres", "some")
    assert code == 2
    assert "--centres is 'some'; a whole number of at least 1, or auto, was expected." in " ".join(err.split())


def test_not_converging_is_exit_code_1_and_advice(run):
    code, out, _ = run("solve", "wine", "--ridge", "1e-8", "--algorithm", "cg", "--steps", "3")
    assert code == 1
    assert "raise steps" in " ".join(out.split())


def test_neumann_diverges_with_the_norm(run):
    code, out, _ = run("solve", "wine", "--algorithm", "neumann", "--ridge", "0.5")
    assert code == 1
    assert "Neumann series needs ||K|| < ridge" in " ".join(out.split())


@pytest.mark.parametrize("kernel", ["dot_product", "exponential", "gram_power", "relu_ntk", "relu_ntk_both"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_kernel_in_both_precisions(run, kernel, precision):
    ridge = "1e6" if kernel == "gram_power" else "1"  # cubed eigenvalues: a small ridge is below round-off
    code, out, _ = run("solve", "wine", "--kernel", kernel, "--ridge", ridge, "--precision", precision, "--json")
    assert (code, json.loads(out)["status"]) == (0, "converged")


def test_data_list_and_show(run):
    _, out, _ = run("data", "list")
    assert "digits" in out
    assert [info["name"] for info in json.loads(run("data", "list", "--json")[1])][:3] == ["digits", "diabetes", "wine"]
    assert "scikit-learn's own copy" in run("data", "show", "wine")[1]
    assert json.loads(run("data", "show", "wine", "--json")[1])["d"] == 13


def test_data_fetch_of_embedded_data(run):
    assert "nothing to fetch" in run("data", "fetch", "wine")[1]
    assert json.loads(run("data", "fetch", "wine", "--json")[1]) == {"name": "wine", "path": None}


@pytest.mark.parametrize(
    "command", [(), ("data",), ("--help",), ("solve", "--help"), ("audit", "-h"), ("data", "fetch", "-h")]
)
def test_help_has_an_example(run, command):
    code, out, _ = run(*command)
    assert code == 0
    assert "ridgeformer" in out
    if command and command[-1] in ("-h", "--help") and len(command) > 1:
        assert "Example: ridgeformer" in " ".join(out.split())


def every_command(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


def test_the_help_of_every_command_has_an_example_that_it_would_take():
    found = dict(every_command(typer.main.get_command(app)))
    assert {("audit",), ("demo",), ("data", "fetch"), ("studies", "run")} <= set(found)
    for path, command in found.items():
        examples = re.findall(r"Example: ridgeformer (.+)", command.help)
        assert examples, path
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for words in map(shlex.split, examples):
            assert tuple(words[: len(path)]) == path
            assert {word for word in words if word.startswith("--")} <= options, path


@pytest.mark.parametrize(
    ("words", "completed"),
    [("aud", "audit"), ("solve di", "diabetes digits"), ("solve wine --kernel ga", "gaussian"), ("data sh", "show")],
)
def test_a_shell_completes_commands_datasets_and_names(words, completed):
    typed = f"ridgeformer {words}"
    asked = {"_RIDGEFORMER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    code = "import sys; from ridgeformer.cli import main; sys.argv = ['ridgeformer']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert sorted(done.stdout.split()) == completed.split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("slve",), "Did you mean 'solve'"),
        (("solve", "digts"), "did you mean 'digits'"),
        (("solve", "wine", "--kernel", "exponentail"), "did you mean 'exponential'"),
        (("solve", "wine", "--algorithm", "pgc"), "did you mean 'pcg'"),
        (("solve", "wine", "--ridge", "0"), "ridge is 0; it must be a finite number > 0"),
        (("solve", "wine", "--ridge", "nan"), "ridge is nan"),
        (("solve", "wine", "--temperature", "-2"), "temperature is -2"),
        (("solve", "wine", "--temperature", "warm"), "Give a number, or auto"),
        (("solve", "wine", "--algorithm", "direct", "--preconditioner", "jacobi"), "has no option 'preconditioner'"),
        (("solve", "missing.csv"), "does not exist"),
        (("solve", "wine", "--target", "x"), "belong to files"),
        (("audit", "wine", "--preprocessing", "none"), "unknown preprocessing"),
        (("audit", "model.pkl"), "pickle"),
        (("data", "show", "minst"), "did you mean 'mnist'"),
        (("data", "fetch", "mnist", "--from", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, words, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGEFORMER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04.")
    code, out, err = run(*arguments)
    assert code == 2
    assert words in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "audit").exists()


def test_an_unfetched_dataset_says_the_command(run, monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGEFORMER_CACHE", str(tmp_path / "cache"))
    code, _, err = run("solve", "mnist")
    assert code == 2
    assert "ridgeformer data fetch mnist" in err


def test_rank_and_another_preconditioner_do_not_go_together(run):
    code, _, err = run("solve", "wine", "--algorithm", "pcg", "--preconditioner", "jacobi", "--rank", "5")
    assert code == 2
    assert "--rank belongs to a low-rank preconditioner" in err
