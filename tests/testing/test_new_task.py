"""A task from a data file: rows of common shapes are read as meant and pass the contract; hostile rows do no harm."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import assay
from assay.core.errors import DataError, OutputError, UserError
from assay.tasks.scaffold.file_columns import columns_of
from assay.tasks.scaffold.guess import guess_format
from assay.tasks.scaffold.task_file import quoted, scalar
from assay.tasks.scaffold.values import Guess, Table, Wishes
from assay.tasks.templates import render

WORDS = (
    *("river", "stone", "cloud", "lamp", "hammer", "garden", "winter", "music", "bottle", "window", "paper"),
    *("mountain", "silver", "orange", "candle", "ticket", "engine", "forest", "pepper", "saddle"),
)
Row = dict[str, Any]


class Made:
    """Makes rows of text from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, size: int = 5) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(size))

    def question(self, place: int) -> str:
        return f"Which word follows {self.text(4)}, number {place}?"

    def options(self, size: int = 4) -> list[str]:
        return self.random.sample(WORDS, size)

    def one(self, items: Sequence[Any]) -> Any:
        return self.random.choice(items)


def _mapped(m: Made, place: int) -> Row:
    return {
        "question": m.question(place),
        "choices": {"text": m.options(), "label": list("ABCD")},
        "answerKey": m.one("ABCD"),
    }


def _inside(m: Made, place: int) -> Row:
    choices = [{"text": text, "label": label} for text, label in zip(m.options(), "ABCD", strict=True)]
    return {"question": {"stem": m.question(place), "choices": choices}, "answerKey": m.one("ABCD")}


def _lettered(m: Made, place: int) -> Row:
    return {"Question": m.question(place), **dict(zip("ABCD", m.options(), strict=True)), "Answer": m.one("ABCD")}


def _keyed(m: Made, place: int) -> Row:
    options = dict(zip("ABCD", m.options(), strict=True))
    key = m.one("ABCD")
    return {"question": m.question(place), "options": options, "answer_idx": key, "answer": options[key]}


def _named(m: Made, place: int) -> Row:
    names = ["option1", "option2", "option3"]
    return {"question": m.question(place), **dict(zip(names, m.options(3), strict=True)), "correct": m.one(names)}


def _distracted(m: Made, place: int) -> Row:
    right, *wrong = m.options()
    names = ("distractor1", "distractor2", "distractor3")
    return {"question": m.question(place), **dict(zip(names, wrong, strict=True)), "correct_answer": right}


def _uneven(m: Made, place: int) -> Row:
    size = m.one([2, 3, 4])
    passage, question = m.text(40), m.question(place)
    return {"passage": passage, "question": question, "choices": m.options(size), "answer": m.one("ABCD"[:size])}


def _numeric(m: Made, place: int) -> Row:
    choices = m.random.sample(range(10, 99), 4)
    return {"question": m.question(place), "choices": choices, "answer": m.one(choices)}


def _topic(m: Made, place: int) -> Row:
    label = place % 4
    return {"text": m.text(30), "label": label, "label_text": ["world", "sport", "business", "science"][label]}


def _span(m: Made, place: int) -> tuple[str, str, int]:
    context = m.text(30) + f" {place}"
    start = context.index(" ") + 1
    return context, context[start : start + 12], start


def _squad(m: Made, place: int) -> Row:
    context, answer, start = _span(m, place)
    answers = {"text": [answer], "answer_start": [start]} if place % 3 else {"text": [], "answer_start": []}
    return {"id": f"x{place}", "context": context, "question": m.question(place), "answers": answers}


def _plain_span(m: Made, place: int) -> Row:
    context, answer, start = _span(m, place)
    return {"context": context, "question": m.question(place), "answer": answer, "answer_start": start}


