"""Remembered results: computed once, also when several threads ask at once, and never a failure."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ridgeformer.views.explorer.cache import remember


def test_the_least_used_result_is_forgotten():
    calls = []

    @remember(most=2)
    def double(n):
        calls.append(n)
        return 2 * n

    assert [double(n) for n in (1, 2, 1, 3, 1, 2)] == [2, 4, 2, 6, 2, 4]
    assert calls == [1, 2, 3, 2]


def test_several_threads_share_one_computation():
    calls, start = [], Barrier(4)

    @remember(most=2)
    def slow(n):
        calls.append(n)
        return n

    def ask(_):
        start.wait()
        return slow(7)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [7] * 4
    assert calls == [7]


def test_an_error_is_raised_each_time_and_not_kept():
    calls = []

    @remember(most=2)
    def refuse(n):
        calls.append(n)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            refuse(1)
    assert calls == [1, 1]
