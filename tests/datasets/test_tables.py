from __future__ import annotations

import resource
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ridgeformer.core.errors import DataFileError, InputError, UnknownNameError
from ridgeformer.datasets.columns import code_like
from ridgeformer.datasets.tables import Roles, read_csv, read_parquet, read_table


@pytest.fixture
def csv(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def parquet(tmp_path: Path):
    def write(columns: dict[str, object]) -> Path:
        path = tmp_path / "table.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return write


def test_a_csv_with_a_named_target(csv) -> None:
    data = read_csv(csv("a,kind,b\n1,red,0.5\n2,blue,1.5\n3,red,2.5\n"), "kind", None)
    assert data.X.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert (data.features, data.classes, data.y.tolist()) == (("a", "b"), ("blue", "red"), [1, 0, 1])
    assert "target column 'kind'" in data.source
    assert data.name == "table"


@pytest.mark.parametrize(("target", "name"), [(0, "a"), (-1, "c"), ("1", "b"), ("c", "c"), ("-1", "c")])
def test_a_target_by_name_or_position(csv, target: str | int, name: str) -> None:
    data = read_csv(csv("a,b,c\n1.5,2.5,3.5\n4.5,5.5,6.5\n"), target, None)
    assert name not in data.features
    assert data.d == 2


def test_a_name_that_is_a_number_beats_a_position(csv) -> None:
    assert read_csv(csv("0,1,2\n.5,.6,.7\n"), "0", None).features == ("1", "2")
    assert read_csv(csv("2019,2020,kind\n.5,.6,.7\n"), "2019", None).features == ("2020", "kind")


@pytest.mark.parametrize("name", ["y", "target"])
def test_the_usual_names_need_no_choice(csv, name: str) -> None:
    assert read_csv(csv(f"a,{name}\n1,2.5\n3,4.5\n"), None, None).y.tolist() == [2.5, 4.5]


def test_byte_order_mark_spaces_quotes_and_line_ends(csv) -> None:
    data = read_csv(csv(b'\xef\xbb\xbfa, "b c" ,y\r\n 1,2,3.5\r\n\r\n4,5,6.5\r\n'), None, None)
    assert data.features[0] == "a"
    assert data.n == 2


def test_booleans_are_features(csv) -> None:
    assert read_csv(csv("a,y\ntrue,0.5\nfalse,1.5\n"), None, None).X.tolist() == [[1.0], [0.0]]


def test_types_come_from_the_whole_file(csv) -> None:
    rows = "".join(f"{i},{i}.5\n" for i in range(200_000))  # more than pyarrow's first block
    data = read_csv(csv("a,y\n" + rows + "0.25,1.5\n"), None, None)
    assert data.X[-1, 0] == 0.25


@pytest.mark.parametrize(
    ("text", "target", "error", "words"),
    [
        ("a,y\n", None, DataFileError, "no rows"),
        ("\n\n", None, DataFileError, "cannot be read.*header line"),
        ("a,y\n1,2\n3\n4,5,6\n", None, DataFileError, r"1 values in line 3 and 2 columns.*2 such lines"),
        ("1.5,2,0\n2.5,3,1\n", 2, DataFileError, "no header.*'1.5', '2', '0'.*first line"),
        ("5,3,7\n2,3,1\n", 2, DataFileError, "no header"),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n", 2, DataFileError, "no header.*'5.1', '3.5'"),
        ("0,0,one\n1,3,two\n", 2, DataFileError, "no header"),
        ("a,b,a,y\n1,2,3,4\n", "y", DataFileError, "several columns 'a'"),
        (",a,y\n0,2,4\n", "y", DataFileError, r"no name for column 0.*index=False"),
        ("a;b;y\n1;2;3\n", 0, DataFileError, "one column, 'a;b;y'.*semicolons.*commas"),
        ("a,y\n1,0.5\n12a,1.5\n", "y", InputError, "column 'a'.*'12a'"),
        ("a,y\n1,0.5\n2,1.5\ndozen,3\n", "y", InputError, "'a' holds numbers except in 1 rows, the first in row 2"),
        ("a,y\n,1\n,2\n", "y", InputError, "no column to predict from: 'a' .no value in any row"),
        ("a,kind\n1,red\n2,\n3,red\n", "kind", InputError, "missing values in column 'kind'"),
        ("a,y\ninf,1.5\n2,2.5\n", "y", InputError, "column 'a' has 1 infinite values, the first in row 0"),
        ("a,y\n1,inf\n2,2.5\n", "y", InputError, "column 'y' of table.csv has 1 missing or infinite"),
        (
            "a,price\n1,2\n",
            "prise",
            UnknownNameError,
            "no column 'prise': did you mean 'price'. Its columns are 'a', 'price'",
        ),
        ("a,price\n1,2\n", "zzz", UnknownNameError, "no column 'zzz'. Its columns"),
        ("a,price\n1,2\n", None, InputError, "no target chosen: give target=.*'a', 'price'"),
        ("y,target\n1,2\n", None, InputError, "no target chosen"),
        ("a,b\n1,2\n", 2, InputError, "no column 2: it has 2, 0 to 1"),
        ("a,b\n1,2\n", "-3", InputError, "no column -3"),
        (b"a\xff,y\n1,2\n", "y", DataFileError, "UTF-8"),
    ],
)
def test_a_bad_csv_says_what_to_do(csv, text, target, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        read_csv(csv(text), target, None)
    assert "\n" not in str(caught.value)


def test_many_columns_are_not_all_listed(csv) -> None:
    names = ",".join(f"c{i}" for i in range(30))
    with pytest.raises(UnknownNameError, match=r"'c7' and 22 more"):
        read_csv(csv(names + "\n" + ",".join("1" * 30) + "\n"), "zzz", None)


@pytest.mark.parametrize("data", [b"a,y\ncaf\xe9,1.5\n", b"a,y\n1,1.5\n2,\xc3", b"a,y\n1,\x002\n"])
def test_bytes_that_are_no_text_are_refused(csv, data: bytes) -> None:
    with pytest.raises(DataFileError, match=r"text.*: save it .*UTF-8"):
        read_csv(csv(data), "y", None)


def test_an_explicit_task(csv) -> None:
    path = csv("a,y\n1,0\n2,1\n3,0\n4,1\n")
    assert read_csv(path, "y", None).task == "classification"
    assert read_csv(path, "y", "regression").task == "regression"


def test_a_parquet_with_every_kind_of_number(parquet) -> None:
    path = parquet(
        {
            "i": pa.array([1, 2, 3], pa.int8()),
            "f": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "b": [True, False, True],
            "d": pa.array([Decimal("1.25"), Decimal("2.50"), Decimal("3.75")]),
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    data = read_parquet(path, "kind", None)
    assert data.X.tolist() == [[1, 0.5, 1, 1.25], [2, 1.5, 0, 2.5], [3, 2.5, 1, 3.75]]
    assert data.classes == ("u", "v")
    assert read_parquet(
        parquet({"a": [1, 2], "d": pa.array([Decimal("1.5"), Decimal("2.5")])}), "d", None
    ).y.tolist() == [
        1.5,
        2.5,
    ]


def test_integers_and_booleans_as_target(parquet) -> None:
    assert read_parquet(parquet({"a": [1, 2, 3, 4], "y": [5, 6, 5, 6]}), "y", None).classes == ("5", "6")
    assert read_parquet(parquet({"a": [1, 2], "y": [True, False]}), "y", None).classes == ("False", "True")


def test_an_index_stored_by_pandas_is_left_out(tmp_path) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [0.5, 1.5], "__index_level_0__": [7, 3]})
    metadata = b'{"index_columns": ["__index_level_0__"], "columns": [], "column_indexes": []}'
    pq.write_table(table.replace_schema_metadata({b"pandas": metadata}), tmp_path / "t.parquet")
    assert read_parquet(tmp_path / "t.parquet", "y", None).features == ("a",)


def test_a_folder_called_key_equals_value_adds_no_column(tmp_path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": [0.5, 1.5]}), folder / "t.parquet")
    assert read_parquet(folder / "t.parquet", "y", None).features == ("a",)


def test_a_bad_parquet_says_what_to_do(parquet, tmp_path) -> None:
    path = parquet({"a": [1.0] * 100, "y": [0.5] * 100})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataFileError, match=r"not a complete parquet file.*write it again"):
        read_parquet(path, "y", None)
    path.write_text("a,y\n1,2\n")
    with pytest.raises(DataFileError, match=r"not a complete parquet file"):
        read_parquet(path, "y", None)


def test_nested_and_missing_parquet_columns_are_named(parquet) -> None:
    with pytest.raises(InputError, match=r"lists or records in column 'v'"):
        read_parquet(parquet({"v": [[1, 2], [3]], "y": [0.5, 1.5]}), "y", None)
    with pytest.raises(InputError, match=r"missing values in column 'y', the target .1 in all, the first in row 1"):
        read_parquet(parquet({"a": [1.0, 2.0], "y": [0.5, np.nan]}), "y", None)


@pytest.mark.parametrize(
    "metadata",
    [b"{", b"\xff\xfe", b"[1]", b'{"index_columns": 3}', b"[" * 100_000, b'{"index_columns": null}', b"7"],
)
def test_broken_pandas_metadata_is_one_sentence(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"a": [1.0, 2.0], "y": [1.0, 3.0]}).replace_schema_metadata({"pandas": metadata})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataFileError, match=r"pandas metadata|not a complete parquet file"):
        read_parquet(tmp_path / "a.parquet", None, None)


