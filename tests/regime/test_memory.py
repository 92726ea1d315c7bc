import pytest

from ridgeformer.errors import InputError
from ridgeformer.regime import memory


def test_refuses_what_does_not_fit_with_both_sizes(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 2 * 10**9)
    memory.require_memory(10**9, "a network", "use a smaller width")
    with pytest.raises(InputError, match=r"a network needs about 3.0 GB of memory and 2.0 GB are free: use a smaller"):
        memory.require_memory(3 * 10**9, "a network", "use a smaller width")


def test_allows_everything_where_the_machine_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "MEMORY", tmp_path / "nothing")
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.available_bytes() is None
    memory.require_memory(10**20, "a network", "-")


def test_counts_what_the_kernel_would_give_back(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "MEMORY", tmp_path / "meminfo")
    memory.MEMORY.write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    2000 kB\n")
    assert memory.available_bytes() == 2000 * 1024
    memory.MEMORY.write_text("MemTotal: 9000 kB\n")
    assert memory.available_bytes() > 10**7


def test_reads_a_believable_size():
    assert 10**7 < memory.available_bytes() < 10**14
