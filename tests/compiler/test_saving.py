import json
import subprocess
import sys

import pytest
import torch
from safetensors import SafetensorError
from tasks import MODELS, model, task

import ridgeformer as rf
from ridgeformer import errors
from ridgeformer.compiler import saving


@pytest.mark.parametrize("name", MODELS)
def test_what_is_loaded_is_bit_identical(name, tmp_path):
    X, y, Xq = task(outputs=2)
    net = model(name, outputs=2)
    net.save(tmp_path / "model")
    again = rf.load(tmp_path / "model")
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
        "from tasks import task\n"
        "print(rf.load(sys.argv[1])(*task()).numpy().tobytes().hex())\n"
    )
    here = __file__.rsplit("/", 1)[0]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), here], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == net(X, y, Xq).numpy().tobytes().hex()


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
        text["specification"]["steps"] = "6"
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
        ("truncated weights", "damaged"),
        ("garbage weights", "damaged"),
    ],
)
def test_damaged_or_foreign_models_are_refused(how, words, tmp_path):
    model("softmax cg").save(tmp_path)
    damage(tmp_path, how)
    with pytest.raises(errors.DataFileError, match=words):
        rf.load(tmp_path)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.RidgeformerError, match="choose another directory"):
        model("softmax cg").save(tmp_path / "file" / "inner")


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(weights, path):
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: No space left on device")

    monkeypatch.setattr(saving, "save_file", full)
    with pytest.raises(errors.RidgeformerError, match="No space left"):
        model("softmax cg").save(tmp_path)
    assert list(tmp_path.iterdir()) == []
