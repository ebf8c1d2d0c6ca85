"""Which examples a task shows, by the sampler that its file or the run names."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import DataError, UserError
from assay.core.specs import RunSpec, TaskOptions
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.profiles.apply import ProfileOverrides, profiled
from assay.tasks.profiles.parse import find_profile

Make = Callable[..., LmEvalTask]

POOL = [{"q": f"Is {number} odd?", "label": number % 2} for number in range(12)]
KEYS: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{q}}",
    "doc_to_target": "label",
    "doc_to_choice": ["no", "yes"],
}


def places(task: LmEvalTask, document: int = 0) -> list[int]:
    return [example.place for example in task.examples(task.documents()[document])]


def run(sampler: str | None, shots: int = 4, **settings: Any) -> TaskOptions:
    return TaskOptions(num_fewshot=shots, fewshot_sampler=sampler, **settings)


def drawn(seed: int | str, size: int, count: int, document: int) -> list[int]:
    return [place for place in random.Random(seed).sample(range(size), count + 1) if place != document][:count]


@pytest.mark.parametrize("document", [0, 3, 11])
def test_the_run_names_the_sampler(make_task: Make, document: int) -> None:
    assert (
        places(make_task(POOL, run("first_n"), **KEYS), document)
        == ([0, 1, 2, 3, 4] if document > 3 else [place for place in range(5) if place != document])[:4]
    )
    assert places(make_task(POOL, run("fixed"), **KEYS), document) == drawn(1234, 12, 4, document)
    assert places(make_task(POOL, run("catwalk"), **KEYS), document) == drawn(document, 12, 4, document)
    expected = drawn(f"9:{document}", 12, 4, document)
    assert places(make_task(POOL, run("per_document", fewshot_seed=9), **KEYS), document) == expected


def test_a_task_file_names_the_sampler_and_the_run_wins(make_task: Make) -> None:
    keys = {**KEYS, "num_fewshot": 4, "fewshot_config": {"sampler": "fixed"}}
    task = make_task(POOL, **keys)
    assert [places(task, document) for document in range(12)] == [drawn(1234, 12, 4, place) for place in range(12)]
    assert places(make_task(POOL, run("catwalk"), **keys), 3) == drawn(3, 12, 4, 3)


@pytest.mark.parametrize("like", [None, "lm-eval"])
def test_lm_evals_own_draws_stay_the_default(make_task: Make, like: str | None) -> None:
    stream = random.Random(1234)
    expected = {document: stream.sample(range(12), 4) for document in range(12)}
    kept = [document for document in expected if like is not None or document not in expected[document]]
    for sampler in (None, "default"):
        task = make_task(POOL, run(sampler, like=like), **KEYS)
        assert [places(task, document) for document in kept] == [expected[document] for document in kept]
    assert 4 < len(kept) < 12 or like is not None


def test_another_split_needs_no_exclusion(make_task: Make) -> None:
    splits = {"test": POOL[:2], "train": POOL[2:]}
    task = make_task(splits, run("fixed"), **KEYS, training_split="train")
    assert places(task) == places(task, 1) == random.Random(1234).sample(range(10), 5)[:4]


@pytest.mark.parametrize(
    "keys",
    [
        KEYS,
        {**KEYS, "doc_to_target": "{{['no', 'yes'][label]}}"},
        {**KEYS, "doc_to_target": "{{['no', 'yes'][label]}}", "output_type": "generate_until", "doc_to_choice": None},
        {**KEYS, "doc_to_text": "label", "doc_to_choice": ["{{q}} No.", "{{q}} Yes."], "doc_to_target": "So."},
    ],
    ids=["place", "text", "written", "prompts"],
)
def test_balanced_examples_alternate_between_the_answers_that_examples_show(
    make_task: Make, keys: dict[str, Any]
) -> None:
    skewed = [*POOL, *({"q": f"Is {number} odd?", "label": 1} for number in range(13, 40, 2))]
    splits = {"test": POOL[:1], "train": skewed}
    task = make_task(splits, run("balanced"), **keys, training_split="train")
    assert [skewed[place]["label"] for place in places(task)] == [1, 0, 1, 0]


def test_rows_without_an_answer_come_last_in_balanced_examples(make_task: Make) -> None:
    splits = {"test": POOL[4:5], "train": [{"q": "?", "label": -1}, *POOL[:3]]}
    task = make_task(splits, run("balanced", 3), **KEYS, training_split="train")
    assert 0 not in places(task)


def test_balanced_examples_of_a_task_without_answers_are_an_error_before_anything_runs(make_task: Make) -> None:
    keys = {"output_type": "generate_until", "doc_to_text": "{{q}}", "doc_to_target": ""}
    with pytest.raises(UserError, match='the task "toy" states no right answer, which balanced examples go by'):
        make_task(POOL, run("balanced"), **keys)
    make_task(POOL, run("balanced", 0), **keys)
    unknown = make_task([{"q": "?", "label": -1}] * 9, run("balanced"), **KEYS)
    with pytest.raises(DataError, match="none of the 9 rows that examples come from has a right answer"):
        places(unknown)


def test_the_record_reports_the_sampler_that_was_used(make_task: Make) -> None:
    assert make_task(POOL, run("fixed"), **KEYS).card.config["fewshot_sampler"] == "fixed"
    assert "fewshot_sampler" not in make_task(POOL, run(None), **KEYS).card.config
    assert "fewshot_sampler" not in make_task(POOL, run("fixed", 0), **KEYS).card.config


def test_the_sampler_of_a_recorded_run_is_read_again() -> None:
    spec = RunSpec("dummy", ("toy",), options=run("catwalk"))
    assert RunSpec.from_json(spec.to_json()) == spec


def test_the_run_wins_over_a_profile_and_leaves_its_seed(make_task: Make) -> None:
    options = run("fixed")
    own = make_task(POOL, options, **KEYS)
    (item, *_) = profiled(
        own.definition, find_profile("helm"), ProfileOverrides(options, False, None), {"exact_match": frozenset()}
    )
    task = LmEvalTask(item.definition, options, own._source)
    assert places(task, 3) == drawn(1234, 12, 4, 3)


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r'--fewshot_sampler: no sampler "balance" \(did you mean "balanced"\?\)'):
        evaluate("dummy", "demo_questions", store=":memory:", fewshot_sampler="balance")


CLASS = """
from lm_eval.api.task import ConfigurableTask, Task