@pytest.mark.parametrize("width", [20_001, 300_000])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_wider_than_tables_are_is_refused_before_it_is_parsed(csv, width: int, rows: int) -> None:
    row = "\n" + ",".join("1" for _ in range(width)) + "\n"
    path = csv(",".join(f"c{i}" for i in range(width - 1)) + ",y" + rows * row)
    begin = time.perf_counter()
    with pytest.raises(DataFileError, match=rf"{width:,} columns; a table may have 20,000.*numpy.savez"):
        read_csv(path, None, None)
    assert time.perf_counter() - begin < 1


def test_a_wide_header_behind_a_quoted_newline_is_refused_after_parsing(csv) -> None:
    names = ['"c\n"', *(f"c{i}" for i in range(20_000))]
    with pytest.raises(DataFileError, match="20,001 columns"):
        read_csv(csv(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"), "c1", None)


def test_a_parquet_that_repeats_one_number_a_billion_times_is_not_read(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema({"a": pa.int8(), "y": pa.int8()})) as writer:
        for _ in range(10):
            zeros = pa.array(np.zeros(2_000_000, np.int8))
            writer.write_table(pa.table({"a": zeros, "y": zeros}))
    assert (tmp_path / "a.parquet").stat().st_size < 2**20
    with pytest.raises(DataFileError, match="more than 100 times its file"):
        read_parquet(tmp_path / "a.parquet", None, None)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_long_text_that_every_row_shares_stays_one_text(tmp_path: Path, as_text: bool) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["long" * 25_000]))
    rows = pa.array(np.arange(100_000.0))
    table = pa.table({"a": rows, "y": text, "b": rows})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=not as_text)
    assert pa.types.is_string(pq.read_schema(tmp_path / "a.parquet").field("y").type) == as_text
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataFileError, match=r"the text to predict .* would take"):
        read_parquet(tmp_path / "a.parquet", None, None)
    data = read_parquet(tmp_path / "a.parquet", "b", None)
    assert max(map(len, data.notes)) < 200
    assert time.perf_counter() - begin < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


