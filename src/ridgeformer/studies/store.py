"""The store: one SQLite file with every result, tensors beside it, and claims so that runs share the work.

A result is one transaction. A run that dies loses only what it was computing: the system drops the lock it held, and
the next run that meets its claims takes them over. The write-ahead log needs the processes that use one store to be on
one machine; Dask's workers never touch it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import safetensors.torch
from filelock import FileLock, Timeout
from torch import Tensor

from ridgeformer.core.errors import DataFileError, RidgeformerError
from ridgeformer.core.reading import explained, open_regular, read_regular
from ridgeformer.studies.task import StudyTask, TaskOutcome, TaskStatus, as_json

__all__ = ["LIBRARY", "Store", "StoredResult"]

LIBRARY = version_of("ridgeformer")  # the version of this library, looked up once
APPLICATION = 0x72666D72  # "rfmr", in the header of every store
LAYOUT = 1
BUSY_SECONDS = 60.0

SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {LAYOUT};
CREATE TABLE results (
    key TEXT PRIMARY KEY, study TEXT NOT NULL, version INTEGER NOT NULL, function TEXT NOT NULL, params TEXT NOT NULL,
    root INTEGER NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL, "values" TEXT NOT NULL, error TEXT NOT NULL,
    tensors TEXT NOT NULL, seconds REAL NOT NULL, library TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE INDEX by_study ON results (study, version);
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL);
"""


