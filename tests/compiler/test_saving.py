import errno
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.compiler import saving
from tests.compiler.tasks import MODELS, compiled, model, task


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_is_bit_identical(name, tmp_path):
    X, y, Xq = task(outputs=2)
    net = model(name, outputs=2)
    net.save(tmp_path / "model")
    again = rf.load_model(tmp_path / "model")
    assert torch.equal(again(X, y, Xq), net(X, y, Xq))
    assert again.spec == net.spec
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]


def test_a_fresh_process_computes_the_same_bits(tmp_path):
    X, y, Xq = task()
    net = model("softmax cg")
    net.save(tmp_path)
    script = (
        "import sys, torch, ridgeformer as rf\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from tests.compiler.tasks import task\n"
        "print(rf.load_model(sys.argv[1])(*task()).numpy().tobytes().hex())\n"
    )
    root = __file__.rsplit("/", 3)[0]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), root], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == net(X, y, Xq).numpy().tobytes().hex()


def test_what_steps_share_is_written_for_each_and_must_agree(tmp_path):
    """Steps of FISTA differ in their momentum only; the file is as plain as if they shared nothing."""
    X, y, Xq = task(p=4)
    net = rf.compile(rf.programs.fista(steps=3), features=4)
    held = list(net.state_dict())
    assert len(list(net.parameters())) < len(held)
    net.save(tmp_path)
    again = rf.load_model(tmp_path)
    assert torch.equal(again(X, y, Xq), net(X, y, Xq))
    assert len(list(again.parameters())) == len(list(net.parameters()))
    weights = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert sorted(weights) == sorted(held)
    weights["steps.1.0.W_a"][0, 0] += 1.0
    content = safetensors.torch.save(weights)
    (tmp_path / "model.safetensors").write_bytes(content)
    config = json.loads((tmp_path / "config.json").read_text())
    config["checksum"] = saving._checksum(config["specification"], content)  # a forged file
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(errors.DataFileError, match=r"are one in the model"):
        rf.load_model(tmp_path)


