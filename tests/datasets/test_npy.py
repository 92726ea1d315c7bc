"""Arrays whose files lie about themselves: refused in one sentence, before memory is taken for them."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.npy import load_npy, load_npz

X = np.arange(8.0).reshape(4, 2)


def npy_bytes(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def both(keys: list[str]) -> list[str]:
    return keys


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "u1", "?", "<U3", "<i8"])
def test_what_numpy_saves_is_read_bit_for_bit(tmp_path: Path, order: str, dtype: str) -> None:
    array = np.asarray(X.astype(dtype), order=order)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", X=array, y=array[0])
    assert load_npy(tmp_path / "a.npy").tobytes() == array.tobytes()
    found = load_npz(tmp_path / "a.npz", both)
    assert (found["X"].tobytes(), found["y"].tolist()) == (array.tobytes(), array[0].tolist())


@pytest.mark.parametrize(
    "content",
    [
        header("(100000000000, 3)") + b"12345678",
        header("(3, 0)", "<U0"),
        header("(1000000000, 3)", "<U0"),
        header("(-1, -8)") + bytes(64),
        header("(4, 2)") + bytes(65),
        header("(4, 2)") + bytes(63),
        header("(10**9,)"),
        header("(" * 500),
        header("(4, 2)", "V10000000000"),
        header("[4, 2]") + bytes(64),
        b"\x93NUMPY\x09\x00" + bytes(100),
        b"\x93NUMPY\x01\x00\xff\xff",
    ],
)
def test_a_header_that_lies_is_refused_without_memory(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DataFileError):
        load_npy(tmp_path / "a.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def patched(path: Path, local: int, central: int, value: int) -> Path:
    """Set two bytes in every local and central header of a zip file."""
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        place = data.find(signature)
        while place >= 0:
            data[place + offset : place + offset + 2] = struct.pack("<H", value)
            place = data.find(signature, place + 4)
    path.write_bytes(data)
    return path


def test_an_encrypted_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=X[:, 0])
    with pytest.raises(DataFileError, match=r"X.npy of .*a.npz is encrypted: save it without a password"):
        load_npz(patched(tmp_path / "a.npz", 6, 8, 1), both)


@pytest.mark.parametrize("method", [9, 12, 14, 93, 99])
def test_an_npz_compressed_by_other_means(tmp_path: Path, method: int) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=X[:, 0])
    with pytest.raises(DataFileError, match=rf"compressed with zip method {method}, which numpy does not write"):
        load_npz(patched(tmp_path / "a.npz", 8, 10, method), both)


def test_a_decompression_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as file:
        file.write(header("(25600000, 1)"))
        for _ in range(200):
            file.write(bytes(2**20))
    assert (tmp_path / "a.npz").stat().st_size < 2**18
    tracemalloc.start()
    with pytest.raises(DataFileError, match="would take 200 MiB in memory, more than 100 times its file"):
        load_npz(tmp_path / "a.npz", both)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_every_bit_of_a_member_is_checked(tmp_path: Path) -> None:
    """The last numbers too: numpy stops reading before the checksum is compared."""
    np.savez(tmp_path / "a.npz", X=X, y=X[:, 0])
    content = (tmp_path / "a.npz").read_bytes()
    place = content.index(X.tobytes()) + X.nbytes - 1
    (tmp_path / "a.npz").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(DataFileError, match="Bad CRC-32"):
        load_npz(tmp_path / "a.npz", both)