# Name → kind, a part that the guess must have, and a row.
Shape = tuple[str, tuple[str, Any], Callable[[Made, int], Row]]
SHAPES: dict[str, Shape] = {
    "list and index": (
        "multiple_choice",
        ("answer", "answer"),
        lambda m, i: {"id": i, "question": m.question(i), "choices": m.options(), "answer": i % 4},
    ),
    "counted from one": (
        "multiple_choice",
        ("answer", "{{answer | int - 1}}"),
        lambda m, i: {"question": m.question(i), "choices": m.options(), "answer": i % 4 + 1},
    ),
    "endings": (
        "multiple_choice",
        ("completes", True),
        lambda m, i: {"ctx": m.text(9), "endings": [m.text(5) for _ in range(4)], "label": str(i % 4)},
    ),
    "two columns": (
        "multiple_choice",
        ("choices", "{{[sol1, sol2]}}"),
        lambda m, i: {"goal": m.text(6) + "?", "sol1": m.text(), "sol2": m.text(), "label": i % 2},
    ),
    "text of the choice": (
        "multiple_choice",
        ("answer", "answer"),
        lambda m, i: {"query": m.question(i), "options": (found := m.options()), "answer": found[i % 4]},
    ),
    "mapped": ("multiple_choice", ("labels", "{{choices.label}}"), _mapped),
    "inside": ("multiple_choice", ("question", "{{question.stem}}"), _inside),
    "lettered": ("multiple_choice", ("labels", ("A", "B", "C", "D")), _lettered),
    "keyed": ("multiple_choice", ("choices", "{{[options.A, options.B, options.C, options.D]}}"), _keyed),
    "named": ("multiple_choice", ("choices", "{{[option1, option2, option3]}}"), _named),
    "distracted": ("multiple_choice", ("answer", "correct_answer"), _distracted),
    "uneven": ("multiple_choice", ("context", "passage"), _uneven),
    "numeric": ("multiple_choice", ("choices", "{{choices | map('string') | list}}"), _numeric),
    "numbered classes": (
        "classification",
        ("labels", ("0", "1", "2")),
        lambda m, i: {"idx": i, "sentence": m.text(8), "label": i % 3},
    ),
    "named classes": (
        "classification",
        ("labels", ("negative", "positive")),
        lambda m, i: {"text": m.text(20), "sentiment": ("positive", "negative")[i % 2]},
    ),
    "topics": ("classification", ("labels", ("world", "sport", "business", "science")), _topic),
    "pairs": (
        "classification",
        ("pair", "hypothesis"),
        lambda m, i: {"premise": m.text(9), "hypothesis": m.text(), "label": ("yes", "no")[i % 2]},
    ),
    "booleans": (
        "classification",
        ("labels", ("no", "yes")),
        lambda m, i: {"question": m.question(i), "passage": m.text(30), "answer": i % 2 == 0},
    ),
    "stars": (
        "classification",
        ("answer", "{{stars | int - 1}}"),
        lambda m, i: {"review": m.text(20), "stars": i % 3 + 1},
    ),
    "squad": ("span_qa", ("may_lack", True), _squad),
    "spans": ("span_qa", ("starts", "answer_start"), _plain_span),
    "answers": (
        "text_to_text",
        ("source", "Question: {{question}}\nAnswer:"),
        lambda m, i: {"question": m.question(i), "answer": f"{m.text(4)} {i}"},
    ),
    "accepted": (
        "text_to_text",
        ("target", "answers"),
        lambda m, i: {"question": m.question(i), "answers": [f"{m.text(2)} {i}", m.text(3)]},
    ),
    "translation": (
        "text_to_text",
        ("source", "German: {{translation.de}}\nEnglish:"),
        lambda m, i: {"translation": {"de": m.text(9), "en": m.text(8)}},
    ),
    "summary": (
        "text_to_text",
        ("target", "highlights"),
        lambda m, i: {"article": m.text(60), "highlights": m.text(12)},
    ),
    "texts": (
        "perplexity",
        ("doc_to_target", "{{text}}"),
        lambda m, i: {"text": m.text(50), "meta": {"source": "web"}},
    ),
}


def rows_of(shape: str, size: int, seed: int = 0) -> list[Row]:
    made, make = Made(seed), SHAPES[shape][2]
    return [make(made, place) for place in range(size)]


def guessed(rows: Sequence[Mapping[str, Any]], **wishes: Any) -> Guess:
    return guess_format(Table(Path("rows.jsonl"), rows, columns_of(rows)), Wishes(**wishes))


def written(folder: Path, rows: Sequence[Mapping[str, Any]], name: str = "my_rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(24, 60))
def test_rows_of_a_common_shape_are_read_as_meant(shape: str, seed: int, size: int) -> None:
    kind, (key, value), _ = SHAPES[shape]
    guess = guessed(rows_of(shape, size, seed))
    assert (guess.kind, {part.key: part.value for part in guess.parts}[key]) == (kind, value)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_task_of_a_common_shape_passes_its_contract(shape: str, tmp_path: Path) -> None:
    made = assay.new_task(written(tmp_path, rows_of(shape, 24)))
    assert [str(finding) for finding in made.findings if finding.is_fault] == []
    assert made.is_sound and len(made.prompts()) == (3 if made.checked else 0)
    assert assay.check(made.path).is_valid


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "parquet"])
def test_other_files_are_read_alike(suffix: str, tmp_path: Path) -> None:
    rows = rows_of("lettered", 24)
    path = tmp_path / f"my_rows.{suffix}"
    separator = "\t" if suffix == "tsv" else ","
    if suffix == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    elif suffix == "json":
        path.write_text(json.dumps({"data": rows}), encoding="utf-8")
    else:
        lines = [separator.join(row.values()) for row in ({key: key for key in rows[0]}, *rows)]
        path.write_text("\n".join(line.replace(", ", " ") for line in lines), encoding="utf-8")
    made = assay.new_task(path)
    assert made.guess.kind == "multiple_choice" and made.is_sound


