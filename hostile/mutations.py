"""Ways to damage files: of bytes, of structure, of the file system, and lies with correct checksums."""

from __future__ import annotations

import io
import json
import os
import pickle
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hostile.specimens import Files, Specimen
from ridgeformer.compiler import saving
from ridgeformer.compiler.specification import Specification
from ridgeformer.core.errors import InputError

__all__ = ["Damage", "damage"]

Draw = np.random.Generator


@dataclass(frozen=True)
class Damage:
    """What was done to a specimen.

    Attributes:
        what: In words.
        files: The files as they are now.
        resealed: Whether the files are whole in themselves, with correct checksums of other content: what is read may
            differ from the intact content then, and must still be finite and consistent.
        place: Called with the folder after the files were written, to put links and pipes where files were.
    """

    what: str
    files: Files
    resealed: bool = False
    place: Callable[[Path], None] | None = None


def damage(specimen: Specimen, draw: Draw) -> Damage:
    """Return a specimen damaged in one way, or in several ways at once."""
    kind = draw.choice(["bytes", "structure", "place", "foreign"], p=[0.45, 0.35, 0.1, 0.1])
    if kind == "place":
        return _displaced(specimen, draw)
    if kind == "foreign":
        name = _pick(specimen, draw)
        what, content = list(foreign().items())[draw.integers(len(foreign()))]
        return Damage(f"{name} is {what}", specimen.files | {name: content}, resealed=True)
    if kind == "structure" and (found := _structure(specimen, draw)) is not None:
        return found
    name = _pick(specimen, draw)
    content, done = specimen.files[name], []
    for _ in range(draw.choice([1, 2, 3], p=[0.6, 0.2, 0.2])):
        how = list(BYTES)[draw.integers(len(BYTES))]
        content = BYTES[how](content, draw)
        done.append(how)
    return Damage(f"{name}: {', '.join(done)}", specimen.files | {name: content})


def _pick(specimen: Specimen, draw: Draw) -> str:
    names = list(specimen.files)
    return specimen.main if draw.random() < 0.5 else names[draw.integers(len(names))]


# -- bytes ---------------------------------------------------------------------------------------------


def _at(content: bytes, draw: Draw) -> int:
    """Return a place, most often near one of the ends, where headers are."""
    size = max(len(content), 1)
    where = draw.choice(["start", "end", "anywhere"], p=[0.25, 0.25, 0.5])
    if where == "anywhere":
        return int(draw.integers(size))
    near = min(int(draw.integers(200)), size - 1)
    return near if where == "start" else size - 1 - near


def _flip(content: bytes, draw: Draw) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 2, 8])):
        if changed:
            changed[_at(content, draw)] ^= 1 << int(draw.integers(8))
    return bytes(changed)


def _overwrite(content: bytes, draw: Draw) -> bytes:
    place, size = _at(content, draw), int(draw.integers(1, 64))
    filler = [bytes(size), b"\xff" * size, draw.bytes(size), b"\x7f" + b"\xff" * 7][draw.integers(4)]
    return content[:place] + filler + content[place + len(filler) :]


def _number(content: bytes, draw: Draw) -> bytes:
    """Set a field of 2, 4 or 8 bytes to a value at the edge."""
    place, size = _at(content, draw), int(draw.choice([2, 4, 8]))
    value = int(draw.choice([0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62])) % 2 ** (8 * size)
    return content[:place] + value.to_bytes(size, "little" if draw.random() < 0.7 else "big") + content[place + size :]


def _text(content: bytes, draw: Draw) -> bytes:
    """Replace a digit or a letter by something that reads as text and means something else."""
    words = [
        b"-",
        b"9" * 40,
        b"nan",
        b"inf",
        b"1e999",
        b"null",
        b'"',
        b",",
        b"\n",
        b"\r",
        b"\xc3\xa9",
        b"\xff",
        b"{",
        b"[" * 9,
    ]
    place = _at(content, draw)
    return content[:place] + words[draw.integers(len(words))] + content[place + 1 :]


BYTES: dict[str, Callable[[bytes, Draw], bytes]] = {
    "truncated": lambda content, draw: content[: _at(content, draw)],
    "beginning lost": lambda content, draw: content[_at(content, draw) :],
    "bits flipped": _flip,
    "overwritten": _overwrite,
    "a number set": _number,
    "text replaced": _text,
    "a piece lost": lambda content, draw: (
        content[: (at := _at(content, draw))] + content[at + int(draw.integers(99)) :]
    ),
    "a piece doubled": lambda content, draw: content[: (at := _at(content, draw))] + content[max(0, at - 99) :],
    "zeros inside": lambda content, draw: content[: (at := _at(content, draw))] + bytes(9) + content[at:],
    "garbage behind": lambda content, draw: content + draw.bytes(int(draw.integers(1, 300))),
    "twice": lambda content, draw: content + content,
    "backwards": lambda content, draw: content[::-1],
}


# -- places --------------------------------------------------------------------------------------------


