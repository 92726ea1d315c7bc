from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.decoding import decode_idx, decode_strips, parse_idx, parse_labels, parse_strip

GOOD = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def test_the_four_files_become_the_arrays(tiny) -> None:
    decoded = decode_idx(tiny.spec, tiny.raw)
    assert all(np.array_equal(a, b) for a, b in zip(decoded, tiny.arrays, strict=True))


def test_rows_come_first() -> None:
    assert parse_idx(GOOD, (2, 3), "f").tolist() == [[0, 1, 2], [3, 4, 5]]


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
        parse_idx(data, (2, 3), "images")


def png(mode: str, size: tuple[int, int], form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, format=form)
    return file.getvalue()


def test_strips_and_labels_become_the_arrays(colour) -> None:
    decoded = decode_strips(colour.spec, colour.raw)
    assert all(np.array_equal(a, b) for a, b in zip(decoded, colour.arrays, strict=True))


def test_a_line_of_pixels_is_an_image_row_by_row() -> None:
    line = np.arange(12, dtype=np.uint8).reshape(1, 4, 3)
    file = io.BytesIO()
    Image.fromarray(line).save(file, format="PNG")
    image = parse_strip(file.getvalue(), (1, 2, 2, 3), "strip")
    assert image[0, 1, 0].tolist() == [6, 7, 8]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png("L", (8, 6)), "L image of 8 x 6 pixels; RGB of 8 x 6"),
        (png("RGBA", (8, 6)), "RGBA image"),
        (png("RGB", (6, 8)), "6 x 8 pixels; RGB of 8 x 6"),
        (png("RGB", (8, 6))[:-30], "not a complete PNG"),
        (png("RGB", (8, 6), "BMP"), "not a complete PNG"),
        (b"", "not a complete PNG"),
    ],
)
def test_anything_but_the_expected_strip_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DataFileError, match=f"^strip.png is .*{words}"):
        parse_strip(data, (6, 4, 2, 3), "strip.png")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[0, 1", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"0": 1}', "holds dict"),
        (b"[0, 1]", "list of 2; a list of 3"),
        (b"[0, 1, 3]", "holds 3; class codes 0 to 2"),
        (b"[0, 1, -1]", "holds -1"),
        (b"[0, 1, 1.0]", "holds 1.0"),
        (b"[0, 1, true]", "holds True"),
        (b"[0, 1, null]", "holds None"),
        (b"[0, 1, NaN]", "holds nan"),
        (b'[0, 1, "2"]', "holds '2'"),
    ],
)
def test_labels_are_parsed_strictly(data: bytes, words: str) -> None:
    with pytest.raises(DataFileError, match=f"labels.json .*{words}.*download it again"):
        parse_labels(data, 3, 3, "labels.json")
