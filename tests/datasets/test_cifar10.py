from __future__ import annotations

import math
import re

import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.published import CIFAR10 as SPEC
from ridgeformer.datasets.fetching import SOURCES


def test_strips_share_the_rows_equally() -> None:
    strips = [file for file in SPEC.files if file.name.startswith("data_batch_")]
    assert SPEC.counts[0] % len(strips) == 0
    # a label is one digit and a comma; brackets make up for the comma the last one lacks
    assert [file.size for file in SPEC.files[-2:]] == [2 * n + 1 for n in SPEC.counts]
    assert math.prod(SPEC.shape) == 3072


def test_every_file_and_the_arrays_have_a_sha256() -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in (SPEC.digest, *(file.sha256 for file in SPEC.files)))
    assert len({file.sha256 for file in SPEC.files}) == len(SPEC.files)


def test_the_record() -> None:
    info = SPEC.info()
    assert (info.name, info.n, len(info.classes), info.fetched) == ("cifar10", SPEC.counts, 10, False)
    assert set(SPEC.sources) <= set(SOURCES)
    assert info.licence
    assert info.citation


def test_not_fetched_says_the_command() -> None:
    with pytest.raises(DataFileError, match=r"cifar10 has not been fetched.*`ridgeformer data fetch cifar10`"):
        SPEC.load("train")