@dataclass(frozen=True)
class StoredResult:
    """One stored result of a `StudyTask`, with its `TaskOutcome`.

    Attributes:
        params, values: As JSON text.
        tensors: SHA-256 of the safetensors file, empty without one.
        library: Version of ridgeformer that computed it.
        digest: SHA-256 of all the rest.
    """

    key: str
    study: str
    version: int
    function: str
    params: str
    root: int
    seed: int
    status: str
    values: str
    error: str
    tensors: str
    seconds: float
    library: str
    digest: str = ""

    @property
    def point(self) -> dict[str, Any]:
        """The parameters of the task."""
        return dict(json.loads(self.params))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows the task returned."""
        return list(json.loads(self.values))

    @property
    def intact(self) -> bool:
        """Whether it has its digest, and can be read."""
        try:
            point, rows = json.loads(self.params), json.loads(self.values)
            readable = isinstance(point, dict) and isinstance(rows, list) and all(isinstance(r, dict) for r in rows)
            return readable and self.status in list(TaskStatus) and self.digest == self.seal()
        except (ValueError, TypeError, RecursionError):
            return False

    def seal(self) -> str:
        """Return the digest these contents should have."""
        return hashlib.sha256(as_json([getattr(self, name) for name in COLUMNS[:-1]]).encode()).hexdigest()


COLUMNS = tuple(field.name for field in fields(StoredResult))
TYPES = [{"str": str, "int": int, "float": float}[str(field.type)] for field in fields(StoredResult)]
SELECT = "SELECT " + ", ".join(f'"{name}"' for name in COLUMNS) + " FROM results"
TABLES = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)  # no files can be put beside a store
NOT_ITS_FAULT = (*BUSY, *UNWRITABLE, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)


class Store:
    """Results of studies in one file; a context manager.

    A file that is damaged, of another program or of a newer version is refused and left as it is; one that is not there
    is made. Without `write` nothing is made or changed, and the disk may be read-only.

    Example:
        >>> with tempfile.TemporaryDirectory() as here, Store(Path(here) / "demo.db") as store:
        ...     task = StudyTask("demo", 1, "math:sqrt", {"x": 4.0}, seed=0)
        ...     store.claim(task.key), store.record(task, TaskOutcome(TaskStatus.DONE, '[{"root":2.0}]'))
        ...     [row.rows for row in store.results("demo")]
        (True, True)
        [[{'root': 2.0}]]
    """

    def __init__(self, path: str | Path, *, write: bool = True) -> None:
        self.path = Path(path)
        self._claims = self.path.with_name(self.path.name + ".claims")
        self._tensors = self.path.with_name(self.path.name + ".tensors")
        self._owner = uuid.uuid4().hex
        self._lock: FileLock | None = None
        self._closing = ExitStack()
        with _plain_errors(self.path):
            if not self.path.exists():
                if not write:
                    raise DataFileError(f"{self.path} does not exist: run the study with --store {self.path} first.")
                self._create()
            here = _examine(self.path, None if write else self._closing)
            self._db = _connect(here, "rw")  # to read as well: it removes the index and the log that it made
            self._db.execute(f"PRAGMA query_only = {not write:d}")
            self._db.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last results, never the file

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was claimed and not finished, and close the file."""
        with _plain_errors(self.path):
            if self._lock is not None:
                self._db.execute("DELETE FROM claims WHERE owner = ?", (self._owner,))
                self._drop(self._lock)
                self._lock = None
            self._db.close()
            self._closing.close()

    def claim(self, key: str) -> bool:
        """Take a task for this process: False if it is recorded, or taken by a living one."""
        with _plain_errors(self.path):
            if self._lock is None:
                self._lock = self._held(self._owner)
            done = self._db.execute(
                "INSERT INTO claims SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM results WHERE key = ?) "
                "ON CONFLICT DO NOTHING",
                (key, self._owner, key),
            )
            return done.rowcount == 1

    def free_dead_claims(self) -> int:
        """Give back what dead processes had claimed, and return how many tasks that was."""
        freed = 0
        with _plain_errors(self.path):
            for (owner,) in self._db.execute("SELECT DISTINCT owner FROM claims WHERE owner != ?", (self._owner,)):
                try:
                    lock = self._held(owner)
                except Timeout:
                    continue  # alive
                freed += self._db.execute("DELETE FROM claims WHERE owner = ?", (owner,)).rowcount
                self._drop(lock)
        return freed

    def record(self, task: StudyTask, outcome: TaskOutcome) -> bool:
        """Store an outcome in one transaction; False if there was one already, which is kept."""
        checksum = ""
        if outcome.tensors:
            with _plain_errors(self.path):
                self._tensors.mkdir(exist_ok=True)
                with tempfile.NamedTemporaryFile(dir=self._tensors, prefix=".", delete=False) as file:
                    file.write(outcome.tensors)
                os.replace(file.name, self._tensors / f"{task.key}.safetensors")
            checksum = hashlib.sha256(outcome.tensors).hexdigest()
        row = StoredResult(
            task.key, task.study, task.version, task.function, as_json(dict(task.params)), task.root, task.seed,
            str(outcome.status), outcome.values, outcome.error, checksum, outcome.seconds, LIBRARY,
        )  # fmt: skip
        values = [*(getattr(row, name) for name in COLUMNS[:-1]), row.seal()]
        with _plain_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            marks = ", ".join("?" * len(COLUMNS))
            added = self._db.execute(f"INSERT OR IGNORE INTO results VALUES ({marks})", values).rowcount == 1
            self._db.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (task.key, self._owner))
            self._db.execute("COMMIT")
        return added

    def statuses(self, study: str) -> dict[str, TaskStatus]:
        """Return how each recorded task of a study ended, by key."""
        found = self._rows("SELECT key, status FROM results WHERE study = ?", study)
        return {key: TaskStatus(status) for key, status in found}

    def results(self, study: str, version: int | None = None) -> Iterator[StoredResult]:
        """Return the recorded results of a study, of one version or of all."""
        where = " WHERE study = ? AND (? IS NULL OR version = ?) ORDER BY key"
        return (StoredResult(*values) for values in self._rows(SELECT + where, study, version, version))

    def census(self, study: str) -> dict[tuple[int, str], int]:
        """Return how many results there are of each version of a study and of the library."""
        counted = "SELECT version, library, count(*) FROM results WHERE study = ? GROUP BY version, library"
        return {(version, library): count for version, library, count in self._rows(counted, study)}

    def _rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        with _plain_errors(self.path):
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(1000):  # not the cursor itself, which cannot be closed after the database
                yield from rows

    def forget_failures(self, keys: Iterable[str]) -> int:
        """Remove recorded failures, so that they are tried again; results stay. Return how many."""
        with _plain_errors(self.path):
            wanted = [(key, str(TaskStatus.DONE)) for key in keys]
            return self._db.executemany("DELETE FROM results WHERE key = ? AND status != ?", wanted).rowcount

    def tensors(self, row: StoredResult) -> dict[str, Tensor]:
        """Return the named tensors of a result, from a file that must be the one that was written."""
        if not row.tensors:
            return {}
        path = self._tensors / f"{row.key}.safetensors"
        content = read_regular(path)
        if hashlib.sha256(content).hexdigest() != row.tensors:
            raise DataFileError(f"{path} is damaged: its checksum is not the one {self.path} recorded.")
        with explained(path):
            return safetensors.torch.load(content)

    def _create(self) -> None:
        """Make the file under another name and move it into place, so that nobody sees half of it."""
        with _plain_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._held("create", wait=BUSY_SECONDS)
            try:
                if self.path.exists():
                    return
                for left in ("-wal", "-shm"):
                    if self.path.with_name(self.path.name + left).exists():
                        raise DataFileError(
                            f"{self.path} is gone but its log {self.path.name}{left} is there: put the file back, or "
                            "remove the log."
                        )
                with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".store-") as work:
                    fresh = sqlite3.connect(Path(work) / "store")
                    fresh.executescript(SCHEMA)
                    fresh.close()
                    os.replace(Path(work) / "store", self.path)
            finally:
                lock.release()

    def _held(self, owner: str, wait: float = 0) -> FileLock:
        """Return the lock of an owner, which the system drops when its process ends."""
        self._claims.mkdir(exist_ok=True)
        lock = FileLock(self._claims / f"{owner}.lock", timeout=wait, thread_local=False)
        lock.acquire()
        return lock

    @staticmethod
    def _drop(lock: FileLock) -> None:
        Path(lock.lock_file).unlink(missing_ok=True)  # an owner's name is never used again
        lock.release()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a file that exists, mode "ro" or "rw"; every statement is a transaction of its own."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )
    db.text_factory = lambda content: content.decode("utf-8", "replace")  # what is replaced fails its checksum
    return db


