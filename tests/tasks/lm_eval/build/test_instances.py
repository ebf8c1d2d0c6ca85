"""Built documents: the golden prompts of lm-eval 0.4.13, requests of each kind, and the right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.core.requests import Generation, Instance, Loglikelihood, Message, RollingLoglikelihood, Sampling
from assay.core.specs import ChatSpec, TaskOptions
from assay.tasks.lm_eval.build.instances import INVALID_GOLD, right_answer
from assay.tasks.lm_eval.task import LmEvalTask

Make = Callable[..., LmEvalTask]
Rows = list[dict[str, Any]]

CHOICE = {"output_type": "multiple_choice", "doc_to_text": "Q: {{q}}\nA:", "doc_to_target": "label"}
GOLDEN_A = {
    **CHOICE,
    "doc_to_choice": "choices",
    "description": "Desc {{label}}.\n\n",
    "gen_prefix": "Ans:",
    "fewshot_split": "train",
    "num_fewshot": 1,
}


def build(task: LmEvalTask, place: int = 0) -> Instance:
    return task.build(task.documents()[place])


def prompt(task: LmEvalTask, place: int = 0) -> Any:
    return build(task, place).requests[0].prompt  # type: ignore[union-attr]


def chat(**settings: Any) -> TaskOptions:
    return TaskOptions(chat=ChatSpec(apply=True, **settings))


def golden_a(make_task: Make, rows: Rows, options: TaskOptions | None = None, **keys: Any) -> LmEvalTask:
    return make_task({"test": rows, "train": rows}, options, **{**GOLDEN_A, **keys})


# Golden vectors


def test_golden_a_plain(make_task: Make, golden_rows: Rows) -> None:
    instance = build(golden_a(make_task, golden_rows))
    expected = "Desc 0.\n\nQ: What is 5-3?\nA: Ans: 2\n\nQ: What is 1+1?\nA: Ans:"
    assert instance.requests == tuple(Loglikelihood(expected, answer) for answer in (" 2", " 3", " four"))


def test_golden_a_chat_multiturn(make_task: Make, golden_rows: Rows) -> None:
    instance = build(golden_a(make_task, golden_rows, chat(system="SYS")))
    expected = (
        Message("system", "SYS\n\nDesc 0.\n\n"),
        Message("user", "Q: What is 5-3?\nA:"),
        Message("assistant", "Ans: 2"),
        Message("user", "Q: What is 1+1?\nA:"),
        Message("assistant", "Ans:"),
    )
    assert instance.requests == tuple(Loglikelihood(expected, answer) for answer in (" 2", " 3", " four"))


def test_golden_a_chat_single_turn(make_task: Make, golden_rows: Rows) -> None:
    assert prompt(golden_a(make_task, golden_rows, chat(system="SYS", multiturn=False))) == (
        Message("system", "SYS\n\nDesc 0.\n\n"),
        Message("user", "Q: What is 5-3?\nA: Ans: 2\n\nQ: What is 1+1?\nA:"),
        Message("assistant", "Ans:"),
    )


def test_golden_a_chat_without_prefix_has_no_delimiter(make_task: Make, golden_rows: Rows) -> None:
    instance = build(golden_a(make_task, golden_rows, chat(), gen_prefix=None))
    assert [request.continuation for request in instance.requests] == ["2", "3", "four"]  # type: ignore[union-attr]
    assert prompt(golden_a(make_task, golden_rows, chat(), gen_prefix=None))[-1].role == "user"


def test_golden_b_a_description_brings_its_own_line_end(make_task: Make, golden_rows: Rows) -> None:
    keys = {"description": "DESC", "doc_to_text": "{{q}}", "doc_to_target": "ans"}
    assert prompt(make_task(golden_rows, **keys)) == "DESCWhat is 1+1?"
    options = TaskOptions(chat=ChatSpec(system="SYS"))
    assert prompt(make_task(golden_rows, options, **keys)) == "SYS\n\nDESCWhat is 1+1?"


def examples(task: LmEvalTask, count: int) -> list[list[int]]:
    """Places of the examples before each document, read off the prompt."""
    questions = [document.fields["q"] for document in task.documents()]
    found = []
    for place in range(count):
        shown = prompt(task, place).split("|")[:-1]
        found.append([questions.index(text.split("=")[0]) for text in shown])
    return found


# Documents may be their own examples, as in lm-eval.
LIKE = TaskOptions(like="lm-eval")
DRAWN = {"doc_to_text": "{{q}}", "doc_to_target": "ans", "target_delimiter": "=", "fewshot_delimiter": "|"}


def test_golden_c_draws_from_the_evaluated_split(make_task: Make, golden_rows: Rows) -> None:
    task = make_task(golden_rows, fewshot_split="test", num_fewshot=2, **DRAWN)
    assert examples(task, 3) == [[3, 4], [0, 4], [0, 4]]


def test_golden_d_draws_from_the_training_split(make_task: Make, golden_rows: Rows) -> None:
    rows = {"test": golden_rows, "train": golden_rows}
    task = make_task(rows, LIKE, training_split="train", num_fewshot=2, **DRAWN)
    assert examples(task, 4) == [[3, 0], [0, 4], [4, 0], [0, 4]]


def test_an_example_is_rendered_once_for_all_documents(make_task: Make, golden_rows: Rows) -> None:
    rendered: list[str] = []

    class Shown(str):
        def __str__(self) -> str:
            rendered.append(self)
            return self[:]

    pool = [{**row, "q": Shown(row["q"])} for row in golden_rows]
    task = make_task({"test": golden_rows, "train": pool}, training_split="train", num_fewshot=2, **DRAWN)
    for place in range(len(golden_rows)):
        build(task, place)
    assert len(rendered) == len(set(rendered)) > 2


# Requests


def test_the_requests_of_a_document_share_one_prompt(make_task: Make, golden_rows: Rows) -> None:
    first, *others = build(golden_a(make_task, golden_rows)).requests
    assert all(other.prompt is first.prompt for other in others)  # type: ignore[union-attr]


def test_a_continuation_brings_its_own_blank(make_task: Make, golden_rows: Rows) -> None:
    task = make_task(golden_rows, output_type="loglikelihood", doc_to_text="q", doc_to_target=" {{ans}}")
    instance = build(task)
    assert instance.requests == (Loglikelihood("What is 1+1?", " 2"),)
    assert (instance.target, instance.gold, instance.choices) == (" 2", " 2", ())


def test_a_whole_text_ignores_prompt_and_description(make_task: Make, golden_rows: Rows) -> None:
    keys = {"output_type": "loglikelihood_rolling", "doc_to_text": "x", "doc_to_target": "q", "description": "D"}
    assert build(make_task(golden_rows, **keys)).requests == (RollingLoglikelihood("What is 1+1?"),)


def test_a_generation_has_the_tasks_settings(make_task: Make, golden_rows: Rows) -> None:
    keys = {"doc_to_text": "q", "doc_to_target": "ans", "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8}}
    (request,) = build(make_task(golden_rows, **keys)).requests
    assert request == Generation("What is 1+1?", ("\n",), 8, Sampling())


def test_repeats_of_a_sampled_answer_are_draws(make_task: Make, golden_rows: Rows) -> None:
    keys = {"doc_to_text": "q", "doc_to_target": "ans", "repeats": 3}
    sampled = build(make_task(golden_rows, generation_kwargs={"do_sample": True, "temperature": 1.0}, **keys))
    assert [request.draw for request in sampled.requests] == [0, 1, 2]  # type: ignore[union-attr]
    greedy = build(make_task(golden_rows, **keys))
    assert (greedy.draws, len(greedy.requests), len(set(greedy.requests))) == (3, 3, 1)


def test_mutual_information_requests_each_choice_alone_too(make_task: Make, golden_rows: Rows) -> None:
    metrics = [{"metric": "acc"}, {"metric": "acc_mutual_info"}]
    task = make_task(golden_rows, doc_to_choice="choices", metric_list=metrics, **CHOICE)
    requests = build(task).requests
    assert requests[3:] == tuple(Loglikelihood("", answer) for answer in (" 2", " 3", " four"))


def test_a_prompt_per_choice(make_task: Make) -> None:
    """The winogrande way: the text is the place of the right beginning, the target the common end."""
    rows = [{"n": n, "answer": "1", "options": ["The cup", "The box"], "end": "is full."} for n in range(3)]
    keys = {"doc_to_text": "{{answer}}", "doc_to_choice": "options", "doc_to_target": "end", "num_fewshot": 1}
    task = make_task(rows, output_type="multiple_choice", fewshot_config={"sampler": "first_n"}, **keys)
    instance = build(task)
    shown = "The box is full.\n\n"
    assert instance.requests == (
        Loglikelihood(shown + "The cup", " is full."),
        Loglikelihood(shown + "The box", " is full."),
    )
    assert (instance.gold, instance.target) == (1, "is full.")


def test_a_prompt_per_choice_meets_its_prefix_without_delimiter(make_task: Make) -> None:
    rows = [{"answer": "1", "options": ["The cup", "The box"], "end": "full."}]
    keys = {"doc_to_text": "{{answer}}", "doc_to_choice": "options", "doc_to_target": "end", "gen_prefix": "is"}
    requests = build(make_task(rows, output_type="multiple_choice", **keys)).requests
    assert requests == (Loglikelihood("The cupis", " full."), Loglikelihood("The boxis", " full."))


def test_an_example_that_points_at_no_choice_is_reported(make_task: Make) -> None:
    rows = [{"answer": "1", "options": ["a", "b"], "end": "x"}, {"answer": "", "options": ["a", "b"], "end": "x"}]
    keys = {"doc_to_text": "{{answer}}", "doc_to_choice": "options", "doc_to_target": "end", "num_fewshot": 2}
    task = make_task(rows, LIKE, output_type="multiple_choice", fewshot_config={"sampler": "first_n"}, **keys)
    with pytest.raises(DataError, match="doc_to_text: gives '' for an example; expected a place among 2 choices"):
        build(task)


# Examples


def test_an_example_without_answer_has_no_delimiters(make_task: Make, golden_rows: Rows) -> None:
    """Many tasks write the answer into the example's text and set an empty target."""
    inner = {"doc_to_text": "{{q}} {{ans}}\n", "doc_to_target": "", "sampler": "first_n"}
    task = make_task(golden_rows, LIKE, doc_to_text="q", doc_to_target="ans", num_fewshot=2, fewshot_config=inner)
    assert prompt(task) == "What is 1+1? 2\nWhat is 1+2? 3\nWhat is 1+1?"


