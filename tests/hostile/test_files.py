"""The adversary of files: a fixed slice of it holds, and without any one of the checks it does not."""

import zipfile
from contextlib import nullcontext

import pytest

from hostile import files, mutations
from hostile.tally import Tally
from ridgeformer.compiler import saving
from ridgeformer.compiler.specification import Specification
from ridgeformer.datasets import dataset, npy, tables
from ridgeformer.studies.store import StoredResult

LOOK_FOR = 1000
"""Cases among which those that a check is for are found."""


def attacked(indices, seed=0):
    tally = Tally()
    for index in indices:
        files.attack(tally, index, seed)
    return tally


def test_a_slice_of_the_attack_breaks_no_promise():
    tally = attacked(range(120))
    assert tally.broken == []
    assert len(tally.tried) == 8, "every promise was tried"


def test_a_case_depends_on_its_number_and_seed_alone():
    first, again, other = (
        mutations.damage(files.specimens()[0], files.numpy_generator(seed, "hostile.files", 3)) for seed in (0, 0, 1)
    )
    assert (first.what, first.files) == (again.what, again.files)
    assert (first.what, first.files) != (other.what, other.files)


class Same(str):
    """A checksum that every other one agrees with."""

    __hash__ = str.__hash__

    def __ne__(self, other):
        return False


@pytest.mark.parametrize(
    ("kind", "damaged", "where", "name", "instead", "promise"),
    [
        ("softmax model", "bits flipped", saving, "_checksum", lambda *given: Same(), files.DAMAGED),
        ("npz stored", "bits flipped", zipfile.ZipExtFile, "_update_crc", lambda *given: None, files.DAMAGED),
        ("study store", "UPDATE", StoredResult, "intact", True, files.DAMAGED),
        ("softmax model", "deep JSON", saving, "explained", lambda *given: nullcontext(), "no foreign exception"),
        ("npy matrix", "overwritten", dataset, "_check_rows", lambda *given, **named: None, "no foreign exception"),
        ("npz stored", "zip bomb", npy, "check_unpacked", lambda *given: None, files.MEMORY),
        ("parquet of numbers", "parquet bomb", tables, "check_unpacked", lambda *given: None, files.MEMORY),
        ("csv of numbers", "wide table", tables, "MOST_COLUMNS", 10**6, files.MEMORY),
        ("softmax model", "with {'width': 100", Specification, "least_numbers", 0, files.MEMORY),
    ],
)
def test_without_a_check_the_attack_succeeds(monkeypatch, kind, damaged, where, name, instead, promise):
    chosen = tuple(one for one in files.specimens() if one.name == kind)
    monkeypatch.setattr(files, "specimens", lambda: chosen)
    cases = (index for index in range(LOOK_FOR) if damaged in files.choose(index, 0)[1].what)
    monkeypatch.setattr(where, name, instead)
    assert any(promise in {one.promise for one in attacked([index]).broken} for index in cases)