def _examine(path: Path, copies: ExitStack | None) -> Path:
    """Check every page and every row without writing to the file; return the file to work on.

    SQLite puts an index of its log beside a store even to read it. Where it cannot, as on a read-only disk, the store
    and its log are copied to a temporary directory, which lives as long as `copies`; without `copies` that is an error.
    """
    with open_regular(path) as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise DataFileError(
            f"{path} is not a store of studies, or is damaged; it was left as it is: give another path."
        )
    if int.from_bytes(head[68:72], "big") != APPLICATION:
        raise DataFileError(f"{path} is a database of another program; it was left as it is: give another path.")
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    for other in (log, index):
        if other.exists() and not other.is_file():
            raise DataFileError(f"{other} is no regular file; it was left as it is: remove it.")
    made = [other for other in (log, index) if not other.exists()]
    try:
        _check_content(path)
    except (sqlite3.Error, UnicodeError, DataFileError) as error:
        if _code(error) not in BUSY:
            for new in made:
                new.unlink(missing_ok=True)
        if copies is None or _code(error) not in UNWRITABLE:
            raise
    else:
        return path
    copy = Path(copies.enter_context(tempfile.TemporaryDirectory(prefix="ridgeformer-"))) / "store"
    shutil.copyfile(path, copy)
    if log.exists():
        shutil.copyfile(log, copy.with_name("store-wal"))
    _check_content(copy)
    return copy


def _code(error: BaseException) -> int | None:
    """Return SQLite's primary result code, if the error has one."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _check_content(path: Path) -> None:
    with closing(_connect(path, "ro")) as db:
        (layout,) = db.execute("PRAGMA user_version").fetchone()
        if layout > LAYOUT:
            raise DataFileError(f"{path} was written by a newer ridgeformer (layout {layout}): use that version.")
        with closing(sqlite3.connect(":memory:")) as fresh:
            fresh.executescript(SCHEMA)
            if db.execute(TABLES).fetchall() != fresh.execute(TABLES).fetchall():
                raise sqlite3.DatabaseError("its tables are not those of a store")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        for values in db.execute(SELECT):
            if [type(value) for value in values] != TYPES or not StoredResult(*values).intact:
                raise sqlite3.DatabaseError(f"the result {str(values[0])[:12]!r} is not what was written")


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system say into one sentence."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:  # damaged text may stand in SQLite's own messages
        if _code(error) in NOT_ITS_FAULT:
            raise RidgeformerError(
                f"{path} cannot be used now ({error}): check the disk and its permissions."
            ) from None
        raise DataFileError(
            f"{path} is damaged ({error}); it was left as it is: restore a copy, or give another path."
        ) from None
    except OSError as error:
        raise RidgeformerError(f"{path} cannot be written ({error.strerror or error}): give another path.") from None
