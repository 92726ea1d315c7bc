from __future__ import annotations

import gzip
import io
import tarfile

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets import from_debian
from ridgeformer.datasets.fetching import silent

PACKAGE = "dataset-tiny"


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
    stub("apt-get", f'[ "$1 $2" = "download {PACKAGE}" ] && echo deb > {PACKAGE}_1.0_all.deb')
    stub("dpkg-deb", f'[ "$1" = "--fsys-tarfile" ] && /bin/cat {stream}')
    got = from_debian.read(tiny.spec, PACKAGE, tmp_path, silent)
    assert all(np.array_equal(a, b) for a, b in zip(got, tiny.arrays, strict=True))


def test_installed_files_come_first(tiny, tmp_path) -> None:
    folder = tmp_path / "root" / "usr/share/datasets/tiny"
    folder.mkdir(parents=True)
    for name, data in tiny.raw.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(data))
    got = from_debian.read(tiny.spec, PACKAGE, tmp_path, silent)
    assert np.array_equal(got.x_train, tiny.arrays.x_train)


def test_elsewhere_it_says_so(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"apt-get was not found.*needs Debian or Ubuntu"):
        from_debian.read(tiny.spec, PACKAGE, tmp_path, silent)
    with pytest.raises(FetchError, match=r"dpkg-deb was not found.*needs Debian or Ubuntu"):
        from_debian.read_deb(tiny.spec, tmp_path / "x.deb", silent)


def test_a_failing_apt_is_quoted_with_advice(tiny, stub, tmp_path) -> None:
    stub("apt-get", "echo E: Unable to locate package >&2; exit 100")
    with pytest.raises(FetchError, match=r"code 100 .*Unable to locate package.*apt-get update"):
        from_debian.read(tiny.spec, PACKAGE, tmp_path, silent)


def test_an_apt_that_leaves_nothing_is_an_error(tiny, stub, tmp_path) -> None:
    stub("apt-get", "exit 0")
    with pytest.raises(FetchError, match=r"left no file"):
        from_debian.read(tiny.spec, PACKAGE, tmp_path, silent)


def test_a_file_that_is_no_package_is_refused(tiny, stub, tmp_path) -> None:
    stub("dpkg-deb", "echo dpkg-deb: error >&2; exit 2")
    (tmp_path / "x.deb").write_bytes(b"no package")
    with pytest.raises(DataFileError, match=r"x.deb is not a complete"):
        from_debian.read_deb(tiny.spec, tmp_path / "x.deb", silent)
