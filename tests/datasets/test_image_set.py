from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, UnknownNameError
from ridgeformer.datasets.fetching import fetch_set
from ridgeformer.datasets.image_set import check_arrays


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
