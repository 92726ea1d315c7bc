from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets import from_openml
from ridgeformer.datasets.fetching import silent


def answer(monkeypatch: pytest.MonkeyPatch, data: Any, target: Any) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []

    def fetch(name: str, **options: Any) -> SimpleNamespace:
        asked.append({"name": name, **options})
        return SimpleNamespace(data=data, target=target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return asked


def flat(images: np.ndarray) -> np.ndarray:
    planes = images if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    return planes.reshape(len(images), -1).astype(np.float64)


def labels(codes: np.ndarray) -> np.ndarray:
    return np.array([str(code) for code in codes], dtype=object)


@pytest.mark.parametrize("kind", ["tiny", "colour"])
@pytest.mark.parametrize(("pandas", "parser"), [(True, "pandas"), (False, "liac-arff")])
def test_rows_become_the_arrays(kind, pandas, parser, request, monkeypatch, tmp_path) -> None:
    small = request.getfixturevalue(kind)
    data = small.arrays
    asked = answer(
        monkeypatch,
        np.concatenate([flat(data.x_train), flat(data.x_test)]),
        labels(np.concatenate([data.y_train, data.y_test])),
    )
    monkeypatch.setattr(from_openml, "find_spec", lambda name: object() if pandas else None)
    got = from_openml.read(small.spec, "tiny_12", tmp_path, silent)
    assert all(np.array_equal(a, b) for a, b in zip(got, data, strict=True))
    assert asked == [{"name": "tiny_12", "version": 1, "as_frame": False, "parser": parser, "data_home": str(tmp_path)}]


def test_no_connection_is_a_fetch_error(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"OpenML did not give tiny_12 \(OSError: no network in tests\).*connection"):
        from_openml.read(tiny.spec, "tiny_12", tmp_path, silent)


@pytest.mark.parametrize(
    ("data", "target", "words"),
    [
        (np.zeros((17, 12)), np.zeros(18), r"pixels of OpenML tiny_12 have shape \(17, 12\); \(18, 12\)"),
        (np.full((18, 12), 0.5), np.zeros(18), "pixels .* not whole numbers"),
        (np.full((18, 12), 256.0), np.zeros(18), "pixels .* 0 to 255"),
        (np.full((18, 12), np.nan), np.zeros(18), "pixels .* not whole numbers"),
        (np.zeros((18, 12)), labels(np.zeros(18)) + "x", "labels .* not numbers"),
    ],
)
def test_other_content_is_refused(data, target, words, tiny, monkeypatch, tmp_path) -> None:
    answer(monkeypatch, data, target)
    with pytest.raises(DataFileError, match=words):
        from_openml.read(tiny.spec, "tiny_12", tmp_path, silent)
