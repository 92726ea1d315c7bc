"""The store: what is written is read back, damage is seen and touched by nobody, claims end with their owner."""

import os
import random
import sqlite3
import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgeformer import studies
from ridgeformer.core.errors import DataFileError, RidgeformerError
from ridgeformer.studies import Store, StudyTask, TaskStatus
from ridgeformer.studies.store import SELECT, StoredResult
from ridgeformer.studies.task import TaskOutcome
from tests.studies import tiny_studies
from tests.studies.tiny_studies import GRUMPY, STUDY, study

TASK = StudyTask("tiny", 1, "tests.studies.tiny_studies:draw", {"x": 1}, seed=0)


@pytest.fixture
def full(tmp_path):
    path = tmp_path / "a.db"
    studies.run(STUDY, store=path, preset="quick")
    return path


def test_exact_values_come_back(tmp_path):
    values = '[{"a":0.1,"b":1e-310,"c":NaN,"d":Infinity,"e":"é"}]'
    with Store(tmp_path / "a.db") as store:
        assert store.record(TASK, TaskOutcome(TaskStatus.DONE, values, seconds=1.5))
        assert not store.record(TASK, TaskOutcome(TaskStatus.FAILED, error="later"))
        (row,) = store.results("tiny")
    assert (row.values, row.point, row.seconds, row.status) == (values, {"x": 1}, 1.5, TaskStatus.DONE)
    assert row.rows[0]["a"] == 0.1


def damage_truncate(content):
    return content[: len(content) // 2]


def damage_empty(content):
    return b""


def damage_garbage(content):
    return random.Random(0).randbytes(len(content))


def damage_middle(content):
    start = len(content) // 2
    return content[:start] + random.Random(0).randbytes(9000) + content[start + 9000 :]


def damage_one_digit(content):
    place = content.rindex(b'"x_squared":') + len(b'"x_squared":')
    digit = b"1" if content[place : place + 1] != b"1" else b"2"
    return content[:place] + digit + content[place + 1 :]


@pytest.mark.parametrize("damage", [damage_truncate, damage_empty, damage_garbage, damage_middle, damage_one_digit])
def test_a_damaged_store_is_reported_and_left_alone(full, damage):
    full.write_bytes(damage(full.read_bytes()))
    before = {path.name: path.read_bytes() for path in full.parent.iterdir() if path.is_file()}
    for use in (lambda: studies.run(STUDY, store=full, preset="quick"), lambda: studies.table(STUDY, full)):
        with pytest.raises(DataFileError, match="left as it is"):
            use()
    assert {path.name: path.read_bytes() for path in full.parent.iterdir() if path.is_file()} == before


def test_files_of_others_are_refused(tmp_path):
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(DataFileError, match="another program"):
        Store(tmp_path / "other.db")
    with pytest.raises(DataFileError, match="is a directory; a file was expected"):
        Store(tmp_path)
    with pytest.raises(DataFileError, match="does not exist: run the study"):
        Store(tmp_path / "none.db", write=False)
    (tmp_path / "file").write_text("text")
    with pytest.raises(RidgeformerError, match="give another path"):
        Store(tmp_path / "file" / "a.db")


def test_a_newer_layout_is_refused(full):
    db = sqlite3.connect(full)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DataFileError, match="newer ridgeformer"):
        Store(full)


def test_a_log_without_its_file_is_not_taken_for_a_new_store(tmp_path):
    (tmp_path / "a.db-wal").write_bytes(b"left")
    with pytest.raises(DataFileError, match="is gone but its log"):
        Store(tmp_path / "a.db")


def test_claims_are_exclusive_and_recorded_tasks_cannot_be_claimed(tmp_path):
    with Store(tmp_path / "a.db") as one, Store(tmp_path / "a.db") as two:
        assert one.claim(TASK.key)
        assert not two.claim(TASK.key)
        assert two.free_dead_claims() == 0
        one.record(TASK, TaskOutcome(TaskStatus.DONE))
        assert not two.claim(TASK.key)
        assert one.claim("other")
    with Store(tmp_path / "a.db") as three:
        assert three.claim("other"), "closing gives claims back"


def test_the_claims_of_a_killed_process_are_freed(tmp_path):
    context = tiny_studies.context()
    ready = context.Event()
    child = context.Process(target=tiny_studies.claim_and_wait, args=(tmp_path / "a.db", ready))
    child.start()
    assert ready.wait(60)
    with Store(tmp_path / "a.db") as store:
        assert store.free_dead_claims() == 0
        assert not store.claim("one")
        child.kill()
        child.join()
        assert store.free_dead_claims() == 1
        assert store.claim("one")