class Plain(ConfigurableTask):
    pass

class Own(ConfigurableTask):
    def fewshot_context(self, doc, num_fewshot, **settings):
        return "mine"
"""
CLASS_FILE = """
task: {name}
class: !function code.{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_target: label
doc_to_choice: ["no", "yes"]
"""


def class_folder(tmp_path: Path) -> Path:
    import json

    (tmp_path / "code.py").write_text(CLASS, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in POOL), encoding="utf-8")
    for name in ("Plain", "Own"):
        (tmp_path / f"{name}.yaml").write_text(CLASS_FILE.format(name=name), encoding="utf-8")
    return tmp_path


def test_a_class_that_leaves_examples_to_us_gets_the_sampler(tmp_path: Path) -> None:
    folder = class_folder(tmp_path)
    settings: dict[str, Any] = {"include_path": folder, "allow_code": True, "num_fewshot": 2, "store": ":memory:"}
    result = evaluate("dummy", "Plain", fewshot_sampler="catwalk", **settings)
    prompt = result.tasks[0].answered[3].instance.requests[0].prompt  # type: ignore[union-attr]
    shown = "".join(f"{POOL[place]['q']} {'yes' if place % 2 else 'no'}\n\n" for place in drawn(3, 12, 2, 3))
    assert prompt == shown + "Is 3 odd?"
    with pytest.raises(UserError, match="Own chooses its few-shot examples itself"):
        evaluate("dummy", "Own", fewshot_sampler="catwalk", **settings)