# Hostile rows


@given(text=st.text(max_size=40), name=st.text(min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_text_survives_yaml_and_any_column_a_template(text: str, name: str) -> None:
    import yaml

    assert yaml.safe_load(f"a: {scalar(text)}\nb: [{quoted(text)}, {scalar(text)}]") == {"a": text, "b": [text, text]}
    (column,) = (found for found in columns_of([{name: "value"}]) if found.is_direct)
    assert render(column.as_template, {name: "value"}, "here") == "value"


def test_templates_and_odd_characters_in_the_data_stay_text(tmp_path: Path) -> None:
    rows = [
        {"question": f"„Größe {{{{ {i} }}}}“ 東京 \u2028 {{% raw %}} {i}?", "choices": [f"{{{{a{i}}}}}", "[x]'\"", "é"]}
        for i in range(12)
    ]
    made = assay.new_task(written(tmp_path, [{**row, "answer": i % 3} for i, row in enumerate(rows)]))
    assert made.is_sound
    assert made.prompts(1)[0].instance.choices == ("{{a0}}", "[x]'\"", "é")


@pytest.mark.parametrize("shape", SHAPES)
def test_one_row_is_doubtful(shape: str) -> None:
    try:
        assert guessed(rows_of(shape, 1)).sureness == "doubtful"
    except DataError as error:
        assert "its columns are" in str(error)


def test_rows_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    rows = rows_of("answers", 12)
    rows[3]["answer"] = ""
    made = assay.new_task(written(tmp_path, rows))
    assert "answer: empty in row 4" in made.remarks and not made.is_sound
    lettered = rows_of("lettered", 24)
    lettered[5]["Answer"], lettered[7]["B"] = "Z", ""
    doubts = guessed(lettered).doubts
    assert any("row 6 is none of its choices: Z" in doubt for doubt in doubts)
    assert any("row 8 with an empty choice before a filled one" in doubt for doubt in doubts)


def test_ten_thousand_rows_are_quick(tmp_path: Path) -> None:
    rows = sorted(rows_of("named classes", 10_000), key=lambda row: str(row["sentiment"]))
    path = written(tmp_path, rows)
    start = time.perf_counter()
    made = assay.new_task(path)
    assert time.perf_counter() - start < 20
    assert made.is_sound and "majority" not in made.path.read_text(encoding="utf-8")
    assert any("sorted by class" in remark for remark in made.remarks)


def test_an_answer_that_may_count_from_one_is_doubtful() -> None:
    rows = [{"question": f"what {i}?", "choices": ["x", "y", "z"], "answer": 1} for i in range(12)]
    guess = guessed(rows)
    assert "if it counts from 1, say --answer '{{answer | int - 1}}'" in guess.doubts[0]
    assert guessed(rows, answer="{{answer - 1}}").doubts == ()


# Corrections


def test_the_users_columns_count(tmp_path: Path) -> None:
    rows = [{"a b": f"what {i}?", "x": "one", "y": "two", "n": i % 2, "body": f"b{i}"} for i in range(12)]
    made = assay.new_task(written(tmp_path, rows), question="a b", choices=["x", "y"], answer="n")
    assert made.guess.kind == "multiple_choice" and made.is_sound
    named = assay.new_task(written(tmp_path, rows), text="body", answer="n", labels=["off", "on"], overwrite=True)
    assert {part.key: part.value for part in named.guess.parts}["labels"] == ("off", "on")
    assert guessed(rows, source="Say {{body}}:", target="a b").kind == "text_to_text"
    assert guessed(rows, kind="perplexity", text="body").kind == "perplexity"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"question": "quesion"}, 'has no column "quesion" (did you mean "question"?)'),
        ({"kind": "mcq"}, '--kind: is "mcq"; expected one of multiple_choice'),
        ({"kind": "perplexity", "source": "question"}, "--source: does not apply to --kind perplexity"),
        ({"question": "question", "source": "question"}, "--question and --source belong to different kinds"),
        ({"answer": "{{answer"}, "--answer: template does not parse"),
        ({"choices": "question"}, "--choices question holds text"),
    ],
)
def test_a_wrong_correction_is_an_error(wishes: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        guessed(rows_of("list and index", 12), **wishes)
    assert message in str(caught.value)


# Files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "a.jsonl: holds no rows; expected a row for each document. Add rows"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "a.jsonl:2: is not JSON"),
        ("a.csv", "a,b\n1\n", "a.csv:2: has 1 cells; expected 2, as the header has. Correct the file"),
        (
            "a.xlsx",
            "a",
            "a.xlsx: has no extension of data files; expected one of .csv, .json, .jsonl, .ndjson, .parquet, "
            ".tsv, .txt. Save the sheet as CSV",
        ),
        ("a.xyz", "a", "a.xyz: has no extension of data files; expected one of .csv"),
        ("a.jsonl", '{"id": "x"}\n', "its columns are id (text); expected --kind KIND, and the columns"),
        ("a.jsonl", '{"question": "q", "choices": ["x", "y"]}\n', "finds choices in choices and no column that says"),
    ],
)
def test_a_file_that_says_nothing_is_an_error(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        assay.new_task(tmp_path / name)
    assert message in str(caught.value) and not list(tmp_path.glob("*.yaml"))


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    written(tmp_path, rows_of("texts", 5), "stories.jsonl")
    with pytest.raises(DataError, match=r'does not exist \(did you mean "stories.jsonl"\?\); expected a data file'):
        assay.new_task(tmp_path / "storys.jsonl")
    with pytest.raises(DataError, match="is a folder; expected a data file. Name one of its files: stories.jsonl"):
        assay.new_task(tmp_path)


def test_rows_that_lack_a_needed_column_are_an_error(tmp_path: Path) -> None:
    rows = rows_of("answers", 12)
    rows[5] = {"prompt": "what?", "note": "x"}
    with pytest.raises(DataError, match=r'row 6: 1 row lacks the column "question", of 12; expected the same columns'):
        assay.new_task(written(tmp_path, rows))
    rows = [{**row, **({"note": "x"} if place == 2 else {})} for place, row in enumerate(rows_of("answers", 12))]
    assert "note: 11 rows" in str(assay.new_task(written(tmp_path, rows)).remarks)


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    data = written(tmp_path, rows_of("texts", 8))
    (tmp_path / "my_rows.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="exists already; expected a new file. Say --overwrite"):
        assay.new_task(data)
    assert (tmp_path / "my_rows.yaml").read_text(encoding="utf-8") == "mine"
    assert assay.new_task(data, overwrite=True).path == tmp_path / "my_rows.yaml"


def test_the_folder_of_a_task_can_be_moved(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    data = written(tmp_path / "here", rows_of("list and index", 12), "My quiz (2).jsonl")
    made = assay.new_task(data, tmp_path / "here" / "tasks" / "t.yaml")
    assert 'test: "../My quiz (2).jsonl"' in made.path.read_text(encoding="utf-8")
    (tmp_path / "here").rename(tmp_path / "there")
    assert assay.evaluate("dummy", str(tmp_path / "there" / "tasks" / "t.yaml"), store=":memory:").tasks


def test_training_rows_are_a_split_of_their_own(tmp_path: Path) -> None:
    rows = rows_of("named classes", 30)
    rows[29]["sentiment"] = "mixed"
    train = written(tmp_path, rows[12:], "train.jsonl")
    made = assay.new_task(written(tmp_path, rows[:13]), train=train)
    assert ("labels", ("mixed", "negative", "positive")) in [(part.key, part.value) for part in made.guess.parts]
    assert "1 row is in both files" in str(made.remarks)
    result = assay.evaluate("dummy", str(made.path), num_fewshot=2, store=":memory:")
    assert len(result.tasks[0].samples) == 13
    with pytest.raises(DataError, match='train.jsonl, row 1: 18 rows lack the column "question"'):
        assay.new_task(written(tmp_path, rows_of("answers", 12), "b.jsonl"), train=train)


def test_a_name_of_the_library_is_not_taken(tmp_path: Path) -> None:
    made = assay.new_task(written(tmp_path, rows_of("endings", 12), "hellaswag.jsonl"))
    assert made.name == "own_hellaswag" and "is a task of the library" in made.remarks[0]
    assert made.is_sound


def test_the_data_file_is_not_taken_for_the_output(tmp_path: Path) -> None:
    path = written(tmp_path, rows_of(next(iter(SHAPES)), 6))
    before = path.read_text()
    with pytest.raises(OutputError, match="is a file that is not a task file; expected a name that ends in .yaml"):
        assay.new_task(path, path, overwrite=True)
    assert path.read_text() == before