def damage(path, how):
    config, weights = path / "config.json", path / "model.safetensors"
    if how == "no config":
        config.unlink()
    elif how == "garbled config":
        config.write_text("{")
    elif how == "foreign config":
        config.write_text('{"format": "something else"}')
    elif how == "config of another version":
        text = json.loads(config.read_text())
        text["specification"]["novelty"] = 1
        config.write_text(json.dumps(text))
    elif how == "config with another ridge sign":
        text = json.loads(config.read_text())
        text["specification"]["ridge"] = -1.0
        config.write_text(json.dumps(text))
    elif how == "config for another model":
        text = json.loads(config.read_text())
        text["specification"]["features"] = 7
        config.write_text(json.dumps(text))
    elif how == "config with another ridge":
        text = json.loads(config.read_text())
        text["specification"]["ridge"] *= 2
        config.write_text(json.dumps(text))
    elif how == "config with huge numbers":
        text = json.loads(config.read_text())
        text["specification"] |= {"outputs": 10**9, "width": 10**12}
        config.write_text(json.dumps(text))
    elif how == "config with words for numbers":
        text = json.loads(config.read_text())
        text["specification"]["algorithm"]["steps"] = "6"
        config.write_text(json.dumps(text))
    elif how == "config of a bottomless depth":
        config.write_text("[" * 100_000)
    elif how == "config without a checksum":
        text = json.loads(config.read_text())
        del text["checksum"]
        config.write_text(json.dumps(text))
    elif how == "weights of a model alike":
        model("softmax cg", ridge=7.0).save(path / "other")
        weights.write_bytes((path / "other" / "model.safetensors").read_bytes())
    elif how == "one bit of the weights":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif how == "no weights":
        weights.unlink()
    elif how == "truncated weights":
        weights.write_bytes(weights.read_bytes()[:100])
    elif how == "garbage weights":
        weights.write_bytes(b"\x80\x04K\x01.")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("no config", "has no config.json"),
        ("garbled config", "damaged"),
        ("foreign config", "not the configuration"),
        ("config of another version", "novelty"),
        ("config with another ridge sign", "ridge is -1"),
        ("config for another model", "save the model again"),
        ("config with another ridge", "do not belong together"),
        ("config with huge numbers", "do not belong together"),
        ("config with words for numbers", "steps is '6'; a whole number"),
        ("config of a bottomless depth", "damaged"),
        ("config without a checksum", "has no checksum"),
        ("weights of a model alike", "do not belong together"),
        ("one bit of the weights", "do not belong together"),
        ("no weights", "has no model.safetensors"),
        ("truncated weights", "do not belong together"),
        ("garbage weights", "do not belong together"),
    ],
)
def test_damaged_or_foreign_models_are_refused(how, words, tmp_path):
    model("softmax cg").save(tmp_path)
    damage(tmp_path, how)
    with pytest.raises(errors.DataFileError, match=words):
        rf.load_model(tmp_path)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.RidgeformerError, match="choose another directory"):
        model("softmax cg").save(tmp_path / "file" / "inner")


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path, content):
        with path.open("wb") as file:
            file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(errors.RidgeformerError, match="No space left"):
        model("softmax cg").save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def reseal(path, **changes):
    """Change the specification and give it the checksum of an honest file: only sizes can betray it."""
    config = json.loads((path / "config.json").read_text())
    config["specification"] |= changes
    config["checksum"] = saving._checksum(config["specification"], (path / "model.safetensors").read_bytes())
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "changes",
    [
        {"features": 10**9, "projected": 10**9, "carried": 10**9},
        {"features": 10**9},
        {"outputs": 10**8},
        {"projected": 10**9, "carried": 10**9},
        {"projected": 10**9},
        {"width": 10**9},
        {"algorithm": {"name": "cg", "steps": 10**9, "preconditioner": None}},
        {"algorithm": {"name": "cg", "steps": 10**5, "preconditioner": None}, "tied": False},
        {"algorithm": {"name": "chebyshev", "steps": 10**5, "spectrum": [0.1, 1.0]}},
        {"primitives": "relu", "reciprocal_range": [0.01, 100.0], "relu_bound": 8.0, "relu_knots": 2**16},
        {"ridge": 10**400},
        {"features": 10**4000},
    ],
)
def test_a_configuration_larger_than_its_weights_takes_no_memory(changes, tmp_path):
    model("softmax cg", outputs=2).save(tmp_path)
    reseal(tmp_path, **changes)
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.DataFileError, match=r"save the model again|expected"):
        rf.load_model(tmp_path)
    assert time.process_time() - begin < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"width": 60}, {"tied": False}])
def test_the_closed_form_of_the_size_is_below_the_size_by_a_bounded_factor(name, outputs, options):
    net = model(name, outputs=outputs, features=20, **options)
    held = sum(weight.numel() for weight in net.state_dict().values())
    assert net.spec.least_numbers <= held <= 60 * net.spec.least_numbers


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["endless", "pipe", "directory", "too large"])
def test_a_file_that_is_no_regular_file_is_refused_at_once(file, kind, tmp_path):
    model("softmax cg").save(tmp_path)
    (tmp_path / file).unlink()
    if kind == "endless":
        (tmp_path / file).symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(tmp_path / file)
    elif kind == "directory":
        (tmp_path / file).mkdir()
    else:
        with (tmp_path / file).open("wb") as sparse:
            sparse.truncate(2**21)
    with pytest.raises(errors.DataFileError, match=r"device|directory|at most|do not belong"):
        rf.load_model(tmp_path)


@pytest.mark.parametrize("size", [{"features": 10**9}, {"features": 3, "outputs": 10**8}])
def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_built(size):
    with pytest.raises(errors.InputError, match="of memory"):
        compiled("linear", ridge=1.0, steps=3, **size)
