from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets import idx

GOOD = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def test_the_four_files_become_the_arrays(tiny) -> None:
    decoded = idx.decode(tiny.spec, tiny.raw)
    assert all(np.array_equal(a, b) for a, b in zip(decoded, tiny.arrays, strict=True))


def test_rows_come_first() -> None:
    assert idx.parse(GOOD, (2, 3), "f").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD[:7], "7 bytes, fewer than an idx header of 12"),
        (b"\x00\x00\x0d" + GOOD[3:], "starts with 00000d02; .* 00000802"),
        (b"\x00\x00\x08\x03" + GOOD[4:], "starts with 00000803"),
        (GOOD[:11] + b"\x04" + GOOD[12:], r"shape \(2, 4\); \(2, 3\) was expected"),
        (GOOD[:-1], "17 bytes; its header asks for 18"),
        (GOOD + b"\x00", "19 bytes; its header asks for 18"),
        (b"", "0 bytes"),
    ],
)
def test_a_wrong_header_or_length_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DataFileError, match=f"^images .*{words}"):
        idx.parse(data, (2, 3), "images")
