import pytest

from ridgeformer.core import memory
from ridgeformer.core.errors import InputError


def test_available_memory_is_read_as_linux_counts_it(tmp_path, monkeypatch):
    faked = tmp_path / "meminfo"
    faked.write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   400 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", faked)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "none")
    assert memory.free_bytes() == 400 * 1024


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Fake control groups: a function that writes the line of this process and the files of a group."""
    faked = tmp_path / "meminfo"
    faked.write_text("MemAvailable:   4000 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", faked)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "MOUNTED", tmp_path / "mounted")

    def write(line, group, files):
        (tmp_path / "cgroup").write_text("3:cpu:/elsewhere\n" + line + "\n")
        (tmp_path / "mounted" / group).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (tmp_path / "mounted" / group / name).write_text(text)

    return write


SECOND = {
    "memory.max": "900000\n",
    "memory.current": "500000\n",
    "memory.stat": "anon 1\ninactive_file 30\nactive_file 4\n",
}
FIRST = {
    "memory.limit_in_bytes": "900000\n",
    "memory.usage_in_bytes": "500000\n",
    "memory.stat": "inactive_file 7\ntotal_inactive_file 30\ntotal_active_file 4\n",
}


@pytest.mark.parametrize(
    ("line", "group", "files"),
    [
        ("0::/a/b", "a/b", SECOND),
        ("0::/a/b", "a", SECOND),
        ("0::/", ".", SECOND),
        ("0::/hidden", ".", SECOND),
        ("9:hugetlb,memory:/a/b", "memory/a", FIRST),
        ("4:memory:/docker/x", "memory", FIRST),
    ],
    ids=["version 2", "around", "container", "namespace", "version 1 around", "version 1 container"],
)
def test_the_limit_of_a_container_is_heeded(groups, line, group, files):
    groups(line, group, files)
    assert memory.free_bytes() == 400_000 + 34


def test_groups_without_a_limit_change_nothing(groups):
    groups("0::/a", "a", SECOND | {"memory.max": "max\n"})
    assert memory.free_bytes() == 4000 * 1024
    groups("4:memory:/a", "memory/a", FIRST | {"memory.limit_in_bytes": "9223372036854771712\n"})
    assert memory.free_bytes() == 4000 * 1024
    groups("0::/a", "a", {"memory.max": "not a number\n"})
    assert memory.free_bytes() == 4000 * 1024


def test_a_group_that_uses_more_than_its_limit_has_nothing_left(groups):
    groups("0::/a", "a", SECOND | {"memory.current": "990000\n"})
    assert memory.free_bytes() == 0


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
