"""`--like lm-eval`: defects of lm-eval 0.4.13 that are fixed by default and reproduced on request."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.specs import TaskOptions
from assay.options.specification import make_spec
from assay.run.open_model import arguments_like
from assay.run.resolve import resolve_tasks
from assay.scoring.document_scorer import document_scorer
from assay.tasks.catalog import Catalog
from assay.tasks.fewshot import RandomSampler
from assay.tasks.lm_eval.task import LmEvalTask

TASK = "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\ndoc_to_text: q\n"


def selected(folder: Path, like: str | None) -> list[tuple[str, Any]]:
    spec = make_spec("dummy", ["all"], include_path=folder, like=like)
    return [(task.card.name, task.card.num_fewshot) for task in resolve_tasks(spec, (), Catalog([folder])).tasks]


def test_a_group_member_with_changes_collapses_into_its_last_task(
    tmp_path: Path, write_yaml: Callable[..., Path]
) -> None:
    for name in ("a", "b", "c"):
        write_yaml(f"{name}.yaml", f"task: {name}\ntag: t\n{TASK}doc_to_target: {name}\n")
    write_yaml("inner.yaml", "group: inner\ntask: [a, b]\n")
    write_yaml("all.yaml", "group: all\ntask:\n  - {task: inner, num_fewshot: 2}\n  - c\n")
    assert selected(tmp_path, None) == [("a", 2), ("b", 2), ("c", 0)]
    assert selected(tmp_path, "lm-eval") == [("inner", 2), ("c", 0)]
    write_yaml("all.yaml", "group: all\ntask:\n  - {task: t, num_fewshot: 2}\n")
    assert selected(tmp_path, "lm_eval") == [("t", 2)]


def test_examples_of_chosen_documents_follow_the_choice() -> None:
    pool = [{"x": place} for place in range(9)]
    whole = RandomSampler(pool, 2, 1234, None, "t")
    chosen = RandomSampler(pool, 2, 1234, None, "t", order=[3, 7])
    stream = random.Random(1234)
    assert [chosen.places(3), chosen.places(7)] == [tuple(stream.sample(range(9), 2)) for _ in range(2)]
    assert chosen.places(3) == whole.places(0)


def test_the_choice_reaches_the_sampler(tmp_path: Path, make_task: Callable[..., LmEvalTask]) -> None:
    rows = [{"q": str(n), "a": str(n)} for n in range(8)]
    keys = {"doc_to_text": "q", "doc_to_target": "a", "fewshot_split": "test"}
    samples = {"toy": (5, 2)}
    options = {like: TaskOptions(num_fewshot=2, like=like, samples=samples) for like in (None, "lm-eval")}
    tasks = {like: make_task(rows, options[like], **keys) for like in options}
    found = {like: [task.build(task.documents()[place]) for place in (2, 5)] for like, task in tasks.items()}
    plain = make_task(rows, TaskOptions(num_fewshot=2), **keys)
    assert found[None] == [plain.build(plain.documents()[place]) for place in (2, 5)]
    assert found["lm-eval"] != found[None]


@pytest.mark.parametrize(("like", "expected"), [(None, 1.0), ("lm-eval", 0.0)])
def test_an_empty_list_of_regexes_compares_lists(
    make_task: Callable[..., LmEvalTask], like: str | None, expected: float
) -> None:
    from assay.core.responses import Text

    metrics = [{"metric": "exact_match", "regexes_to_ignore": []}]
    keys = {"doc_to_text": "q", "doc_to_target": "a", "metric_list": metrics}
    task = make_task([{"q": "?", "a": ["x", "y"]}], TaskOptions(like=like), **keys)
    document = task.documents()[0]
    (sample,) = document_scorer(task.scoring, "t").score(document, task.build(document), [Text("y")])
    assert sample.values == {"exact_match": expected}


def test_local_files_are_read_by_datasets(tmp_path: Path, write_yaml: Callable[..., Path]) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "x.jsonl").write_text(json.dumps({"q": "2020-01-01"}) + "\n", encoding="utf-8")
    write_yaml("t.yaml", f"task: t\n{TASK}doc_to_target: q\n")
    read = {}
    for like in (None, "lm-eval"):
        spec = make_spec("dummy", ["t"], include_path=tmp_path, like=like)
        (task,) = resolve_tasks(spec, (), Catalog([tmp_path])).tasks
        read[like] = task.documents()[0].fields["q"]
    assert isinstance(read[None], str) and not isinstance(read["lm-eval"], str)


def test_models_compute_as_lm_eval_does() -> None:
    assert arguments_like("hf", "lm-eval") == arguments_like("smollm2", "lm-eval") == {"arithmetic": "lm_eval"}
    assert arguments_like("hf", None) == arguments_like("dummy", "lm-eval") == {}


def test_an_unknown_tool_is_reported() -> None:
    with pytest.raises(UserError, match='no tool "lm-evl" .did you mean "lm-eval"'):
        make_spec("dummy", ["t"], like="lm-evl")