def _displaced(specimen: Specimen, draw: Draw) -> Damage:
    """Put something where a file was that is no file."""
    name = _pick(specimen, draw)
    what = str(draw.choice(["/dev/zero", "/dev/urandom", "/dev/full", "a pipe", "a directory", "a loop", "nothing"]))

    def place(folder: Path) -> None:
        path = folder / name
        path.unlink()
        if what == "a pipe":
            os.mkfifo(path)
        elif what == "a directory":
            path.mkdir()
        elif what != "nothing":
            path.symlink_to(path if what == "a loop" else what)

    return Damage(f"{name} is {what}", specimen.files, place=place)


# -- foreign files -------------------------------------------------------------------------------------


@cache
def foreign() -> dict[str, bytes]:
    """Return content that belongs to other programs, or is large once unpacked."""
    bomb, rle = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for key in ("X", "y"):
            with archive.open(f"{key}.npy", "w") as member:
                member.write(npy_header("(15728640, 1)"))
                for _ in range(120):
                    member.write(bytes(2**20))
    zeros = pa.array(np.zeros(15_000_000, np.int8))
    pq.write_table(pa.table({"a": zeros, "b": zeros, "y": zeros}), rle)
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(50_000, np.int32)), pa.array(["long" * 20_000]))
    shared, nested = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table({"a": np.zeros(50_000), "y": long}), shared, store_schema=False)
    pq.write_table(pa.table({"a": [[1.0]], "y": [{"z": 1}]}), nested)
    return {
        "empty": b"",
        "a pickle": pickle.dumps({"X": [1.0]}),
        "deep JSON": b"[" * 200_000,
        "deep JSON objects": b'{"a":' * 100_000,
        "a wide table": b",".join(b"c%d" % i for i in range(60_000)) + b"\n" + b"1," * 59_999 + b"1\n",
        "UTF-16": "a,b,y\n1,2,3\n".encode("utf-16"),
        "Latin-1": "größe,b,y\n1,2,3\n".encode("latin-1"),
        "text with tabs": b"a\tb\ty\n1\t2\t3\n",
        "columns of one name": b"a,a,y\n1,2,3\n4,5,6\n",
        "one endless line": b"a,y\n" + b"1" * 300_000 + b",2\n",
        "a quote never closed": b'a,y\n"1,2\n' * 99,
        "only commas": b"," * 3000 + b"\n" + b"," * 3000,
        "a zip bomb": bomb.getvalue(),
        "a parquet bomb": rle.getvalue(),
        "a parquet of one long text": shared.getvalue(),
        "a parquet of lists": nested.getvalue(),
        "a PNG": b"\x89PNG\r\n\x1a\n" + bytes(50),
        "an SQLite file": b"SQLite format 3\0" + bytes(4080),
    }


