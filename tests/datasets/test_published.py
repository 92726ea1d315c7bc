from __future__ import annotations

import math
import re

import pytest

from ridgeformer.core.errors import DataFileError
from ridgeformer.datasets.fetching import SOURCES
from ridgeformer.datasets.image_set import ImageSet
from ridgeformer.datasets.published import CIFAR10, FASHION, MNIST

every = pytest.mark.parametrize("spec", [MNIST, FASHION, CIFAR10], ids=lambda spec: spec.name)


@pytest.mark.parametrize("spec", [MNIST, FASHION], ids=lambda spec: spec.name)
def test_sizes_are_those_of_the_headers_and_the_pixels(spec: ImageSet) -> None:
    images, labels = 16 + spec.counts[0] * math.prod(spec.shape), 8 + spec.counts[0]
    assert [file.size for file in spec.files[:2]] == [images, labels]


def test_strips_share_the_rows_equally() -> None:
    strips = [file for file in CIFAR10.files if file.name.startswith("data_batch_")]
    assert CIFAR10.counts[0] % len(strips) == 0
    # a label is one digit and a comma; brackets make up for the comma the last one lacks
    assert [file.size for file in CIFAR10.files[-2:]] == [2 * n + 1 for n in CIFAR10.counts]
    assert math.prod(CIFAR10.shape) == 3072


def test_both_checksums_are_recorded() -> None:
    assert all(re.fullmatch("[0-9a-f]{32}", file.md5) for file in MNIST.files)


@every
def test_every_file_and_the_arrays_have_a_sha256(spec: ImageSet) -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in (spec.digest, *(file.sha256 for file in spec.files)))
    assert len({file.sha256 for file in spec.files}) == len(spec.files)


@every
def test_the_record(spec: ImageSet) -> None:
    info = spec.info()
    assert (info.name, info.n, len(info.classes), info.fetched) == (spec.name, spec.counts, 10, False)
    assert set(spec.sources) <= set(SOURCES)
    assert info.licence
    assert info.citation


@every
def test_not_fetched_says_the_command(spec: ImageSet) -> None:
    message = rf"{spec.name} has not been fetched.*`ridgeformer data fetch {spec.name}`"
    with pytest.raises(DataFileError, match=message):
        spec.load("train")
