import pytest

from ridgeformer.core import memory
from ridgeformer.core.errors import InputError


def test_available_memory_is_read_as_linux_counts_it(tmp_path, monkeypatch):
    faked = tmp_path / "meminfo"
    faked.write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   400 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", faked)
    assert memory.free_bytes() == 400 * 1024


def test_elsewhere_the_free_pages_count(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory.os, "sysconf", {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert memory.free_bytes() == 7 * 4096


def test_where_nothing_is_known_a_small_machine_is_assumed(tmp_path, monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.free_bytes() == 2 * 2**30


def test_reads_a_believable_size():
    assert 10**7 < memory.free_bytes() < 10**14


def test_refuses_what_does_not_fit_with_both_sizes(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 2 * 10**9)
    memory.require_memory(10**9, "a network", "use a smaller width")
    with pytest.raises(InputError, match=r"a network needs about 3.0 GB of memory and 2.0 GB are free: use a smaller"):
        memory.require_memory(3 * 10**9, "a network", "use a smaller width")