def npy_header(shape: str, dtype: str = "<f8") -> bytes:
    """Return the header of an .npy that declares whatever it is told to."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


# -- structure -----------------------------------------------------------------------------------------


def _structure(specimen: Specimen, draw: Draw) -> Damage | None:
    """Return a file that is whole and says something hostile; None where there is no such thing for its kind."""
    if specimen.name.endswith("model"):
        return (_specified if draw.random() < 0.7 else _headed)(specimen, draw)
    ways = {".npz": _zip_tricks, ".npy": _declared, ".parquet": _metadata, ".db": _stored}
    way = ways.get(Path(specimen.main).suffix)
    return None if way is None else way(specimen, draw)


SHAPES = ("(10**12, 3)", "(100000000000, 3)", "(-1, -96)", "(0, 3)", "(96,)", "()", "(1, 96, 1)", "(96, 1)", "(3, 32)")
DTYPES = ("<f8", ">f8", "|O", "<U0", "<c16", "<M8[s]", "|V8", "<i8", "<u8", "<f2", "nonsense")


def _declared(specimen: Specimen, draw: Draw) -> Damage:
    header = npy_header(str(draw.choice(SHAPES)), str(draw.choice(DTYPES)))
    content = specimen.files[specimen.main]
    return Damage(f"declares {header[10:-1]!r}", {specimen.main: header + content[128:]}, resealed=True)


def _zip_tricks(specimen: Specimen, draw: Draw) -> Damage:
    """Change what a zip file says about its members, or the members with correct checksums."""
    content = bytearray(specimen.files[specimen.main])
    if draw.random() < 0.5:
        array = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(array, "w") as new:
            for name in old.namelist():
                header = npy_header(str(draw.choice(SHAPES)), str(draw.choice(DTYPES)))
                new.writestr(name, header + old.read(name)[128:])
        return Damage("members declare other shapes", specimen.files | {specimen.main: array.getvalue()}, resealed=True)
    field, width, value = [("flags", 2, 1), ("method", 2, 9), ("method", 2, 14), ("method", 2, 12), ("method", 2, 8),
                           ("sizes", 4, 2**31), ("sizes", 4, 0)][draw.integers(7)]  # fmt: skip
    for signature, offsets in (
        (b"PK\x03\x04", {"flags": 6, "method": 8, "sizes": 22}),
        (b"PK\x01\x02", {"flags": 8, "method": 10, "sizes": 24}),
    ):
        place = content.find(signature)
        while place >= 0:
            at = place + offsets[field]
            content[at : at + width] = value.to_bytes(width, "little")
            place = content.find(signature, place + 4)
    return Damage(f"zip members with {field} {value}", specimen.files | {specimen.main: bytes(content)})


def _metadata(specimen: Specimen, draw: Draw) -> Damage:
    values = (b"{", b"\xff", b"[1]", b'{"index_columns": 3}', b"[" * 50_000, b'{"index_columns": ["a", "b", "c"]}')
    table = pq.read_table(io.BytesIO(specimen.files[specimen.main]))
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"pandas": values[draw.integers(len(values))]}), file)
    return Damage("other pandas metadata", {specimen.main: file.getvalue()}, resealed=True)


STATEMENTS = (
    """UPDATE results SET "values" = '[{"value": 7}]'""",
    "UPDATE results SET seed = 3, digest = upper(digest)",
    "UPDATE results SET params = '{}' WHERE rowid = 1",
    "UPDATE results SET status = 'great'",
    "UPDATE results SET error = x'ff00ff'",
    "DROP TABLE results",
    "ALTER TABLE results ADD COLUMN more",
    "CREATE VIEW more AS SELECT 1",
    "PRAGMA user_version = 9",
    "PRAGMA application_id = 9",
)


def _stored(specimen: Specimen, draw: Draw) -> Damage:
    """Change a store with SQLite itself: the file is sound and its content is not what was recorded."""
    statement = STATEMENTS[draw.integers(len(STATEMENTS))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        path.write_bytes(specimen.files[specimen.main])
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(statement)
        return Damage(statement, {specimen.main: path.read_bytes()})


SIZES = (10**9, 10**8, 10**6, 2**16, 2**62, 1, 4)
VALUES = (
    10**9,
    10**8,
    2**63,
    10**400,
    0,
    -1,
    None,
    "x",
    [],
    {},
    1e308,
    5e-324,
    float("nan"),
    True,
    2,
    7,
    [1, 2],
    2**16,
)


def _specified(specimen: Specimen, draw: Draw) -> Damage:
    """Change entries of a model's configuration and give it the checksum it should have."""
    config = json.loads(specimen.files["config.json"])
    names, values, most = list(config["specification"]), VALUES, 2
    if draw.random() < 0.5:  # sizes only
        names, values, most = ["features", "projected", "carried", "outputs", "width", "steps", "relu_knots"], SIZES, 3
    chosen = [names[draw.integers(len(names))] for _ in range(draw.integers(1, most + 1))]
    changes = {name: values[draw.integers(len(values))] for name in chosen}
    for name, value in changes.items():
        entry = config["specification"].get("algorithm" if name == "steps" else name)
        if isinstance(entry, dict) and draw.random() < 0.8:  # an option of the kernel, the algorithm or the attention
            option = name if name in entry else list(entry)[draw.integers(len(entry))]
            entry[option] = value
        else:
            config["specification"][name] = value
    return _resealed(config, specimen.files["model.safetensors"], f"configuration with {changes}"[:150])


def _headed(specimen: Specimen, draw: Draw) -> Damage:
    """Change the header of the weights, which declares names, shapes and places, and seal it."""
    weights = specimen.files["model.safetensors"]
    size = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + size])
    name = list(header)[draw.integers(len(header))]
    entry = dict(header[name])
    change = draw.choice(["shape", "dtype", "data_offsets", "name", "length"])
    if change == "shape":
        entry["shape"] = [[10**12], [2**62, 2**62], [0], [], [-1], entry["shape"][::-1]][draw.integers(6)]
    elif change == "dtype":
        entry["dtype"] = str(draw.choice(["F32", "I64", "BF16", "F8_E4M3", "X9"]))
    elif change == "data_offsets":
        entry["data_offsets"] = [[0, 10**15], [5, 1], [0, 8], [-8, 8]][draw.integers(4)]
    new = {("other" if change == "name" and key == name else key): value for key, value in header.items()}
    if change != "name":
        new[name] = entry
    text = json.dumps(new).encode()
    length = int(draw.choice([2**62, 0, 10**9])) if change == "length" else len(text)
    changed = length.to_bytes(8, "little") + text + weights[8 + size :]
    return _resealed(json.loads(specimen.files["config.json"]), changed, f"weights with another {change}")


def _resealed(config: dict, weights: bytes, what: str) -> Damage:  # type: ignore[type-arg]
    specification = config["specification"]
    with suppress(InputError):
        specification = Specification.from_dict(specification).as_dict()  # 2 becomes 2.0, as it was sealed
    config["checksum"] = saving._checksum(specification, weights)
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": weights}
    return Damage(what, files, resealed=True)