def test_one_long_label_among_short_ones_does_not_widen_them_all(csv) -> None:
    rows = "".join(f"{i},{'ab'[i % 2]}\n" for i in range(10_000))
    with pytest.raises(DataFileError, match="the text to predict"):
        read_csv(csv(f"x,y\n{rows}1,{'c' * 100_000}\n"), None, None)


def test_messages_stay_short_whatever_a_column_is_called(csv) -> None:
    with pytest.raises(InputError) as caught:
        read_csv(csv(f"{'n' * 100_000},b\n1,2\n3,4\n"), None, None)
    assert len(str(caught.value)) < 500


TABLE = """id,age,town,member,joined,income,y
1,31,Bern,true,2020-01-01,,1.5
2,42,Oslo,false,2020-01-03,12,2.5
3,,Bern,true,2020-02-01,13,3.5
4,55,,true,2020-02-02,14,4.5
"""


def test_columns_as_people_have_them(csv) -> None:
    more = "".join(f"{i},{20 + i},Rome,false,2021-01-01,{i},0.5\n" for i in range(5, 15))
    data = read_csv(csv(TABLE + more), "y", None)
    assert [(one.name, one.kind) for one in data.columns] == [
        ("age", "number"), ("town", "category"), ("member", "boolean"), ("joined", "date"), ("income", "number"),
    ]  # fmt: skip
    assert data.columns[1].levels == ("Bern", "Oslo", "Rome")
    np.testing.assert_array_equal(data.X[:4, 1], [0, 1, 0, np.nan])
    assert data.X[1, 3] - data.X[0, 3] == 2
    assert np.isnan(data.X[0, 4])
    assert data.notes == (
        "Left out: 'id' (it numbers the rows).",
        "Text taken as categories, one column a value: 'town' (3 values).",
        "Dates taken as days: 'joined'.",
        "Missing values: 'age' (1 rows), 'town' (1 rows), 'income' (1 rows); filled with the median of the training "
        "rows and marked in a column of their own, or a level of their own for text.",
    )


