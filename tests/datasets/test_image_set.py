from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, UnknownNameError
from ridgeformer.datasets.fetching import fetch_set, silent
from ridgeformer.datasets.image_set import check_arrays, read_folder, read_tar, verify


@pytest.fixture
def fetched(tiny, tmp_path):
    fetch_set(tiny.spec, source=tiny.tgz(tmp_path / "tiny.tgz"))
    return tiny


def test_a_part_is_loaded_in_the_unit_interval(fetched) -> None:
    data = fetched.spec.load("test")
    assert (data.n, data.d, data.image_shape) == (6, 12, (4, 3))
    assert np.array_equal(data.X, fetched.arrays.x_test.reshape(6, 12) / 255)
    assert np.array_equal(data.y, fetched.arrays.y_test)
    assert data.features[:2] == ("pixel_0_0", "pixel_0_1")
    assert "test part, pixels / 255" in data.source


def test_limit_gives_the_rows_that_sample_gives(fetched) -> None:
    few = fetched.spec.load("train", limit=6)
    assert np.array_equal(few.X, fetched.spec.load("train").sample(6, seed=0).X)
    assert np.bincount(few.y).tolist() == [2, 2, 2]
    assert fetched.spec.load("train", limit=99).n == 12


def test_an_unknown_part_is_refused(fetched) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'train'"):
        fetched.spec.load("trian")


def test_the_record_knows_whether_it_was_fetched(fetched, tmp_path) -> None:
    assert fetched.spec.info().fetched
    assert not fetched.spec.info(tmp_path / "elsewhere").fetched
    assert fetched.spec.info().origin.startswith("npm (tiny-data@1.0.0), ")


def test_other_bytes_and_other_orders_are_refused(tiny) -> None:
    check_arrays(tiny.spec, tiny.arrays, "here")
    swapped = tiny.arrays._replace(x_train=tiny.arrays.x_train[::-1])
    with pytest.raises(DataFileError, match=r"from here have sha256 .* official order .*another source"):
        check_arrays(tiny.spec, swapped, "here")


def test_other_shapes_are_refused(tiny) -> None:
    with pytest.raises(
        DataFileError, match=r"y_test from here has shape \(5,\).*\(6,\) and uint8: use a complete copy"
    ):
        check_arrays(tiny.spec, tiny.arrays._replace(y_test=tiny.arrays.y_test[:5]), "here")


def test_the_digest_depends_on_the_labels(tiny) -> None:
    with pytest.raises(DataFileError, match=r"sha256"):
        check_arrays(replace(tiny.spec), tiny.arrays._replace(y_train=tiny.arrays.y_train[::-1]), "here")


IMAGES = "train-images-idx3-ubyte"


def read(spec, path: Path, progress=silent) -> dict[str, bytes]:
    with path.open("rb") as stream:
        return read_tar(spec, stream, "the archive", progress)


def test_a_tar_gives_its_files_and_reports_bytes(tiny, tmp_path) -> None:
    calls: list[tuple[int, int | None, str]] = []
    found = read(tiny.spec, tiny.tgz(tmp_path / "t.tgz"), lambda *call: calls.append(call))
    assert found == tiny.raw
    assert calls[-1][0] == calls[-1][1] == sum(map(len, tiny.raw.values()))
    assert any(IMAGES in what for _, _, what in calls)


def test_a_folder_gives_its_files_plain_or_gzipped(tiny, write_folder) -> None:
    files = {(f"{name}.gz" if "labels" in name else name): data for name, data in tiny.raw.items()}
    assert read_folder(tiny.spec, write_folder(files), silent) == tiny.raw


def test_a_folder_may_be_the_unpacked_package(tiny, write_folder) -> None:
    files = {f"package/data/{name}": data for name, data in tiny.raw.items()}
    assert read_folder(tiny.spec, write_folder(files), silent) == tiny.raw


def tar_of(path: Path, members: dict[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            member = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data) if isinstance(data, bytes) else None)
    return path


def test_a_leading_dot_is_the_same_name(tiny, tmp_path) -> None:
    path = tar_of(
        tmp_path / "t.tar", {f"./usr/share/datasets/tiny/{n}.gz": gzip.compress(d) for n, d in tiny.raw.items()}
    )
    assert read(tiny.spec, path) == tiny.raw


