"""Files of any kind: regular ones are read, everything else is one sentence at once."""

import os
import threading

import pytest

from ridgeformer import datasets
from ridgeformer.core.errors import DataFileError, InputError
from ridgeformer.core.reading import check_unpacked, explained, open_regular, read_regular


@pytest.mark.parametrize("ending", ["npz", "npy", "csv", "parquet"])
@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/full", "pipe", "directory", "loop", "nowhere"])
def test_what_is_no_regular_file_is_refused_at_once(kind, ending, tmp_path):
    path = tmp_path / f"data.{ending}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to({"loop": path, "nowhere": tmp_path / "none"}.get(kind, kind))
    with pytest.raises(DataFileError, match=r"device|directory|cannot be opened|does not exist"):
        datasets.load(path)


@pytest.mark.parametrize("name", ["a\0b.csv", "a" * 5000 + ".csv"])
def test_a_name_no_file_can_have(name, tmp_path):
    with pytest.raises(DataFileError, match=r"cannot be opened"):
        datasets.load(tmp_path / name)


def test_no_descriptor_is_left_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(DataFileError), open_regular(tmp_path):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_limit_is_asked_before_reading(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(DataFileError, match=r"has 1024.0 GiB; at most 1 MiB"):
        read_regular(tmp_path / "sparse", 2**20)


@pytest.mark.parametrize("error", [RuntimeError("a\nb"), KeyError("k"), RecursionError(), UnicodeError("u")])
def test_any_exception_of_a_parser_becomes_one_line(error):
    with pytest.raises(DataFileError) as caught, explained("a.npz"):
        raise error
    assert str(caught.value).startswith(f"a.npz is truncated or damaged ({type(error).__name__}")
    assert "\n" not in str(caught.value)


def test_memory_that_runs_out_is_not_called_damage():
    with pytest.raises(DataFileError, match=r"a.npz needs more memory than is free"), explained("a.npz"):
        raise MemoryError("Unable to allocate 8 TiB")


def test_our_own_errors_and_interrupts_pass():
    for error in (InputError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)), explained("a.npz"):
            raise error


def test_small_files_may_unpack_to_a_little_and_large_files_to_a_hundred_times_their_size():
    check_unpacked("X", 2**26, 10)
    check_unpacked("X", 100 * 2**30, 2**30)
    for unpacked, packed in ((2**26 + 1001, 10), (101 * 2**30, 2**30)):
        with pytest.raises(DataFileError, match="without compression"):
            check_unpacked("X", unpacked, packed)


def test_memory_that_runs_out_while_a_dataset_is_made(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n3,4\n")

    def full(*arguments, **options):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("ridgeformer.datasets.tables.np.column_stack", full)
    with pytest.raises(DataFileError, match="needs more memory than is free"):
        datasets.load(tmp_path / "a.csv")


def test_a_pipe_somebody_writes_to_is_refused_too(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    writer = threading.Thread(target=lambda: open(tmp_path / "a.csv", "wb").close(), daemon=True)
    writer.start()
    with pytest.raises(DataFileError, match="pipe or a device"):
        datasets.load(tmp_path / "a.csv")
    reader = os.open(tmp_path / "a.csv", os.O_RDONLY | os.O_NONBLOCK)  # lets the writer go
    writer.join(5)
    os.close(reader)
    assert not writer.is_alive()
