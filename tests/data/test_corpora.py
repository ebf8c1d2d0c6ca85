"""Corpora: domains, files of every kind, and faults with file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.core.specs import TextOptions
from assay.data.corpora import Corpus, read_corpus


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def opened(path: Path, **texts: Any) -> Corpus:
    return read_corpus(path, path, TextOptions(**texts), "--tasks")


def texts_of(corpus: Corpus) -> dict[str, list[str]]:
    return {domain: [document.text for document in documents] for domain, documents in corpus.domains.items()}


def fault(path: Path, **texts: Any) -> str:
    with pytest.raises(DataError) as caught:
        opened(path, **texts)
    return str(caught.value)


def test_a_plain_file_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "tale.txt"
    path.write_bytes("Once.\r\n\r\nTwice, naïve.\n".encode())
    assert texts_of(opened(path)) == {"tale": ["Once.\r\n\r\nTwice, naïve.\n"]}


def test_plain_files_of_a_folder_are_one_domain(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "letters/c.txt"):
        (tmp_path / "tales" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tales" / name).write_text(name)
    (tmp_path / "tales" / "notes.pdf").write_text("no text")
    assert texts_of(opened(tmp_path / "tales")) == {"letters": ["letters/c.txt"], "tales": ["a.txt", "b.txt"]}


def test_json_lines_are_a_domain_each_by_name(tmp_path: Path) -> None:
    lines(tmp_path / "c" / "web.jsonl", {"text": "one"}, {"text": "two"})
    with gzip.open(tmp_path / "c" / "news.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.write('{"text": "three ☕"}\n\n')
    assert texts_of(opened(tmp_path / "c")) == {"news": ["three ☕"], "web": ["one", "two"]}


def test_a_column_may_say_the_domain(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "all.jsonl", {"page": "x", "from": 1}, {"page": "y", "from": "a/b"}, {"page": "z", "from": 1}
    )
    assert texts_of(opened(path, text_column="page", domain_column="from")) == {"1": ["x", "z"], "a/b": ["y"]}


def test_line_ends_inside_a_text_end_no_document(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text('\ufeff{"text": "a\u2028b"}\r\n{"text": "c\\nd"}', encoding="utf-8", newline="")
    assert texts_of(opened(path)) == {"odd": ["a\u2028b", "c\nd"]}


def test_empty_documents_are_left_out_and_counted(tmp_path: Path) -> None:
    corpus = opened(lines(tmp_path / "e.jsonl", {"text": ""}, {"text": " "}, {"text": ""}))
    assert texts_of(corpus) == {"e": [" "]}
    assert corpus.empty == {"e": 2}
    assert "holds 1 document, all without text" in fault(lines(tmp_path / "f.jsonl", {"text": ""}))
    assert "holds no documents" in fault(lines(tmp_path / "g.jsonl"))


def test_a_document_has_its_line(tmp_path: Path) -> None:
    corpus = opened(lines(tmp_path / "e.jsonl", {"text": ""}, {"text": "b", "more": 1}))
    assert corpus.domains["e"][0].source == f"{tmp_path}/e.jsonl:2"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{text: 1}", "bad.jsonl:2: is not JSON"),
        ("[1]", "bad.jsonl:2: has the JSON type list; expected an object"),
        ('{"txt": "a"}', 'bad.jsonl:2: has no "text" (did you mean "txt"?)'),
        ('{"text": 5}', 'bad.jsonl:2: its "text" has the type int'),
        ('{"text": null}', 'bad.jsonl:2: its "text" has the type NoneType'),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n")
    assert expected in fault(path)


def test_a_missing_domain_is_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", {"text": "a", "domain": "x"}, {"text": "b"})
    assert 'd.jsonl:2: has no "domain"' in fault(path, domain_column="domain")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    damaged = tmp_path / "cut.jsonl.gz"
    damaged.write_bytes(gzip.compress(b'{"text": "a"}\n' * 100)[:-12])
    foreign = tmp_path / "latin.txt"
    foreign.write_bytes("é".encode("latin-1"))
    other = tmp_path / "page.html"
    other.write_text("<p>")
    (tmp_path / "void").mkdir()
    assert "cut.jsonl.gz: is a damaged gzip file" in fault(damaged)
    assert "latin.txt: is not UTF-8" in fault(foreign)
    assert "page.html: is not a text file of a known kind" in fault(other)
    assert "void: holds no text" in fault(tmp_path / "void")
    assert "there is no such file or folder" in fault(tmp_path / "gone.txt")
