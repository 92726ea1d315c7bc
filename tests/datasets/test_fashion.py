from __future__ import annotations

import math
import re

import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.published import FASHION as SPEC
from ridgeformer.datasets.fetching import SOURCES


def test_sizes_are_those_of_the_headers_and_the_pixels() -> None:
    images, labels = 16 + SPEC.counts[0] * math.prod(SPEC.shape), 8 + SPEC.counts[0]
    assert [file.size for file in SPEC.files[:2]] == [images, labels]


def test_every_file_and_the_arrays_have_a_sha256() -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in (SPEC.digest, *(file.sha256 for file in SPEC.files)))
    assert len({file.sha256 for file in SPEC.files}) == len(SPEC.files)


def test_the_record() -> None:
    info = SPEC.info()
    assert (info.name, info.n, len(info.classes), info.fetched) == ("fashion", SPEC.counts, 10, False)
    assert set(SPEC.sources) <= set(SOURCES)
    assert info.licence
    assert info.citation


def test_not_fetched_says_the_command() -> None:
    with pytest.raises(DataFileError, match=r"fashion has not been fetched.*`ridgeformer data fetch fashion`"):
        SPEC.load("train")
