"""The user's own texts as tasks: domains, files of every kind, and faults with file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, UserError
from assay.core.requests import RollingLoglikelihood, Windows
from assay.core.specs import TaskOptions, TextOptions
from assay.tasks.corpora import TextCorpus, open_corpus, resolve_windows


def lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def opened(path: Path, **texts: Any) -> TextCorpus:
    return open_corpus(f"text:{path}", TaskOptions(texts=TextOptions(**texts)))


def texts_of(corpus: TextCorpus) -> dict[str, list[str]]:
    return {task.domain: [document.fields["text"] for document in task.documents()] for task in corpus.tasks}


def fault(path: Path, **texts: Any) -> str:
    with pytest.raises(DataError) as caught:
        opened(path, **texts)
    return str(caught.value)


def test_a_plain_file_is_one_document(tmp_path: Path) -> None:
    path = tmp_path / "tale.txt"
    path.write_bytes("Once.\r\n\r\nTwice, naïve.\n".encode())
    corpus = opened(path)
    assert texts_of(corpus) == {"tale": ["Once.\r\n\r\nTwice, naïve.\n"]}
    assert corpus.group is None and corpus.tasks[0].card.name == f"text:{path}"


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
    corpus = opened(tmp_path / "c")
    assert texts_of(corpus) == {"news": ["three ☕"], "web": ["one", "two"]}
    assert corpus.group is not None and corpus.group.is_pooled
    assert corpus.group.members == (f"text:{tmp_path}/c:news", f"text:{tmp_path}/c:web")


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
    assert corpus.notices == (f"text:{tmp_path}/e.jsonl: documents without any text were left out (2)",)
    assert corpus.tasks[0].empty == 2
    assert "holds 1 documents, all of them empty" in fault(lines(tmp_path / "f.jsonl", {"text": ""}))
    assert "holds no document" in fault(lines(tmp_path / "g.jsonl"))


def test_a_document_has_its_line(tmp_path: Path) -> None:
    (task,) = opened(lines(tmp_path / "e.jsonl", {"text": ""}, {"text": "b", "more": 1})).tasks
    assert task.documents()[0].fields == {"text": "b", "source": f"{tmp_path}/e.jsonl:2"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{text: 1}", "bad.jsonl:2: is not JSON"),
        ("[1]", "bad.jsonl:2: is a list; expected an object"),
        ('{"txt": "a"}', 'bad.jsonl:2: has no "text" (did you mean "txt"?)'),
        ('{"text": 5}', 'bad.jsonl:2: its "text" is a int'),
        ('{"text": null}', 'bad.jsonl:2: its "text" is a NoneType'),
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
    assert "page.html: cannot read files of this kind" in fault(other)
    assert "void: holds no text" in fault(tmp_path / "void")
    assert "there is no such file or folder" in fault(tmp_path / "gone.txt")


def test_documents_are_evaluated_in_the_windows_of_the_run(tmp_path: Path) -> None:
    (task,) = opened(lines(tmp_path / "e.jsonl", {"text": "b"}), window=64, stride=16).tasks
    assert task.build(task.documents()[0]).requests == (RollingLoglikelihood("b", windows=Windows(64, 16)),)
    assert task.card.config["perplexity"] == {"window": 64, "stride": 16}


def test_the_run_decides_over_the_task() -> None:
    own = Windows(512, 128)
    assert resolve_windows(TextOptions(), own) == own
    assert resolve_windows(TextOptions(stride=64), own) == Windows(512, 64)
    assert resolve_windows(TextOptions(window=100), own) == Windows(100)
    with pytest.raises(UserError, match="more than the 512 tokens"):
        resolve_windows(TextOptions(stride=600), own)