def test_columns_are_left_out_or_split_by_on_request(csv) -> None:
    data = read_csv(csv(TABLE), "y", None, Roles(("id", "age"), "member", "joined"))
    assert data.features == ("town", "income")
    assert data.groups is not None
    assert data.groups.tolist() == [1, 0, 1, 1]
    assert data.times is not None
    assert data.times.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"group column 'town' .* has 1 missing values, the first in row 3"):
        read_csv(csv(TABLE), "y", None, Roles(group="town"))
    with pytest.raises(UnknownNameError, match="no column 'twon': did you mean 'town'"):
        read_csv(csv(TABLE), "y", None, Roles(drop=("twon",)))
    with pytest.raises(InputError, match="'y' is the target"):
        read_csv(csv(TABLE), "y", None, Roles(drop=("y",)))


def test_a_rating_is_taken_as_numbers_and_that_is_said(csv) -> None:
    rows = "".join(f"{i * i % 7}.5,{i % 10 + 1}\n" for i in range(60))
    data = read_csv(csv("a,rating\n" + rows), "rating", None)
    assert data.task == "regression"
    assert data.notes[0] == (
        "column 'rating' holds 10 whole numbers, 1 to 10: taken as numbers; --task classification takes them as "
        "classes."
    )
    assert read_csv(csv("a,rating\n" + rows), "rating", "classification").task == "classification"


def test_a_new_table_is_coded_like_the_first(csv) -> None:
    data = read_csv(csv(TABLE), "y", None, Roles(drop=("id",)))
    new = read_table(csv("town,income,joined,member,age\nParis,1,2020-01-02,true,3\nOslo,,2020-01-02,false,\n"))
    X = code_like("new.csv", new, data.columns)
    np.testing.assert_array_equal(X[:, [0, 1, 2, 4]], [[3, 2, 1, 1], [np.nan, 1, 0, np.nan]])
    with pytest.raises(InputError, match="no columns 'age', 'joined'"):
        code_like("new.csv", read_table(csv("town,income,member\nBern,1,true\n")), data.columns)
    with pytest.raises(InputError, match="'age' holds category values where number was expected"):
        code_like("new.csv", read_table(csv("town,income,joined,member,age\nOslo,,2020-01-02,1,old\n")), data.columns)