def test_zero_is_an_answer_and_none_is_not(make_task: Make) -> None:
    rows = [{"q": "a", "label": 0}, {"q": "b", "label": None}]
    keys = {"doc_to_text": "q", "doc_to_target": "label", "doc_to_choice": ["no", "yes"], "num_fewshot": 2}
    task = make_task(rows, LIKE, output_type="multiple_choice", fewshot_config={"sampler": "first_n"}, **keys)
    assert prompt(task) == "a no\n\nba"


def test_the_first_of_several_answers_is_shown(make_task: Make) -> None:
    rows = [{"q": "a", "answers": ["x", "y"], "n": n} for n in range(2)]
    inner = {"sampler": "first_n"}
    task = make_task(rows, doc_to_text="q", doc_to_target="answers", num_fewshot=1, fewshot_config=inner)
    assert prompt(task) == "a x\n\na"
    assert build(task).gold == ("x", "y")


@pytest.mark.parametrize(("label", "expected"), [(5, "a place among 2 choices"), (1.5, "text")])
def test_an_example_with_an_answer_of_no_use_is_reported(make_task: Make, label: Any, expected: str) -> None:
    keys = {"doc_to_text": "q", "doc_to_target": "label", "doc_to_choice": ["no", "yes"], "num_fewshot": 1}
    rows = {"test": [{"q": "a", "label": 0}], "train": [{"q": "a", "label": label}]}
    task = make_task(rows, output_type="multiple_choice", fewshot_split="train", **keys)
    with pytest.raises(DataError, match=f"doc_to_target: gives {label} for a few-shot example; expected {expected}"):
        build(task)