def test_tensors_lie_beside_the_store_and_are_checked(tmp_path):
    small = study("keep_tensors", [1, 2])
    studies.run(small, store=tmp_path / "a.db", preset="quick")
    with Store(tmp_path / "a.db") as store:
        rows = {row.point["x"]: row for row in store.results("tiny")}
        assert torch.equal(store.tensors(rows[2])["weights"], torch.tensor([2.0, 2.0]))
        path = tmp_path / "a.db.tensors" / f"{rows[2].key}.safetensors"
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
        with pytest.raises(DataFileError, match="checksum"):
            store.tensors(rows[2])
        path.unlink()
        with pytest.raises(DataFileError, match="does not exist"):
            store.tensors(rows[2])
    assert len(os.listdir(tmp_path / "a.db.tensors")) == 1


def test_forgetting_failures_keeps_results(tmp_path):
    studies.run(GRUMPY, store=tmp_path / "a.db", preset="quick")
    with Store(tmp_path / "a.db") as store:
        assert store.forget_failures([task.key for task in GRUMPY.tasks("quick")]) == 1
        assert set(store.statuses("tiny").values()) == {TaskStatus.DONE}


def test_nothing_in_the_store_is_a_pickle(full):
    with sqlite3.connect(full) as db:
        kinds = db.execute('SELECT DISTINCT typeof(params), typeof("values"), typeof(error) FROM results').fetchall()
    db.close()
    assert kinds == [("text", "text", "text")]


@contextmanager
def read_only(folder):
    """Take away the right to write into a folder; root, whom no permission binds, is nobody meanwhile."""
    folder.chmod(0o555)
    for path in folder.iterdir():
        path.chmod(0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def shelf():
    """A folder that everyone may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("log", ["merged", "left"])
def test_a_store_on_a_read_only_disk_is_read_and_not_written(shelf, tmp_path, log):
    with ExitStack() as stack:
        studies.run(STUDY, store=shelf / "a.db", preset="quick")
        expected = studies.table(STUDY, shelf / "a.db")
        if log == "left":  # a process that was killed leaves results in the log, without its index
            with Store(shelf / "a.db") as store:
                keeper = stack.enter_context(closing(sqlite3.connect(shelf / "a.db")))
                keeper.execute("SELECT count(*) FROM results").fetchone()
                assert store.record(
                    StudyTask("tiny", 1, "tests.studies.tiny_studies:draw", {"x": 99}, seed=0),
                    TaskOutcome(TaskStatus.DONE),
                )
                copies = {name: (shelf / name).read_bytes() for name in ("a.db", "a.db-wal")}
            shelf = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for name, content in copies.items():
                (shelf / name).write_bytes(content)
        before = sorted(path.name for path in shelf.iterdir())
        with read_only(shelf):
            with Store(shelf / "a.db", write=False) as store:
                assert len(list(store.results("tiny"))) == expected.num_rows + (log == "left")
                with pytest.raises(RidgeformerError, match=r"cannot be (used now|written)"):
                    store.claim("key")
            assert studies.table(STUDY, shelf / "a.db") == expected
            with pytest.raises(RidgeformerError, match=r"cannot be (used now|written)"):
                studies.run(GRUMPY, store=shelf / "a.db", preset="quick")
        assert sorted(path.name for path in shelf.iterdir()) == before


@pytest.mark.parametrize("beside", ["", "-wal", "-shm"])
def test_a_pipe_is_not_waited_for(full, beside):
    path = full.with_name(full.name + beside)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(DataFileError, match="regular file"):
        Store(full)


def reseal(full, **changes):
    """Change a result and give it the digest of what it holds now."""
    with closing(sqlite3.connect(full)) as db:
        values = db.execute(SELECT).fetchone()
        row = replace(StoredResult(*values), **changes)
        names = ", ".join(f'"{name}" = ?' for name in changes)
        db.execute(f"UPDATE results SET {names}, digest = ? WHERE key = ?", [*changes.values(), row.seal(), row.key])
        db.commit()


@pytest.mark.parametrize(
    "changes",
    [{"status": "great"}, {"params": "[" * 100_000}, {"values": "{}"}, {"values": "nothing"}, {"params": "3"}],
)
def test_a_result_that_cannot_be_read_is_refused_whatever_its_digest(full, changes):
    reseal(full, **changes)
    with pytest.raises(DataFileError, match="is not what was written"):
        Store(full)


def test_tables_of_another_make_are_refused(full):
    with closing(sqlite3.connect(full)) as db:
        db.execute("ALTER TABLE results RENAME TO kept")
        db.execute("CREATE VIEW results AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n")
    with pytest.raises(DataFileError, match="not those of a store"):
        Store(full)
