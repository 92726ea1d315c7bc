"""Hostile files at the command line: one line on standard error and exit code 2."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ridgeformer as rf


def wide(path):
    path.with_suffix(".csv").write_text(",".join(f"c{i}" for i in range(300_000)) + "\n")
    return "solve", path.with_suffix(".csv")


def metadata(path):
    table = pa.table({"a": [1.0, 2.0], "y": [1.0, 3.0]}).replace_schema_metadata({"pandas": b"{"})
    pq.write_table(table, path.with_suffix(".parquet"))
    return "audit", path.with_suffix(".parquet")


def encrypted(path):
    np.savez(path.with_suffix(".npz"), X=np.eye(3), y=np.arange(3.0))
    content = path.with_suffix(".npz").read_bytes()
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        parts = content.split(signature)
        content = signature.join([parts[0], *(p[: offset - 4] + b"\1" + p[offset - 3 :] for p in parts[1:])])
    path.with_suffix(".npz").write_bytes(content)
    return "solve", path.with_suffix(".npz")


def endless(path):
    rf.compile(rf.kernels.DotProduct(), rf.algorithms.ConjugateGradients(steps=3), features=3, ridge=0.3).save(path)
    (path / "model.safetensors").unlink()
    (path / "model.safetensors").symlink_to("/dev/zero")
    return "explain", path


def enormous(path):
    rf.compile(rf.kernels.DotProduct(), rf.algorithms.ConjugateGradients(steps=3), features=3, ridge=0.3).save(path)
    config = json.loads((path / "config.json").read_text())
    config["specification"]["features"] = 10**9
    (path / "config.json").write_text(json.dumps(config))
    return "explain", path


@pytest.mark.parametrize("make", [wide, metadata, encrypted, endless, enormous])
def test_a_hostile_file_is_one_line_and_exit_code_2(run, tmp_path, make):
    code, out, err = run(*make(tmp_path / "hostile"))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert "hostile" in err


def test_a_model_too_large_for_this_machine_is_refused(run):
    code, _, err = run(
        "compile", "--kernel", "dot_product", "--features", 10**9, "--ridge", 1, "--steps", 2, "--out", "model"
    )
    assert (code, "GB of memory" in err) == (2, True), err