def test_fixed_examples_need_no_split(make_task: Make, golden_rows: Rows) -> None:
    inner = {"samples": [{"q": "1?", "ans": "one"}, {"q": "2?", "ans": "two"}], "sampler": "first_n"}
    task = make_task(golden_rows, doc_to_text="q", doc_to_target="ans", num_fewshot=2, fewshot_config=inner)
    assert prompt(task) == "1? one\n\n2? two\n\nWhat is 1+1?"


# Fields without a value


@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ({"doc_to_text": "{{q}} {{hint}}"}, [1]),
        ({"doc_to_text": "{{q}}{% if hint %} {{hint}}{% endif %}"}, []),
        ({"doc_to_text": "{{q}} {{hint or ''}}{{'' if q else hint}}"}, []),
        ({"doc_to_text": "{{q.upper()}} {{hint}}"}, [1]),
        ({"doc_to_text": "q", "doc_to_target": "hint"}, [1]),
        ({"doc_to_text": "q", "description": "{{hint}}"}, [1]),
        ({"doc_to_text": "q", "fewshot_config": {"doc_to_text": "{{hint}}"}, "num_fewshot": 1}, [0, 1, 2]),
    ],
)
def test_the_word_none_for_a_null_is_noted(make_task: Make, keys: dict[str, Any], places: list[int]) -> None:
    rows = [{"q": name, "hint": None if name == "b" else "x", "ans": "y"} for name in "abc"]
    inner = {"fewshot_config": {"sampler": "first_n", "samples": rows[1:2], **keys.get("fewshot_config", {})}}
    task = make_task(rows, **{"doc_to_target": "ans", **keys, **inner})
    assert [place for place in range(3) if "null_written" in build(task, place).notes] == places