def test_names_that_climb_out_are_passed_over(tiny, tmp_path) -> None:
    evil = {
        f"../{IMAGES}": b"evil",
        f"/{IMAGES}": b"evil",
        f"package/data/../data/{IMAGES}": b"evil",
        "../../x": b"evil",
    }
    path = tar_of(tmp_path / "inside.tar", evil | {f"package/data/{name}": data for name, data in tiny.raw.items()})
    before = sorted(tmp_path.parent.rglob("*"))
    assert read(tiny.spec, path) == tiny.raw
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_a_link_under_an_expected_name_is_passed_over(tiny, tmp_path) -> None:
    link = tarfile.TarInfo(IMAGES)
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = tar_of(tmp_path / "t.tar", {IMAGES: link} | {n: d for n, d in tiny.raw.items() if n != IMAGES})
    with pytest.raises(DataFileError, match=f"does not hold {IMAGES} "):
        read(tiny.spec, path)


def test_reading_stops_in_an_archive_that_never_ends(tiny, tmp_path) -> None:
    path = tar_of(tmp_path / "t.tar", {f"junk{i}": bytes(1 << 20) for i in range(3)} | tiny.raw)
    with pytest.raises(DataFileError, match=r"does not hold"):
        read(tiny.spec, path)


def test_a_missing_file_is_named_with_the_places_looked_in(tiny, write_folder) -> None:
    folder = write_folder({name: data for name, data in tiny.raw.items() if name != IMAGES})
    with pytest.raises(DataFileError, match=f"does not hold {IMAGES} .*at its top, in package/data.*copy of tiny"):
        read_folder(tiny.spec, folder, silent)


def test_a_wrong_size_is_refused_before_reading(tiny, tmp_path, write_folder) -> None:
    long = tiny.raw[IMAGES] + b"x"
    words = f"{IMAGES} from .* has 161 bytes; 160 were expected"
    with pytest.raises(DataFileError, match=words):
        read(tiny.spec, tiny.tgz(tmp_path / "t.tgz", **{IMAGES: long}))
    with pytest.raises(DataFileError, match=words):
        read_folder(tiny.spec, write_folder({IMAGES: long}), silent)
    with pytest.raises(DataFileError, match=r"at most 160"):
        read(tiny.spec, tar_of(tmp_path / "u.tar", {f"{IMAGES}.gz": bytes(5000)}))


def test_a_gzip_that_unpacks_to_too_much_is_refused(tiny) -> None:
    file = tiny.spec.files[0]
    with pytest.raises(DataFileError, match=r"161 bytes"):
        verify(file, gzip.compress(bytes(10**7)), True, "here")


def test_a_damaged_gzip_is_refused(tiny) -> None:
    packed = gzip.compress(tiny.raw[IMAGES])
    for data in (packed[:-9], b"nothing of the kind"):
        with pytest.raises(DataFileError, match=f"{IMAGES}.gz from here cannot be unzipped"):
            verify(tiny.spec.files[0], data, True, "here")


def test_a_wrong_checksum_is_refused(tiny) -> None:
    changed = tiny.raw[IMAGES][:-1] + bytes([tiny.raw[IMAGES][-1] ^ 1])
    with pytest.raises(DataFileError, match=f"{IMAGES} from here has sha256 .* was expected.*not used"):
        verify(tiny.spec.files[0], changed, False, "here")


def test_a_wrong_md5_is_refused_too(tiny) -> None:
    from dataclasses import replace

    with pytest.raises(DataFileError, match=r"has md5 "):
        verify(replace(tiny.spec.files[0], md5="0" * 32), tiny.raw[IMAGES], False, "here")


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_truncated_archive_is_refused(tiny, tmp_path, keep: int) -> None:
    path = tiny.tgz(tmp_path / "t.tgz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataFileError, match=r"the archive is not a complete tar archive"):
        read(tiny.spec, path)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.REGTYPE])
def test_a_tar_that_unpacks_to_gigabytes_is_not_unpacked(tiny, tmp_path, kind: bytes) -> None:
    """A long name is read into memory whole; a file of another name would be skipped byte by byte."""
    member = tarfile.TarInfo("elsewhere")
    member.type, member.size = kind, 8 * 2**30
    with gzip.open(tmp_path / "t.tgz", "wb") as file:
        file.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            file.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(DataFileError, match=r"a header of 8,589,934,592 bytes|does not hold"):
        read(tiny.spec, tmp_path / "t.tgz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23
