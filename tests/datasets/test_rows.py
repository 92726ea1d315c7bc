from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeformer.datasets.rows import shares, stratified_rows


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    part=st.floats(0, 1),
    seed=st.integers(0, 9),
)
def test_every_class_gets_its_share_rounded_down_or_up(counts: list[int], part: float, seed: int) -> None:
    total = sum(counts)
    n = int(part * total)
    got = shares(np.array(counts), n, np.random.default_rng(seed))
    exact = np.array(counts) * n / total
    assert got.sum() == n
    assert (np.abs(got - exact) < 1).all()
    assert (got <= counts).all()


def test_rows_are_distinct_ascending_and_in_proportion() -> None:
    codes = np.array([0] * 60 + [1] * 30 + [2] * 10)
    rows = stratified_rows(codes, 100, 20, np.random.default_rng(0))
    assert (np.diff(rows) > 0).all()
    assert np.bincount(codes[rows]).tolist() == [12, 6, 2]


def test_a_code_that_no_row_has_is_no_trouble() -> None:
    rows = stratified_rows(np.array([0, 3, 3, 0]), 4, 2, np.random.default_rng(0))
    assert len(rows) == 2


def test_equal_remainders_are_drawn_by_lot() -> None:
    counts = np.full(10, 100)
    first = [int(shares(counts, 1, np.random.default_rng(seed)).argmax()) for seed in range(30)]
    assert len(set(first)) > 3


def test_without_classes_any_rows() -> None:
    rows = stratified_rows(None, 10, 10, np.random.default_rng(0))
    assert rows.tolist() == list(range(10))