# The right answer


@pytest.mark.parametrize(
    ("target", "gold"),
    [(2, 2), ("3", 1), ("lost", -100), (7, -100), (-1, -1), ([0, "four", 9], (0, 2, -100)), (1.0, 1), (None, -100)],
)
def test_the_right_choice(make_task: Make, target: Any, gold: Any) -> None:
    rows = [{"q": "a", "t": target}]
    keys = {"doc_to_text": "q", "doc_to_target": "t", "doc_to_choice": ["2", "3", "four"]}
    instance = build(make_task(rows, output_type="multiple_choice", **keys))
    assert (instance.gold, instance.target) == (gold, target)


def test_the_right_text_may_be_named_by_a_choice(make_task: Make) -> None:
    keys = {"doc_to_text": "q", "doc_to_target": "t", "doc_to_choice": ["no", "yes"]}
    assert build(make_task([{"q": "a", "t": 1}], **keys)).gold == "yes"
    assert build(make_task([{"q": "a", "t": [0, 1]}], **keys)).gold == ("no", "yes")


def test_a_number_as_answer_is_compared_as_text(make_task: Make) -> None:
    assert build(make_task([{"q": "a", "t": 42}], doc_to_text="q", doc_to_target="t")).gold == "42"


def test_a_right_answer_may_be_a_whole_number_of_numpy() -> None:
    """Task code returns such targets, as that of toxigen does."""
    import numpy as np

    assert right_answer("multiple_choice", np.int32(1), ("no", "yes"), False) == 1
    assert right_answer("multiple_choice", np.int32(2), ("no", "yes"), False) == INVALID_GOLD


def test_an_empty_prompt_beside_a_format_stays_empty(make_task: Make) -> None:
    stated = {"kind": "classification", "text": "q", "labels": ["no", "yes"], "answer": "label"}
    keys = {**CHOICE, "doc_to_text": "", "doc_to_choice": "{{[q, 'not']}}", "format": stated}
    task = make_task([{"q": "a", "label": 1}], **keys)
    assert [(request.prompt, request.continuation) for request in build(task).requests] == [("", " a"), ("", " not")]  # type: ignore[union-attr]


def test_several_right_answers_are_a_fact_of_the_first_document(make_task: Make) -> None:
    rows = [{"q": "a", "t": ["x"]}, {"q": "b", "t": "y"}]
    assert build(make_task(rows, doc_to_text="q", doc_to_target="t"), 1).gold == ("y",)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"doc_to_text": "n", "doc_to_target": "q"}, "doc_to_text: gives 3 for a document; expected text"),
        ({"doc_to_text": "{{nn}}", "doc_to_target": "q"}, "'nn' is undefined"),
        ({"doc_to_text": "q", "doc_to_target": "n", "output_type": "loglikelihood"}, "doc_to_target: gives 3"),
        ({"doc_to_text": "q", "doc_to_target": "n", "output_type": "loglikelihood_rolling"}, "doc_to_target: gives 3"),
        ({"doc_to_text": "q", "doc_to_target": "q", "description": "{{d}}"}, "description: 'd' is undefined"),
        ({"doc_to_text": "q", "doc_to_target": "q", "gen_prefix": "{{d}}"}, "gen_prefix: 'd' is undefined"),
    ],
)
def test_a_field_of_the_wrong_kind_is_reported_with_its_line(make_task: Make, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        build(make_task([{"q": "a", "n": 3}], **keys))
    assert "toy.yaml:" in str(caught.value)


def test_building_twice_gives_the_same(make_task: Make, golden_rows: Rows) -> None:
    task = golden_a(make_task, golden_rows)
    assert [build(task, place) for place in (4, 0, 2)] == [build(task, place) for place in (4, 0, 2)]
