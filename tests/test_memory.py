from ridgeformer import memory


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
