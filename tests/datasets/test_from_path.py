from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets import from_path
from ridgeformer.datasets.fetching import silent


def same(got, wanted) -> bool:
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(got, wanted, strict=True))


def test_a_folder_and_an_archive(tiny, write_folder, tmp_path) -> None:
    assert same(from_path.read(tiny.spec, write_folder(tiny.raw), silent), tiny.arrays)
    assert same(from_path.read(tiny.spec, tiny.tgz(tmp_path / "a.tar.gz"), silent), tiny.arrays)


def test_a_debian_package(tiny, stub, tmp_path) -> None:
    stream = tiny.tgz(tmp_path / "stream.tgz")
    (tmp_path / "a.deb").write_bytes(b"")
    stub("dpkg-deb", f"/bin/cat {stream}")
    assert same(from_path.read(tiny.spec, tmp_path / "a.deb", silent), tiny.arrays)


def test_an_npz(colour, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", **colour.arrays._asdict())
    assert same(from_path.read(colour.spec, tmp_path / "a.npz", silent), colour.arrays)


def test_an_npz_with_flat_images_and_wide_labels(tiny, tmp_path) -> None:
    data = tiny.arrays._asdict()
    data["x_train"] = data["x_train"].reshape(12, -1)
    data["y_train"] = data["y_train"].astype(np.int64)[:, None]
    np.savez_compressed(tmp_path / "a.npz", **data)
    assert same(from_path.read(tiny.spec, tmp_path / "a.npz", silent), tiny.arrays)


def test_an_npz_without_a_key_names_it(tiny, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.zeros(1), foo=np.zeros(1))
    with pytest.raises(DataFileError, match=r"no y_train, x_test, y_test; its keys are x_train, foo"):
        from_path.read(tiny.spec, tmp_path / "a.npz", silent)


def test_pickled_arrays_are_not_loaded(tiny, tmp_path) -> None:
    np.savez(tmp_path / "a.npz", **tiny.arrays._replace(y_test=np.array([{}], dtype=object))._asdict())
    with pytest.raises(DataFileError, match=r"runs code it contains"):
        from_path.read(tiny.spec, tmp_path / "a.npz", silent)


def test_a_truncated_npz_is_refused_and_kept(tiny, tmp_path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataFileError, match=r"is truncated or damaged"):
        from_path.read(tiny.spec, path, silent)
    assert path.exists()


def test_other_paths_are_refused(tiny, tmp_path) -> None:
    with pytest.raises(DataFileError, match=r"none.tgz does not exist"):
        from_path.read(tiny.spec, tmp_path / "none.tgz", silent)
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(DataFileError, match=r"no kind known here: give a folder, a .tgz"):
        from_path.read(tiny.spec, tmp_path / "a.pkl", silent)
