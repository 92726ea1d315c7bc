import hashlib
import json
import re
import shutil
import subprocess
import sys

import pytest
import torch

from ridgeformer import errors
from ridgeformer.export import hf, load_export, saving
from tests.export.exported_models import compiled, exported, task

BARRED = """
import sys
sys.modules["ridgeformer"] = None
given = sys.argv[1:]
for snippet, directory in zip(given[::2], given[1::2]):
    sys.argv = [snippet, directory]
    exec(open(snippet).read(), {"__name__": "__main__"})
"""
"""Runs files, each with an argument, in one process where importing ridgeformer fails."""

CASES = [
    ("t5", "cg", 2, "float64", {}),
    ("t5", "vanilla", 10, "float64", {"kernel": "gaussian"}),
    ("albert", "vanilla", 10, "float64", {}),
    ("gpt2", "vanilla", 10, "float64", {"outputs": 2}),
    ("llama", "cg", 2, "float32", {}),
    ("lens", "vanilla", 10, "float64", {}),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Directories of saved exports, each written once."""
    found = {}

    def save(target, route, steps, dtype="float64", rotate=None, **options):
        key = (target, route, steps, dtype, rotate, *options.items())
        if key not in found:
            export = exported(target, route, steps, dtype, rotate=rotate, **options)
            found[key] = export.save(tmp_path_factory.mktemp("export"))
        return found[key]

    return save


def test_the_snippets_of_the_cards_run_where_ridgeformer_is_not_installed(saved, tmp_path):
    """All in one process: importing the two libraries takes longer than everything else."""
    given = []
    for number, (target, route, steps, dtype, options) in enumerate(CASES):
        directory = saved(target, route, steps, dtype, **options)
        (snippet,) = re.findall(r"```python\n(.*?)```", (directory / "README.md").read_text(), re.S)
        assert len(snippet.splitlines()) <= 31 + 2 * (target in ("llama", "gpt2"))
        (tmp_path / f"{number}.py").write_text(snippet)
        given += [str(tmp_path / f"{number}.py"), str(directory)]
    command = [sys.executable, "-c", BARRED, *given]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[[")]
    for line, (_, route, steps, dtype, options) in zip(lines, CASES, strict=True):
        found = torch.tensor(json.loads(line), dtype=torch.float64)
        model = compiled(route, steps, dtype, **options)
        rows = torch.randn(15, 4, generator=torch.Generator().manual_seed(0), dtype=model.spec.torch_dtype)
        X, Xq = torch.nn.functional.normalize(rows).split([12, 3])
        expected = model(X, X[:, :1].expand(12, model.spec.outputs), Xq).double()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13 if dtype == "float64" else 2e-6)


@pytest.mark.parametrize(("target", "route", "steps", "dtype", "options"), CASES)
def test_what_was_saved_is_loaded_bit_for_bit(saved, target, route, steps, dtype, options):
    before, after = (
        exported(target, route, steps, dtype, **options),
        load_export(saved(target, route, steps, dtype, **options)),
    )
    assert type(before.model) is type(after.model)
    weights = after.model.state_dict()
    for name, weight in before.model.state_dict().items():
        assert weights[name].dtype == weight.dtype
        assert torch.equal(weights[name], weight), name
    assert after.io.circuit == before.io.circuit
    assert after.io.records == before.io.records
    given = task(dtype=before.io.spec.torch_dtype, outputs=options.get("outputs"))
    assert torch.equal(torch.stack(after(*given)), torch.stack(before(*given)))


def test_albert_stores_one_layer_whatever_the_depth(saved):
    deep, flat = (saved("albert", "vanilla", steps) / "model.safetensors" for steps in (50, 10))
    assert deep.stat().st_size == flat.stat().st_size


def test_no_custom_code_is_asked_for(saved):
    config = json.loads((saved("t5", "cg", 2) / "config.json").read_text())
    assert "auto_map" not in config
    assert config["architectures"] == ["T5EncoderModel"]


def test_the_card_says_what_is_proved(saved):
    card = (saved("t5", "cg", 2) / "README.md").read_text()
    assert re.search(r"proved to be within a relative distance of\s+\d\.\d+e[+-]\d+", card)
    assert "RMSNorm with epsilon 2^126" in card
    assert "seed" not in card.split("## Run it")[0]
    assert "A random rotation (seed 3)" in (saved("t5", "vanilla", 10, rotate=3) / "README.md").read_text()


def test_foreign_and_damaged_directories_are_refused(saved, tmp_path):
    with pytest.raises(errors.DataFileError, match=r"has no ridgeformer\.json"):
        load_export(tmp_path)
    (tmp_path / "ridgeformer.json").write_text("{}")
    with pytest.raises(errors.DataFileError, match="give a directory made by save"):
        load_export(tmp_path)
    (tmp_path / "ridgeformer.json").write_text("{")
    with pytest.raises(errors.DataFileError, match="export the model again"):
        load_export(tmp_path)


def test_edited_files_are_refused(saved, tmp_path):
    """A configuration with other norms, more layers or other weights would load without a word."""
    for target, route, steps in (("albert", "vanilla", 10), ("lens", "vanilla", 10)):
        place = shutil.copytree(saved(target, route, steps), tmp_path / target)
        for name in ("config.json", "model.safetensors", "io.safetensors", "ridgeformer.json"):
            before = (place / name).read_bytes()
            edited = before.replace(b'"scale": 1.0', b'"scale": 2.0')  # a record of ridgeformer.json
            (place / name).write_bytes(edited if edited != before else before[:-20] + before[-20:].swapcase() + b" ")
            with pytest.raises(errors.DataFileError, match="damaged or edited"):
                load_export(place)
            (place / name).unlink()
            with pytest.raises(errors.DataFileError):
                load_export(place)
            (place / name).write_bytes(before)
        load_export(place)


def test_a_configuration_that_asks_for_more_than_the_weights_hold_is_refused(saved, tmp_path):
    place = shutil.copytree(saved("lens", "vanilla", 10), tmp_path / "lens")
    facts, config = (json.loads((place / name).read_text()) for name in ("ridgeformer.json", "config.json"))
    for key in ("n_layers", "n_ctx", "d_model", "n_heads"):
        (place / "config.json").write_text(json.dumps({**config, key: 10**6}))
        facts["checksums"]["config.json"] = hashlib.sha256((place / "config.json").read_bytes()).hexdigest()
        facts["checksums"]["ridgeformer.json"] = saving._own_checksum(facts)
        (place / "ridgeformer.json").write_text(json.dumps(facts))
        with pytest.raises(errors.DataFileError, match="does not belong to"):
            load_export(place)


@pytest.mark.parametrize(("key", "value"), [("max_tokens", 10**9), ("records", []), ("directions", {})])
def test_facts_that_do_not_belong_to_their_tensors_are_refused(saved, tmp_path, key, value):
    place = shutil.copytree(saved("albert", "vanilla", 10), tmp_path / "albert")
    facts = json.loads((place / "ridgeformer.json").read_text()) | {key: value}
    facts["checksums"]["ridgeformer.json"] = saving._own_checksum(facts)
    (place / "ridgeformer.json").write_text(json.dumps(facts))
    with pytest.raises(errors.DataFileError, match="do not belong together"):
        load_export(place)


@pytest.mark.parametrize("name", ["config.json", "io.safetensors", "ridgeformer.json"])
def test_a_save_that_was_cut_off_is_refused(saved, tmp_path, name):
    """A save over an older export, killed while it writes one of its files."""
    place = shutil.copytree(saved("albert", "vanilla", 10), tmp_path / "albert")
    newer = saved("albert", "vanilla", 50)
    for file in ("config.json", "model.safetensors", "io.safetensors", "ridgeformer.json"):
        content = (newer / file).read_bytes()
        if file == name:
            (place / file).write_bytes(content[: len(content) // 2])
            break
        (place / file).write_bytes(content)
    with pytest.raises(errors.DataFileError):
        load_export(place)


def test_a_directory_opened_with_another_version_is_named_with_the_difference(saved, monkeypatch):
    directory = saved("albert", "vanilla", 10)
    monkeypatch.setitem(hf.TESTED, "transformers", "0.0.1")
    with pytest.warns(UserWarning, match=r"on a probe of 8 tokens the predictions differ by \d\.\de[+-]\d+ from"):
        load_export(directory)
