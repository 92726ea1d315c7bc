"""Studies on the command line: list, show, run, export, reproduce; exit codes, JSON lines, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY, GRUMPY = "tests.studies.tiny_studies:STUDY", "tests.studies.tiny_studies:GRUMPY"


def test_list_and_show(run):
    code, out, _ = run("studies", "list")
    assert code == 0
    assert "depth-accuracy" in out
    assert "width-rank" in out
    names = [study["name"] for study in json.loads(run("studies", "list", "--json")[1])]
    assert {"depth-accuracy", "width-rank", "overhead"} <= set(names)
    assert run("studies", "show", "width-rank")[1].startswith("width-rank (version 2): What compiled transformers lose")


def test_run_resume_show_and_export(run, tmp_path):
    code, out, err = run("studies", "run", TINY, "--preset", "quick", "--store", "a.db")
    assert (code, err) == (0, "")
    assert out.startswith("tiny: 150 of 150 tasks have a result, 150 of them computed now")
    assert "0 of them computed" in run("studies", "run", TINY, "--preset", "quick", "--store", "a.db")[1]
    facts = json.loads(run("studies", "show", TINY, "--store", "a.db", "--json")[1])
    assert facts["store"]["done"] == {"quick": 150}
    export = ("studies", "export", TINY, "--store", "a.db", "--out")
    assert run(*export, "t.csv")[1] == "150 rows: t.csv\n"
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 151
    facts = json.loads(run(*export, "t.parquet", "--format", "parquet", "--intervals", "--json")[1])
    assert (facts["rows"], facts["columns"][:2]) == (50, ["x", "seeds"])
    assert (tmp_path / "t.parquet").read_bytes().startswith(b"PAR1")


def test_failures_are_listed_and_the_exit_code_is_1(run):
    code, out, _ = run("studies", "run", GRUMPY, "--preset", "quick", "--store", "a.db")
    assert code == 1
    text = " ".join(out.split())
    assert "5 of 6 tasks have a result" in text
    assert 'failed: {"x":3}, seed 0: ValueError: three is not to my taste' in text
    assert "three is not to my taste" in run("studies", "show", GRUMPY, "--store", "a.db")[1]


def test_json_lines(run):
    code, out, _ = run("studies", "run", GRUMPY, "--preset", "quick", "--store", "a.db", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [line["event"] for line in lines] == ["progress", "end"]
    assert lines[0]["total"] == 6
    assert (lines[-1]["computed"], lines[-1]["failures"][0]["params"]) == (6, '{"x":3}')


@pytest.mark.parametrize("content", [b"garbage" * 1000, b""])
def test_a_damaged_store_is_one_line_and_exit_code_2(run, tmp_path, content):
    (tmp_path / "a.db").write_bytes(content)
    code, out, err = run("studies", "run", "overhead", "--preset", "quick", "--store", "a.db")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "left as it is" in err
    assert (tmp_path / "a.db").read_bytes() == content


def test_wrong_names(run):
    assert "did you mean 'depth-accuracy'" in run("studies", "show", "depth-acuracy")[2]
    assert "did you mean 'rows'" in run("reproduce", "condition-numbers", "--set", "row=5")[2]
    assert "--set rows: name=value" in run("reproduce", "condition-numbers", "--set", "rows")[2]


def test_ctrl_c_prints_the_command_that_resumes(tmp_path):
    store = tmp_path / "a.db"
    command = ["studies", "run", TINY, "--preset", "quick", "--store", str(store)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    child = subprocess.Popen(
        [sys.executable, "-m", "ridgeformer", *command], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": path, "TINY_SLEEP": "0.5", "TINY_LOG": str(tmp_path / "log")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite run in the background ignores it
    )  # fmt: skip
    while not (tmp_path / "log").exists():
        time.sleep(0.05)
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert f"To resume: ridgeformer {' '.join(command)}" in err
    assert store.exists()


def test_reproduce_writes_page_and_tables(run, tmp_path, monkeypatch):
    from ridgeformer.studies import STUDIES, Preset, width_rank

    points = STUDIES["width-rank"].presets["quick"].points
    few = Preset([point for point in points if point["width"] == 12 and point["dtype"] == "float64"])
    monkeypatch.setitem(width_rank.STUDY.presets, "quick", few)
    code, out, _ = run("reproduce", "width-rank", "--out", "here")
    assert code == 0
    assert "stayed below s/(s + ridge)" in " ".join(out.split())
    assert {path.name for path in (tmp_path / "here").iterdir()} >= {
        "report.html", "results.csv", "intervals.csv", "store.db",
    }  # fmt: skip
    end = json.loads(run("reproduce", "width-rank", "--out", "here", "--json")[1].splitlines()[-1])
    assert (end["computed"], end["page"]) == (0, "here/report.html")


def test_reproduce_with_other_parameters_and_seeds(run, tmp_path):
    code, out, _ = run(
        "reproduce", "condition-numbers", "--set", "preparation=unit,raw", "--set", "rows=60", "--seeds", "2",
        "--out", "k",
    )  # fmt: skip
    assert code == 0
    assert "0 of 24 interpretations" in " ".join(out.split())
    lines = (tmp_path / "k" / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 2 * 6
    assert {line.split(",")[2] for line in lines[1:]} == {"60"}
