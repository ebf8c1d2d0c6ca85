"""Readers of data files, and how far their rows agree with those of the `datasets` package."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.data.readers import ReadOptions, by_split, matching, read, with_all_columns

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

JSON_VALUES = st.none() | st.booleans() | st.integers() | st.text()


def read_text(tmp_path: Path, name: str, text: str, **options: Any) -> list[dict[str, Any]]:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read(path, ReadOptions(**options))


def fault(tmp_path: Path, name: str, content: bytes, **options: Any) -> str:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path, ReadOptions(**options))
    return str(caught.value).removeprefix(str(path))


# JSON


def test_a_json_list_and_json_lines_are_the_same_rows(tmp_path: Path) -> None:
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert read_text(tmp_path, "list.json", json.dumps(expected, indent=1)) == expected
    assert read_text(tmp_path, "lines.jsonl", "\n".join(map(json.dumps, expected))) == expected
    assert read_text(tmp_path, "lines.json", "\n".join(map(json.dumps, expected))) == expected
    assert read_text(tmp_path, "lines.ndjson", "\n".join(map(json.dumps, expected))) == expected


def test_blank_lines_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.jsonl", '\n{"a":1}\r\n\r\n  \n{"a":2}\r\n\n') == [{"a": 1}, {"a": 2}]


def test_a_file_of_many_blocks_is_read_whole(tmp_path: Path) -> None:
    rows = [{"number": number, "text": "x" * 3000} for number in range(1500)]
    text = "\n \n".join(map(json.dumps, rows))
    assert read_text(tmp_path, "a.jsonl", text) == rows
    assert fault(tmp_path, "b.jsonl", (text + "\n{").encode()).startswith(":3000: is not JSON")
    found = fault(tmp_path, "c.jsonl", text.encode() + b"\xff")
    assert found.startswith(
        f": is not UTF-8: invalid start byte at byte {len(text)}; expected a .jsonl file in UTF-8. "
    )
    assert "save it as UTF-8, such as: iconv" in found


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.jsonl", '\ufeff{"a":1}\n') == [{"a": 1}]
    assert read_text(tmp_path, "a.json", '\ufeff[{"a":1}]') == [{"a": 1}]
    assert read_text(tmp_path, "a.csv", "\ufeffa\n1\n") == [{"a": 1}]


def test_odd_line_separators_inside_a_text_do_not_end_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive\x0csix"
    line = json.dumps({"a": text}, ensure_ascii=False)
    assert read_text(tmp_path, "a.jsonl", line + "\n" + line) == [{"a": text}] * 2


@given(rows=st.lists(st.dictionaries(st.text(), JSON_VALUES, min_size=1), min_size=1, max_size=5))
def test_json_lines_come_back_as_they_were(rows: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8", newline="")
    assert read(path, ReadOptions()) == rows


def test_rows_may_be_under_a_field(tmp_path: Path) -> None:
    text = json.dumps({"version": 1, "data": [{"a": 1}]})
    assert read_text(tmp_path, "a.json", text, field="data") == [{"a": 1}]
    with pytest.raises(DataError, match="no list of objects under the key 'rows'"):
        read_text(tmp_path, "a.json", text, field="rows")


def test_one_object_over_several_lines_is_one_row(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.json", '{\n "a": 1,\n "b": 2\n}\n') == [{"a": 1, "b": 2}]


def test_broken_json_is_reported_with_file_and_line(tmp_path: Path) -> None:
    assert fault(tmp_path, "a.jsonl", b'{"a": 1}\n\n{"a": }\n').startswith(":3: is not JSON: Expecting value")
    assert fault(tmp_path, "a.json", b'[{"a": 1},\n {"a" 2}]').startswith(":2: is not JSON")
    assert fault(tmp_path, "a.jsonl", b'{"a": 1}\n[1]\n').startswith(":2: is a list; expected an object")
    assert fault(tmp_path, "b.json", b"[1, 2]").startswith(": holds no list of objects")
    assert fault(tmp_path, "c.json", b"[" * 100_000).startswith(":1: is not JSON")


def test_what_is_not_utf8_is_reported_with_its_byte(tmp_path: Path) -> None:
    assert "is not UTF-8" in fault(tmp_path, "a.jsonl", b'{"a": "\xff"}')
    wide = b"a\n" + b"x\n" * 10_000 + b"\xff\n"
    assert f"at byte {len(wide) - 2}" in fault(tmp_path, "a.csv", wide)


def test_files_of_unknown_kind_are_refused_unless_a_builder_is_named(tmp_path: Path) -> None:
    assert "cannot read files of this kind" in fault(tmp_path, "a.xml", b"<a/>")
    assert read_text(tmp_path, "a.data", '{"a":1}', extension=".json") == [{"a": 1}]


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path / "a.json", ReadOptions())


# Packed


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    for name, text in (("a.jsonl.gz", '{"a":1}\n'), ("a.csv.gz", "a\n1\n"), ("a.tsv.gz", "a\tb\n1\t2\n")):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert read(tmp_path / name, ReadOptions())[0]["a"] == 1


def test_damaged_packed_files_are_reported(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"a": "some text that is long enough"}\n' * 50)
    assert "damaged gzip" in fault(tmp_path, "a.jsonl.gz", whole[:-12])
    assert "cannot be read" in fault(tmp_path, "b.jsonl.gz", b"no gzip at all")
    assert "damaged gzip" in fault(tmp_path, "c.jsonl.gz", whole[:20] + b"\xff" * 20 + whole[40:])


# CSV


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.txt.gz"])
def test_a_gzip_file_that_expands_without_end_is_refused(tmp_path: Path, name: str) -> None:
    bomb = gzip.compress(b"a" * 10_000_000) * 100
    assert "expands to more than 100 times its" in fault(tmp_path, name, bomb)


def test_a_parquet_file_that_expands_without_end_is_refused(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"a": ["a" * 1_000_000 + str(number) for number in range(300)]})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(DataError, match="expands to more than 100 times its"):
        read(tmp_path / "a.parquet", ReadOptions())


def test_csv_columns_are_numbers_where_all_cells_are(tmp_path: Path) -> None:
    rows = read_text(tmp_path, "a.csv", "whole,share,flag,text\n1,0.5,True,x\n-2,1e3,false,2x\n")
    assert [list(map(type, row.values())) for row in rows] == [[int, float, bool, str]] * 2
    assert rows[1] == {"whole": -2, "share": 1000.0, "flag": False, "text": "2x"}


def test_empty_csv_cells_are_missing(tmp_path: Path) -> None:
    rows = read_text(tmp_path, "a.csv", "a,b,c\n1,x,\n,,\n")
    assert rows == [{"a": 1.0, "b": "x", "c": None}, {"a": None, "b": None, "c": None}]


def test_words_for_missing_count_only_in_number_columns(tmp_path: Path) -> None:
    rows = read_text(tmp_path, "a.csv", "n,t\n1,None\nNA,no\n")
    assert rows == [{"n": 1.0, "t": "None"}, {"n": None, "t": "no"}]


def test_underscores_make_no_number(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.csv", "a,b\n1_000,1_0.5\n") == [{"a": "1_000", "b": "1_0.5"}]


def test_quoted_cells_may_hold_anything(tmp_path: Path) -> None:
    text = 'a,b\r\n"x, ""y""\nz",1\r\n\r\n'
    assert read_text(tmp_path, "a.csv", text) == [{"a": 'x, "y"\nz', "b": 1}]


def test_cells_may_be_long(tmp_path: Path) -> None:
    assert len(read_text(tmp_path, "a.csv", "a,b\n1," + "x" * 200_000 + "\n")[0]["b"]) == 200_000


def test_names_may_replace_a_header_or_supply_one(tmp_path: Path) -> None:
    text = "x,1\ny,2\n"
    assert read_text(tmp_path, "a.csv", text, columns=("q", "n")) == [{"q": "x", "n": 1}, {"q": "y", "n": 2}]
    assert read_text(tmp_path, "a.csv", text, columns=("q", "n"), has_header=True) == [{"q": "y", "n": 2}]
    assert read_text(tmp_path, "a.csv", text, has_header=False)[0] == {"0": "x", "1": 1}


def test_separators(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.csv", "a;b\n1;2\n", separator=";") == [{"a": 1, "b": 2}]
    assert read_text(tmp_path, "a.tsv", "a\tb\n1\t2,3\n") == [{"a": 1, "b": "2,3"}]
    assert read_text(tmp_path, "a.tsv", "a;b\n1;2\n", separator=";") == [{"a": 1, "b": 2}]


def test_a_line_of_another_length_is_reported_with_its_number(tmp_path: Path) -> None:
    found = fault(tmp_path, "a.csv", b'a,b\n"x\ny",1\n\n1,2,3\n')
    assert found == ":5: has 3 cells; expected 2, as the header has"


def test_a_csv_of_no_lines_has_no_rows(tmp_path: Path) -> None:
    assert read_text(tmp_path, "a.csv", "") == read_text(tmp_path, "a.csv", "a,b\n") == []


# Text and Parquet


def test_a_text_file_is_one_row_per_line(tmp_path: Path) -> None:
    rows = read_text(tmp_path, "a.txt", "one\r\n\nthree\u2028same line\rfour")
    assert [row["text"] for row in rows] == ["one", "", "three\u2028same line", "four"]


def test_parquet_rows(tmp_path: Path) -> None:
    expected = [{"a": 1, "b": ["x"], "c": {"d": None}}, {"a": None, "b": [], "c": {"d": 2.5}}]
    parquet.write_table(pa.Table.from_pylist(expected), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", ReadOptions()) == expected
    assert "is not a Parquet file" in fault(tmp_path, "b.parquet", b"nothing of the kind")


# Columns, names, folders


def test_missing_columns_are_filled() -> None:
    assert with_all_columns([{"a": 1}, {"b": 2}]) == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    assert with_all_columns([]) == []


def test_a_column_has_one_kind_of_number() -> None:
    rows = with_all_columns([{"a": 1, "b": 1}, {"a": 2.5, "b": "x"}, {"b": True}])
    assert [repr(row) for row in rows] == ["{'a': 1.0, 'b': 1}", "{'a': 2.5, 'b': 'x'}", "{'a': None, 'b': True}"]


def test_patterns_match_files_only_and_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.txt", "in/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "e.json").mkdir()
    assert [path.name for path in matching(tmp_path / "*.json")] == ["a.json", "b.json"]
    assert [path.name for path in matching(tmp_path / "**/*.json")] == ["a.json", "b.json", "d.json"]


def test_a_name_with_brackets_is_a_name_first(tmp_path: Path) -> None:
    (tmp_path / "a[1].json").touch()
    assert matching(tmp_path / "a[1].json") == [tmp_path / "a[1].json"]


def test_a_folder_is_split_by_the_names_of_its_files(tmp_path: Path) -> None:
    for name in ("train-00001-of-2.parquet", "train-00000-of-2.parquet", "dev.jsonl.gz", "README.md", "x/test.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = {split: [path.name for path in paths] for split, paths in by_split(tmp_path, None).items()}
    assert names == {
        "train": ["train-00000-of-2.parquet", "train-00001-of-2.parquet"],
        "validation": ["dev.jsonl.gz"],
    }
    assert list(by_split(tmp_path, "x")) == ["test"]


# Beside the `datasets` package, which lm-eval loads everything with.

SAME = {
    "numbers.jsonl": '{"a":1,"b":"x"}\n{"a":2.5,"c":[1,2]}\n',
    "nested.jsonl": '{"a":{"x":1},"b":[]}\n{"a":null,"b":[1]}\n',
    "separators.jsonl": json.dumps({"a": "x\u2028y"}, ensure_ascii=False) + "\n",
    "list.json": '[{"a":1,"b":true},{"a":2}]',
    "pretty.json": '{\n"a": 1,\n"b": 2}',
    "types.csv": "a,b,c\nTrue,1,1.5\nFalse,2,2\n",
    "gaps.csv": "a,b,c\n1,x,\n,y,\n3,,\n",
    "booleans.csv": "a,b\nTrue,1\n,2\n",
    "quotes.csv": 'a,b\n"x, ""y""",1\n"line\nbreak",2\n',
    "zeros.csv": "a,b\n007,1.50\n010,2\n",
    "blanks.csv": "a, b\n 1, x\n2,y \n",
    "same.csv": "a,a\n1,2\n",
    "words.csv": "a\nyes\nno\n",
    "lines.txt": "a\n\nb\u2028c\x0bd\r\nlast",
}
# Where we give other rows on purpose: (text, theirs, ours).
OTHER: dict[str, tuple[str, list[Any], list[Any]]] = {
    # pyarrow takes what looks like a date for one, and a prompt then shows a time of day that nobody wrote.
    "dates.jsonl": ('{"d":"2020-01-01"}\n', ["datetime.datetime(2020, 1, 1, 0, 0)"], ["'2020-01-01'"]),
    # pyarrow has no whole numbers beyond 64 bits.
    "big.jsonl": ('{"d":12345678901234567890123}\n', ["1.2345678901234568e+22"], ["12345678901234567890123"]),
    # pandas takes "None", "NA", "null", … for missing cells in text too, which loses answers.
    "missing.csv": ("d,e\nNone,1\nNA,2\nx,3\n", ["None", "None", "'x'"], ["'None'", "'NA'", "'x'"]),
}
_THEIRS = """
import json, sys
import datasets
datasets.utils.logging.disable_progress_bar()
found = {}
for name in sys.argv[1:]:
    kind = {"csv": "csv", "txt": "text", "parquet": "parquet"}.get(name.rpartition(".")[2], "json")
    rows = datasets.load_dataset(kind, data_files={"test": name})["test"].to_list()
    found[name] = [{key: repr(value) for key, value in row.items()} for row in rows]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The rows of `datasets` for every file, from one process with its own cache."""
    pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("beside")
    for name, text in {**SAME, **{name: case[0] for name, case in OTHER.items()}}.items():
        (folder / name).write_bytes(text.encode())
    table = pa.Table.from_pylist([{"a": 1, "b": ["x", None], "c": {"d": 1.5}}, {"a": None, "b": [], "c": None}])
    parquet.write_table(table, folder / "table.parquet")
    environment = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", _THEIRS, *SAME, *OTHER, "table.parquet"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return {"folder": folder, "rows": json.loads(done.stdout)}


def ours(path: Path) -> list[dict[str, str]]:
    rows = with_all_columns(read(path, ReadOptions()))
    return [{key: repr(value) for key, value in row.items()} for row in rows]


@pytest.mark.parametrize("name", [*SAME, "table.parquet"])
def test_rows_are_those_of_datasets(theirs: dict[str, Any], name: str) -> None:
    assert ours(theirs["folder"] / name) == theirs["rows"][name]


@pytest.mark.parametrize("name", OTHER)
def test_rows_differ_from_datasets_where_we_mean_them_to(theirs: dict[str, Any], name: str) -> None:
    _, expected_theirs, expected_ours = OTHER[name]
    assert [row["d"] for row in theirs["rows"][name]] == expected_theirs
    assert [row["d"] for row in ours(theirs["folder"] / name)] == expected_ours
