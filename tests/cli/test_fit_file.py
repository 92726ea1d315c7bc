"""`ridgeformer fit` of a table on disk: written, used, interrupted, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from ridgeformer.cli import fitted


def write(path, rows=600):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(rows, 3))
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    pa.parquet.write_table(pa.table({**columns, "y": np.sin(X[:, 0]) + 0.1 * draw.normal(size=rows)}), path)


def test_a_table_is_fitted_and_used(run, tmp_path):
    write(tmp_path / "big.parquet")
    code, out, err = run("fit", "big.parquet", "--target", "y", "--centres", "40", "--out", "m.safetensors")
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "Fitted 600 rows with coefficients on 40 centres; the leave-one-out error at 600 rows is 0.1" in said
    assert not Path("m.safetensors.work").exists()
    pa.csv.write_csv(pa.table({"a": [0.5, 99.0], "b": [0.0, 0.0], "c": [0.0, 0.0]}), "new.csv")
    rows = json.loads(run("predict", "m.safetensors", "new.csv", "--json")[1])
    assert rows[0]["y"] == pytest.approx(np.sin(0.5), abs=0.1)
    assert rows[0]["low"] < np.sin(0.5) < rows[0]["high"]
    assert rows[1]["outside"] == "'a' outside the training range"


def test_large_tables_are_not_read_into_memory(run, tmp_path, monkeypatch):
    write(tmp_path / "big.parquet")
    monkeypatch.setattr(fitted, "LARGE", 1000)
    code, out, err = run("fit", "big.parquet", "--target", "y", "--out", "m.safetensors", "--work", "kept", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert (facts["rows"], facts["status"]) == (600, "subset")
    assert (Path("kept") / "X.npy").exists()


def test_what_cannot_be_done_is_said(run, tmp_path):
    code, _, err = run("fit", "wine", "--centres", "40", "--out", "m.safetensors")
    assert (code, "--centres is for .csv and .parquet files" in err) == (2, True)
    pa.csv.write_csv(pa.table({"a": ["x", "y"], "y": [1.0, 2.0]}), tmp_path / "t.csv")
    code, _, err = run("fit", "t.csv", "--centres", "40", "--out", "m.safetensors")
    assert (code, "has text, dates or records in" in err) == (2, True)


def test_a_column_that_turns_to_text_far_down_is_named_and_what_was_read_is_kept(run, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeformer.datasets.on_disk.NOTED", 1)
    lines = ["a,y", *(f"{row % 97}.25,{row % 7}.125" for row in range(900_000)), "n/a?,3", "1,2"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    code, _, err = run("fit", "t.csv", "--target", "y", "--centres", "40", "--out", "m.safetensors")
    assert code == 2
    assert "has something other than numbers" in err
    assert "'n/a?'" in err
    assert json.loads(Path("m.safetensors.work/notes.json").read_text())["counted"] > 0
    assert not Path("m.safetensors").exists()


@pytest.mark.parametrize("change", ["grown", "cut"])
def test_a_file_that_changes_size_while_it_is_read_is_noticed(run, tmp_path, monkeypatch, change):
    from ridgeformer.datasets import on_disk

    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{row % 97},{row % 7}\n" for row in range(5000)))
    read = on_disk._batches

    def changing(*given):
        for number, batch in enumerate(read(*given)):
            if number == 0:
                path.write_text("a,y\n1,2\n3,4\n" if change == "cut" else path.read_text() + "5,6\n")
            yield batch

    monkeypatch.setattr(on_disk, "_batches", changing)
    code, _, err = run("fit", "t.csv", "--target", "y", "--centres", "40", "--out", "m.safetensors")
    assert (code, "changed while it was read" in err) == (2, True)
    assert not Path("m.safetensors").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_started_again_it_goes_on_and_gives_the_same_file(how, tmp_path):
    write(tmp_path / "big.parquet", rows=100_000)
    command = [
        sys.executable, "-m", "ridgeformer", "fit", "big.parquet", "--target", "y", "--centres", "700",
        "--work", "work", "--out", "m.safetensors",
    ]  # fmt: skip
    subprocess.run(
        [*command[:-3], "whole", "--out", "whole.safetensors"], cwd=tmp_path, check=True, capture_output=True
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 200
    while not list((tmp_path / "work" / "solve").glob("*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, how)
    _, said = process.communicate(timeout=100)
    assert not (tmp_path / "m.safetensors").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "the same command goes on with it" in said
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
