"""Documents among their own few-shot examples: replaced by default, shown like lm-eval, counted either way."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate, rescore
from assay.core.errors import DataError
from assay.core.responses import Logprob
from assay.core.specs import TaskOptions
from assay.data.sources import MemorySource
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.fewshot_overlap import REPLACED, SHOWN
from assay.tasks.lm_eval.task import LmEvalTask
from assay.testing import ScriptedModel

Make = Callable[..., LmEvalTask]

ROWS = [{"q": f"Is {number} odd?", "label": number % 2} for number in range(40)]
KEYS: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{q}}",
    "doc_to_target": "label",
    "doc_to_choice": ["no", "yes"],
}
SIX: dict[str, Any] = {"num_fewshot": 6}


def answer(request: Any) -> Logprob:
    return Logprob(-1.0, 1, is_greedy=False)


def shown(task: LmEvalTask, place: int) -> list[Any]:
    return [example.fields for example in task.examples(task.documents()[place])]


def leaking(task: LmEvalTask) -> list[int]:
    """Indices of the documents that are among their own examples."""
    return [document.id for document in task.documents() if document.fields in shown(task, document.id)]


def lm_eval_draws(count: int) -> list[list[int]]:
    stream = random.Random(1234)
    return [stream.sample(range(len(ROWS)), 6) for _ in range(count)]


@pytest.mark.parametrize("sampler", [None, *SAMPLERS])
@pytest.mark.parametrize(
    "splits",
    [{}, {"test_split": None, "validation_split": "test", "fewshot_split": "test"}, {"training_split": "test"}],
)
def test_no_sampler_shows_a_document_itself(make_task: Make, sampler: str | None, splits: dict[str, Any]) -> None:
    task = make_task(ROWS, TaskOptions(fewshot_sampler=sampler, **SIX), **{**KEYS, **splits})
    assert leaking(task) == []
    assert {len(shown(task, place)) for place in range(40)} == {6}


def test_documents_that_are_not_drawn_for_themselves_keep_lm_evals_examples(make_task: Make) -> None:
    task, changed = make_task(ROWS, TaskOptions(**SIX), **KEYS), []
    for place, drawn in enumerate(lm_eval_draws(40)):
        expected = [ROWS[number] for number in drawn]
        if place in drawn:
            changed.append(place)
            assert [row for row in shown(task, place) if row in expected] == [r for r in expected if r != ROWS[place]]
        else:
            assert shown(task, place) == expected
        assert task.build(task.documents()[place]).notes == ((REPLACED,) if place in drawn else ())
    assert len(changed) == 10


def test_like_lm_eval_the_document_is_shown_and_counted(make_task: Make) -> None:
    task = make_task(ROWS, TaskOptions(like="lm-eval", **SIX), **KEYS)
    expected = [[ROWS[number] for number in drawn] for drawn in lm_eval_draws(40)]
    assert [shown(task, place) for place in range(40)] == expected
    noted = [document.id for document in task.documents() if SHOWN in task.build(document).notes]
    assert len(noted) == 10
    assert noted == leaking(task)


def test_the_replacement_depends_on_seed_and_place_alone(make_task: Make) -> None:
    places = [place for place, drawn in enumerate(lm_eval_draws(40)) if place in drawn]
    whole = make_task(ROWS, TaskOptions(**SIX), **KEYS)
    expected = {place: shown(whole, place) for place in range(40)}
    for place in reversed(places):
        alone = make_task(ROWS, TaskOptions(samples={"toy": (place,)}, **SIX), **KEYS)
        assert shown(alone, place) == expected[place]


def test_copies_in_another_split_are_replaced_too(make_task: Make) -> None:
    splits = {"test": ROWS[:12], "train": ROWS[:12]}
    for sampler in SAMPLERS:
        task = make_task(splits, TaskOptions(num_fewshot=4, fewshot_sampler=sampler), **KEYS, training_split="train")
        assert leaking(task) == []


def test_rows_that_other_code_makes_of_the_split_are_reported_by_their_place(make_task: Make) -> None:
    task = make_task(ROWS, TaskOptions(**SIX), **KEYS, fewshot_split="test", test_split=None, validation_split="test")
    made = replace(task.definition.fewshot, process=lambda rows: [{**row, "n": n} for n, row in enumerate(rows)])
    task = LmEvalTask(replace(task.definition, fewshot=made), TaskOptions(**SIX), MemorySource({"test": ROWS}))
    assert all(place != example.place for place in range(40) for example in task.examples(task.documents()[place]))


def test_the_first_rows_are_followed_by_the_next(make_task: Make) -> None:
    task = make_task(ROWS, TaskOptions(num_fewshot=3), **KEYS, fewshot_config={"sampler": "first_n"})
    assert shown(task, 1) == [ROWS[0], ROWS[2], ROWS[3]]
    assert shown(task, 9) == ROWS[:3]


def test_chosen_examples_without_a_spare_one_are_shown_and_counted(make_task: Make) -> None:
    keys = {**KEYS, "fewshot_config": {"sampler": "first_n", "samples": ROWS[:2]}}
    task = make_task(ROWS, TaskOptions(num_fewshot=2), **keys)
    assert [task.build(task.documents()[place]).notes for place in range(3)] == [(SHOWN,), (SHOWN,), ()]


def test_too_small_a_split_is_an_error_before_the_first_request(make_task: Make) -> None:
    task = make_task(ROWS[:3], TaskOptions(num_fewshot=3), **KEYS)
    with pytest.raises(DataError, match="has 2 rows beside the document itself.*--like lm-eval shows"):
        task.build(task.documents()[0])
    assert make_task(ROWS[:3], TaskOptions(num_fewshot=3, like="lm-eval"), **KEYS).build(task.documents()[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "odd.jsonl").write_text(lines, encoding="utf-8")
    keys = {"task": "odd", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "odd.jsonl"}}, **KEYS}
    (tmp_path / "odd.yaml").write_text(json.dumps({**keys, "test_split": "test"}), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("like", "said"), [(None, "replaced by another example"), ("lm-eval", "show the right answer")]
)
def test_a_run_says_how_many(folder: Path, like: str | None, said: str) -> None:
    result = evaluate(ScriptedModel(answer), str(folder / "odd.yaml"), store=":memory:", like=like, **SIX)
    (line,) = [line for line in result.notices if "few-shot" in line]
    assert line.startswith("odd: documents ") and said in line and line.endswith(" (10)")


@pytest.mark.parametrize("is_older", [True, False])
def test_runs_of_earlier_versions_are_rescored_as_they_were_evaluated(folder: Path, is_older: bool) -> None:
    store = folder / "s.db"
    evaluate(ScriptedModel(answer), str(folder / "odd.yaml"), store=store, like="lm-eval", **SIX)
    with closing(sqlite3.connect(store)) as connection, connection:
        spec = json.loads(connection.execute("SELECT spec FROM runs").fetchone()[0])
        spec["options"]["like"] = None
        if is_older:
            del spec["options"]["own_examples"]
        connection.execute("UPDATE runs SET spec = ?", (json.dumps(spec),))
    if is_older:
        assert rescore("last", store=store).tasks[0].denominators.notes == {SHOWN: 10}
    else:
        with pytest.raises(DataError, match="but not its prompts"):
            rescore("last", store=store)


CLASS = """
from lm_eval.api.task import ConfigurableTask

class Odd(ConfigurableTask):
    def __init__(self, config=None):
        super().__init__(config={**config, **KEYS})
"""


@pytest.mark.parametrize(("like", "note"), [(None, "own_example_replaced"), ("lm-eval", "own_example_shown")])
def test_python_classes_go_by_the_same_rule(folder: Path, like: str | None, note: str) -> None:
    keys = json.loads((folder / "odd.yaml").read_text(encoding="utf-8"))
    del keys["task"]
    (folder / "code.py").write_text(f"KEYS = {keys!r}\n{CLASS}", encoding="utf-8")
    (folder / "cls.yaml").write_text("task: cls\nclass: !function code.Odd\n", encoding="utf-8")
    settings: dict[str, Any] = {"include_path": folder, "allow_code": True, "like": like, **SIX}
    (result,) = evaluate(ScriptedModel(answer), "cls", store=":memory:", **settings).tasks
    assert result.denominators.notes == {note: 10}
