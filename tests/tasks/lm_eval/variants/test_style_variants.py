"""Tasks in prompt styles: prompts, examples, scoring, the file's key `format`, names, and what no style fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, TaskFileError, UserError
from assay.core.requests import Generation, Instance, Loglikelihood
from assay.core.specs import ChatSpec, RunSpec, TaskOptions
from assay.run.resolve import code_loader, known_names
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.schema import KnownNames, task_faults
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.style_variants import in_style, restyle
from assay.tasks.selection import Selection, select_tasks
from assay.tasks.styles import find_style
from assay.testing import toy_choice_task

Make = Callable[..., LmEvalTask]
Write = Callable[..., Path]

ROWS = [
    {"q": "What colour is the sky?", "options": ["red", "blue", "grey"], "label": 1, "p": "Look up."},
    {"q": "What colour is grass?", "options": ["green", "pink"], "label": 0, "p": "Look down."},
]
CLOZE = {
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{q}}\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": "options",
}
FORMAT = {"question": "q", "choices": "options", "answer": "label"}


def styled(task: LmEvalTask, style: str | None, options: TaskOptions | None = None) -> LmEvalTask:
    """The same task over the same rows in a style."""
    definition = in_style(task.definition, find_style(style) if style else None)
    return LmEvalTask(definition, options or task.options, task._source)


def build(task: LmEvalTask, place: int = 0) -> Instance:
    return task.build(task.documents()[place])


def asked(task: LmEvalTask, place: int = 0) -> list[tuple[Any, str]]:
    found = build(task, place).requests
    assert all(isinstance(request, Loglikelihood) for request in found)
    return [(request.prompt, request.continuation) for request in found]  # type: ignore[union-attr]


# Prompts


def test_cloze_of_a_cloze_is_the_same(make_task: Make) -> None:
    task = make_task(ROWS, **CLOZE)
    assert asked(styled(task, "cloze")) == asked(task)


def test_no_style_adds_a_word_before_the_question_of_mmlu(make_task: Make) -> None:
    listed = "{{q}}\n{% for o in options %}{{'ABC'[loop.index0]}}. {{o}}\n{% endfor %}Answer:"
    task = make_task(ROWS, **{**CLOZE, "doc_to_text": listed, "doc_to_choice": "{{['A', 'B', 'C'][:options|length]}}"})
    assert asked(styled(task, "letters")) == asked(task)
    assert asked(styled(task, "cloze"))[0] == ("What colour is the sky?\nAnswer:", " red")
    assert asked(styled(task, "hybrid"))[0] == (asked(task)[0][0], " red")


def test_listed_styles_keep_the_word_after_which_a_task_lists_its_choices(make_task: Make) -> None:
    listed = "Question: {{q}}\n{% for o in options %}{{'ABC'[loop.index0]}}. {{o}}\n{% endfor %}Answer:"
    task = make_task(ROWS, **{**CLOZE, "doc_to_text": listed, "doc_to_choice": "{{['A', 'B', 'C'][:options|length]}}"})
    assert asked(styled(task, "letters")) == asked(task)
    assert asked(styled(task, "hybrid"))[0] == (asked(task)[0][0], " red")
    assert asked(styled(task, "cloze"))[0] == ("Question: What colour is the sky?\nAnswer:", " red")


def test_examples_with_templates_of_their_own_begin_as_the_question_does(make_task: Make) -> None:
    shown = {"sampler": "first_n", "split": "test", "doc_to_text": "{{q}}\nAnswer:"}
    task = make_task(ROWS, TaskOptions(num_fewshot=1), **{**CLOZE, "fewshot_config": shown})
    both = "Question: What colour is grass?\nAnswer: green\n\nQuestion: What colour is the sky?\nAnswer:"
    assert asked(styled(task, "cloze"))[0][0] == both


def test_a_description_is_parted_from_another_prompt_than_its_own(make_task: Make) -> None:
    task = make_task(ROWS, **CLOZE, description="Colours.")
    assert asked(task)[0][0] == "Colours.Question: What colour is the sky?\nAnswer:"  # lm-eval's rule
    assert asked(styled(task, "letters"))[0][0].startswith("Colours.\n\nWhat colour is the sky?\nA. red")
    parted = make_task(ROWS, **CLOZE, description="Colours. ")
    assert asked(styled(parted, "letters"))[0][0].startswith("Colours. What colour")


def test_a_stated_question_has_the_head_of_the_prompt_beside_it(make_task: Make) -> None:
    def cloze(**keys: Any) -> Any:
        return asked(styled(make_task(ROWS, format=FORMAT, **keys), "cloze"))[0][0]

    assert cloze() == cloze(**CLOZE) == "Question: What colour is the sky?\nAnswer:"
    assert cloze(**{**CLOZE, "doc_to_text": "{{q}}\nAnswer:"}) == "What colour is the sky?\nAnswer:"


def test_cloze_of_a_text_to_be_classified_is_its_own_prompt(make_task: Make) -> None:
    kind = {"kind": "classification", "text": "p", "labels": ["up", "down"], "answer": "label"}
    task = make_task(ROWS, format=kind)
    assert (
        asked(styled(task, "cloze"))
        == asked(styled(task, None))
        == [("Look up.\nAnswer:", " up"), ("Look up.\nAnswer:", " down")]
    )


LABELLED = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{p}}\nQuestion: Is this advice?\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": ["no", "yes"],
    "format": {"kind": "classification", "text": "p", "labels": ["other", "advice"], "answer": "label"},
}


def test_a_text_to_be_classified_keeps_the_question_of_its_own_prompt(make_task: Make) -> None:
    own = make_task(ROWS, **LABELLED)
    assert asked(styled(own, "cloze")) == asked(own)
    assert asked(styled(own, "letters"))[0] == ("Look up.\nIs this advice?\nA. no\nB. yes\nAnswer:", " A")
    assert asked(styled(own, "t5"))[0] == (f"{own.definition.name} p: Look up.", "\nother")
    assert asked(styled(own, "metaicl"))[0][1] == "\nother"


@pytest.mark.parametrize(
    ("text", "choices"), [("{{p}}\nLabel:", ["no", "yes"]), ("{{p}}\nA. no\nB. yes\nAnswer:", ["A", "B"])]
)
def test_a_prompt_that_asks_nothing_leaves_the_names_of_the_classes(
    make_task: Make, text: str, choices: list[str]
) -> None:
    own = make_task(ROWS, **{**LABELLED, "doc_to_text": text, "doc_to_choice": choices})
    assert asked(styled(own, "letters"))[0] == ("Look up.\nA. other\nB. advice\nAnswer:", " A")


def test_letters(make_task: Make) -> None:
    task = styled(make_task(ROWS, **CLOZE), "letters")
    prompt = "What colour is the sky?\nA. red\nB. blue\nC. grey\nAnswer:"
    assert asked(task) == [(prompt, " A"), (prompt, " B"), (prompt, " C")]
    assert [label for _, label in asked(task, 1)] == [" A", " B"]
    assert (build(task).gold, build(task).choices, build(task).target) == (1, ("A", "B", "C"), 1)


def test_generate_has_one_request_and_the_label_is_right(make_task: Make) -> None:
    instance = build(styled(make_task(ROWS, **CLOZE), "generate"))
    (request,) = instance.requests
    assert isinstance(request, Generation)
    assert request.prompt == "What colour is the sky?\nA. red\nB. blue\nC. grey\nAnswer:"
    assert (request.stop, request.max_tokens, request.sampling.is_greedy) == (("\n\n",), 16, True)
    assert instance.gold == "B"


def test_description_and_examples_are_in_the_style(make_task: Make) -> None:
    keys = {**CLOZE, "description": "Colours.\n\n", "fewshot_split": "train", "num_fewshot": 1}
    task = make_task({"test": ROWS[:1], "train": ROWS[1:]}, **keys, fewshot_config={"sampler": "first_n"})
    prompt, _ = asked(styled(task, "letters"))[1]
    assert prompt == (
        "Colours.\n\nWhat colour is grass?\nA. green\nB. pink\nAnswer: A\n\n"
        "What colour is the sky?\nA. red\nB. blue\nC. grey\nAnswer:"
    )
    prompt, _ = asked(styled(task, "hybrid"))[1]
    assert "Answer: green\n\nWhat" in prompt


def test_an_own_delimiter_is_before_answers_and_in_examples(make_task: Make, write_yaml: Write) -> None:
    path = write_yaml("mine.yaml", {"prompt": "{{question}}", "answer": "{{label}}", "delimiter": " -> "})
    keys = {**CLOZE, "fewshot_split": "test", "num_fewshot": 1, "fewshot_config": {"sampler": "first_n"}}
    prompt, answer = asked(styled(make_task(ROWS, **keys), str(path)))[0]
    assert answer == " -> A"
    assert prompt == "What colour is grass? -> A\n\nWhat colour is the sky?"


def test_examples_with_templates_of_their_own(make_task: Make) -> None:
    shown = {"sampler": "first_n", "doc_to_text": "Q: {{q}}\nA. {{options[0]}}\nB. {{options[1]}}\nA:"}
    shown["doc_to_choice"] = ["A", "B"]  # type: ignore[assignment]
    keys = {**CLOZE, "fewshot_split": "train", "num_fewshot": 1, "fewshot_config": shown}
    task = make_task({"test": ROWS[:1], "train": ROWS[1:]}, **keys)
    assert asked(styled(task, "hybrid"))[0][0].startswith("What colour is grass?\nA. green\nB. pink\nAnswer: green\n\n")


def test_in_a_conversation(make_task: Make) -> None:
    task = styled(make_task(ROWS, **CLOZE), "letters", TaskOptions(chat=ChatSpec(apply=True)))
    (message,), answer = asked(task)[0]
    assert message.text == "What colour is the sky?\nA. red\nB. blue\nC. grey\nAnswer:"
    assert answer == "A"


def test_a_prefix_of_the_answer_is_not_a_part_of_the_question(make_task: Make) -> None:
    task = make_task(ROWS, **{**CLOZE, "gen_prefix": "It is"})
    assert asked(styled(task, "cloze"))[0] == ("Question: What colour is the sky?\nAnswer:", " red")


def test_a_prefix_of_a_sentence_is_part_of_it(make_task: Make) -> None:
    task = make_task(ROWS, **{**CLOZE, "doc_to_text": "{{p}} It", "gen_prefix": "is"})
    assert asked(styled(task, "cloze")) == asked(task)


def test_choices_that_bring_their_own_space(make_task: Make) -> None:
    rows = [{**ROWS[0], "options": [" red", " blue"]}]
    task = make_task(rows, **{**CLOZE, "target_delimiter": ""})
    assert asked(styled(task, "cloze")) == asked(task)
    assert asked(styled(task, "letters"))[0][0] == "What colour is the sky?\nA. red\nB. blue\nAnswer:"
    spaced = make_task(rows, **CLOZE)
    assert asked(styled(spaced, "cloze")) == asked(spaced)


def test_several_right_answers(make_task: Make) -> None:
    rows = [{**ROWS[0], "label": [0, 2]}, {**ROWS[1], "label": [1]}]
    task = make_task(rows, **{**CLOZE, "fewshot_split": "test", "num_fewshot": 1})
    assert build(styled(task, "letters")).gold == (0, 2)
    assert "Answer: B\n\nWhat colour is the sky?" in asked(styled(task, "letters"))[0][0]
    assert build(styled(task, "generate")).gold == ("A", "C")


# The right answer


@pytest.mark.parametrize("label", [-1, 3, -100, "purple", None])
def test_an_unknown_right_answer_is_never_a_choice(make_task: Make, label: Any) -> None:
    task = make_task([{**ROWS[0], "label": label}], **CLOZE)
    assert build(styled(task, "letters")).gold == -100
    assert build(styled(task, "generate")).gold not in ("A", "B", "C")


def test_an_example_without_a_right_answer_is_refused(make_task: Make) -> None:
    keys = {**CLOZE, "fewshot_split": "train", "num_fewshot": 1}
    task = make_task({"test": ROWS[:1], "train": [{**ROWS[1], "label": -1}]}, **keys)
    with pytest.raises(DataError, match="a few-shot example has no right answer among its 2 choices"):
        asked(styled(task, "letters"))


def test_the_first_of_several_places_is_right(make_task: Make) -> None:
    assert build(styled(make_task([{**ROWS[0], "label": 0}], **CLOZE), "letters")).gold == 0


def test_a_right_answer_by_its_text(make_task: Make) -> None:
    assert build(styled(make_task([{**ROWS[0], "label": "grey"}], **CLOZE), "generate")).gold == "C"


# Rotations


def test_every_rotation_is_evaluated(make_task: Make) -> None:
    task = styled(make_task(ROWS, **CLOZE), "hybrid:rotated")
    instance = build(task)
    assert instance.orders == ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    prompts = [prompt.split("\n")[1:4] for prompt, _ in asked(task)]
    assert prompts[::3] == [
        ["A. red", "B. blue", "C. grey"],
        ["A. blue", "B. grey", "C. red"],
        ["A. grey", "B. red", "C. blue"],
    ]
    assert [text for _, text in asked(task)] == [
        " red", " blue", " grey", " blue", " grey", " red", " grey", " red", " blue",
    ]  # fmt: skip
    assert (instance.gold, instance.choices) == (1, ("red", "blue", "grey"))


def test_documents_have_as_many_rotations_as_choices(make_task: Make) -> None:
    task = styled(make_task([*ROWS, {**ROWS[0], "options": ["red"], "label": 0}], **CLOZE), "letters:rotated")
    assert [len(build(task, place).orders) for place in range(3)] == [3, 2, 1]
    assert [len(build(task, place).requests) for place in range(3)] == [9, 4, 1]


def test_rotations_of_generated_answers(make_task: Make) -> None:
    instance = build(styled(make_task(ROWS, **CLOZE), "generate:rotated"), 1)
    assert len(instance.requests) == 2
    assert [request.prompt.split("\n")[1] for request in instance.requests] == ["A. green", "A. pink"]  # type: ignore[union-attr]
    assert (instance.choices, instance.target) == (("A", "B"), 0)


# Scoring


def metrics(task: LmEvalTask) -> list[str]:
    return [spec.name for spec in task.scoring.metrics]


def test_scoring(make_task: Make) -> None:
    task = make_task(ROWS, **CLOZE, metric_list=[{"metric": "acc"}, {"metric": "brier_score"}])
    assert metrics(styled(task, "letters")) == ["acc", "brier_score"]
    assert metrics(styled(task, "generate")) == ["exact_match"]
    rotated = styled(task, "letters:rotated")
    assert metrics(rotated) == ["acc", "acc_norm", "rotation_agreement", "rotation_all", "rotation_vote"]
    assert rotated.scoring.scorer == "rotated_choice"
    assert styled(task, "generate:rotated").scoring.scorer == "rotated_answer"


def test_a_generating_task_with_choices_is_scored_as_a_choice(make_task: Make) -> None:
    task = make_task(ROWS, **{**CLOZE, "output_type": "generate_until", "metric_list": [{"metric": "exact_match"}]})
    assert metrics(styled(task, "letters")) == ["acc", "acc_norm"]


def test_the_card_has_the_style(make_task: Make) -> None:
    card = styled(make_task(ROWS, **CLOZE, task_alias="Toy"), "letters").card
    assert (card.name, card.alias, card.config["style"], card.kind) == (
        "toy@letters", "Toy@letters", "letters", "multiple_choice",
    )  # fmt: skip
    assert styled(make_task(ROWS, **CLOZE), "generate").card.kind == "generate_until"


# What no style fits


def test_a_task_without_choices(make_task: Make) -> None:
    task = make_task(ROWS, doc_to_text="q", doc_to_target="p")
    with pytest.raises(TaskFileError, match=r'"toy" has no choices \(doc_to_choice\)'):
        restyle(task.definition, find_style("letters"))


def test_one_prompt_per_choice(make_task: Make) -> None:
    rows = [{"options": ["Ann was late.", "Bob was late."], "label": 0, "end": "She ran."}]
    keys = {**CLOZE, "doc_to_text": "{{label}}", "doc_to_target": "end"}
    with pytest.raises(DataError, match=r"one prompt per choice.*key format:"):
        asked(styled(make_task(rows, **keys), "letters"))
    stated = {"question": "Who ran?", "choices": "options", "answer": "{{label}}"}
    assert asked(styled(make_task(rows, **keys, format=stated), "letters"))[0] == (
        "Who ran?\nA. Ann was late.\nB. Bob was late.\nAnswer:", " A",
    )  # fmt: skip


def test_examples_without_choices(make_task: Make) -> None:
    keys = {**CLOZE, "fewshot_split": "test", "num_fewshot": 1, "fewshot_config": {"doc_to_choice": None}}
    task = make_task(ROWS, **keys)
    with pytest.raises(DataError, match="few-shot examples have no choices"):
        asked(styled(task, "letters"))


def test_labels_without_a_list_say_where(make_task: Make) -> None:
    task = make_task(ROWS, **{**CLOZE, "doc_to_choice": ["A", "B"]})
    with pytest.raises(DataError, match=r"toy.yaml:\d+  doc_to_text: the choices are labels \(A, B\)"):
        asked(styled(task, "letters"))


# The key `format`


def test_a_file_of_the_parts_alone_is_a_cloze(make_task: Make) -> None:
    task = styled(make_task(ROWS, format=FORMAT), None)
    assert asked(task)[1] == ("Question: What colour is the sky?\nAnswer:", " blue")
    assert (task.card.name, task.card.kind, build(task).gold, metrics(task)) == (
        "toy", "multiple_choice", 1, ["acc", "acc_norm"],
    )  # fmt: skip


def test_every_part(make_task: Make) -> None:
    rows = [{**ROWS[0], "names": ["P", "Q", "R"], "label": "R"}]
    stated = {
        "kind": "multiple_choice", "question": "{{q}} Say it.", "choices": "{{options}}", "answer": "label",
        "context": "p", "labels": "names", "completes": False,
    }  # fmt: skip
    task = make_task(rows, format=stated)
    prompt = "Look up.\nWhat colour is the sky? Say it.\nP. red\nQ. blue\nR. grey\nAnswer:"
    assert asked(styled(task, "letters:own")) == [(prompt, " P"), (prompt, " Q"), (prompt, " R")]
    assert build(styled(task, "letters:own")).gold == 2


def test_a_sentence_to_be_completed(make_task: Make) -> None:
    task = make_task(ROWS, format={**FORMAT, "completes": True})
    assert asked(styled(task, None))[0] == ("What colour is the sky?", " red")


@pytest.mark.parametrize(("answer", "gold"), [("blue", 1), (2, 2), ("purple", -100), (3, -100), (-1, -100)])
def test_answers_by_text_and_place(make_task: Make, answer: Any, gold: int) -> None:
    assert build(styled(make_task([{**ROWS[0], "label": answer}], format=FORMAT), None)).gold == gold


def test_several_stated_answers(make_task: Make) -> None:
    assert build(styled(make_task([{**ROWS[0], "label": ["red", 2]}], format=FORMAT), None)).gold == (0, 2)


def test_stated_parts_and_own_templates(make_task: Make) -> None:
    task = make_task(ROWS, **CLOZE, format={**FORMAT, "question": "{{q}} (stated)"})
    assert asked(styled(task, None)) == asked(task)
    assert asked(styled(task, "cloze"))[0][0] == "Question: What colour is the sky? (stated)\nAnswer:"


def test_stated_examples(make_task: Make) -> None:
    task = make_task({"test": ROWS[:1], "train": ROWS[1:]}, format=FORMAT, fewshot_split="train", num_fewshot=1)
    expected = "Question: What colour is grass?\nAnswer: green\n\nQuestion: What colour is the sky?\nAnswer:"
    assert asked(styled(task, None))[0][0] == expected


def test_a_question_that_is_not_a_text(make_task: Make) -> None:
    with pytest.raises(DataError, match=r"format.question: gives 3 for a document"):
        build(styled(make_task([{**ROWS[0], "q": 3}], format=FORMAT), None))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"choices": "options", "answer": "label"}, "format.question: is missing; expected a column or a template"),
        ({"question": "q", "answer": "label"}, "format.choices: is missing"),
        ({"question": "q", "choices": "options"}, "format.answer: is missing"),
        ({**FORMAT, "kind": "cloze"}, "format.kind: is 'cloze' (str); expected one of multiple_choice, classification"),
        ({**FORMAT, "question": 3}, "format.question: is 3 (int); expected a column or a template"),
        ({**FORMAT, "choices": 3}, "format.choices: is 3"),
        ({**FORMAT, "answer": 1.5}, "format.answer: is 1.5"),
        ({**FORMAT, "context": ["p"]}, "format.context: is ['p']"),
        ({**FORMAT, "labels": 2}, "format.labels: is 2"),
        ({**FORMAT, "completes": "x"}, "format.completes: is 'x' (str); expected true or false"),
        ({**FORMAT, "quesion": "q"}, 'format.quesion: unknown key "quesion" (did you mean "question"?)'),
        ({**FORMAT, "question": "{{q"}, "format.question: template does not parse"),
        ("multiple_choice", "format: is 'multiple_choice' (str); expected a mapping"),
    ],
)
def test_faults_of_the_format(write_yaml: Write, names: KnownNames, stated: Any, message: str) -> None:
    data = {"task": "toy", "dataset_path": "memory", "test_split": "test", "format": stated}
    faults = list(map(str, task_faults(read_task_file(write_yaml("toy.yaml", data)), names)))
    assert any(message in fault for fault in faults), faults
    assert all("toy.yaml" in fault for fault in faults)


@pytest.mark.parametrize("key", ["question", "choices", "answer", "context", "labels"])
def test_a_misspelt_column_is_not_a_text(make_task: Make, key: str) -> None:
    task = make_task(ROWS, format={**FORMAT, key: "optoins"})
    with pytest.raises(DataError, match=rf'format.{key}: there is no column "optoins" \(did you mean "options"\?\)'):
        build(styled(task, None))


# Names: task@style


@pytest.fixture
def files(write_yaml: Write, tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}}, "test_split": "test"}
    write_yaml("one.yaml", {"task": "one", "tag": "some", **data, **CLOZE})
    write_yaml("two.yaml", {"task": "two", "tag": "some", **data, **CLOZE})
    write_yaml("free.yaml", {"task": "free", **data, "doc_to_text": "q", "doc_to_target": "p"})
    members: dict[str, Any] = {"group": "both", "group_alias": "Both", "task": ["one", "two"]}
    write_yaml("both.yaml", {**members, "aggregate_metric_list": [{"metric": "acc"}]})
    return tmp_path


@pytest.fixture
def select(files: Path, names: KnownNames) -> Callable[..., Selection]:
    def run(*wanted: Any, style: str | None = None) -> Selection:
        return select_tasks(wanted, Catalog([files]), TaskOptions(style=style), names)

    return run


def task_names(selection: Selection) -> list[str]:
    return [task.card.name for task in selection.tasks]


def test_task_and_style(select: Callable[..., Selection]) -> None:
    assert task_names(select("one@letters", "one", "one@own", "tw?@cloze")) == ["one@letters", "one", "two@cloze"]
    assert task_names(select("some@hybrid:rotated")) == ["one@hybrid:rotated", "two@hybrid:rotated"]


def test_the_style_of_a_run_and_of_a_task(select: Callable[..., Selection]) -> None:
    assert task_names(select("one", "two@own", "two@cloze", style="letters")) == ["one@letters", "two", "two@cloze"]


def test_a_group_in_a_style(select: Callable[..., Selection]) -> None:
    selection = select("both@letters", "both")
    assert task_names(selection) == ["one@letters", "two@letters", "one", "two"]
    styled_group, plain = selection.groups
    assert (styled_group.name, styled_group.alias) == ("both@letters", "Both@letters")
    assert styled_group.members == ("one@letters", "two@letters")
    assert plain.members == ("one", "two")
    assert [metric.metric for metric in styled_group.metrics] == ["acc"]


def test_paths_with_an_at_sign(select: Callable[..., Selection], files: Path, write_yaml: Write) -> None:
    (files / "a@b").mkdir()
    for name in ("one.yaml", "rows.jsonl"):
        (files / "a@b" / name).write_bytes((files / name).read_bytes())
    path = files / "a@b" / "one.yaml"
    mine = write_yaml("s@t/mine.yaml", {"prompt": "{{question}}", "answer": "{{choice}}"})
    assert task_names(select(str(path))) == ["one"]
    assert task_names(select(f"{path}@letters")) == ["one@letters"]
    assert task_names(select(str(files / "a@b" / "*.yaml"))) == ["one"]
    assert task_names(select(f"{path}@{mine}")) == [f"one@{mine}"]


def test_wrong_styles_of_names(select: Callable[..., Selection]) -> None:
    with pytest.raises(UserError, match=r'unknown style or profile "leters" \(did you mean "letters"\?\)'):
        select("one@leters")
    with pytest.raises(UserError, match=r'unknown style or profile ""'):
        select("one@")
    with pytest.raises(UserError, match=r'"free" has no choices'):
        select("free@letters")


def test_an_unknown_task_in_a_style(select: Callable[..., Selection]) -> None:
    with pytest.raises(UserError, match='"oen"'):
        select("oen@letters")


def test_a_task_in_python_has_no_style(select: Callable[..., Selection]) -> None:
    with pytest.raises(UserError, match=r'task toy_choice: is written in Python, so the style "letters"'):
        select(toy_choice_task(2), style="letters")
    assert task_names(select(toy_choice_task(2), style="own")) == ["toy_choice"]


def test_code_of_a_task_sees_its_own_rows(files: Path, write_yaml: Write) -> None:
    code = "def text(doc):\n    doc['q'] += '!'\n    return 'Question: ' + doc['q'] + chr(10) + 'Answer:'\n"
    (files / "own.py").write_text(code, encoding="utf-8")
    path = write_yaml(
        "coded.yaml",
        "task: coded\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        "output_type: multiple_choice\ndoc_to_text: !function own.text\ndoc_to_choice: options\ndoc_to_target: label\n",
    )
    spec = RunSpec("none", (str(path),), include_path=(str(files),), allow_code=True)
    (task,) = select_tasks([f"{path}@letters"], Catalog([files]), TaskOptions(), known_names(), code_loader(spec)).tasks
    assert isinstance(task, LmEvalTask)
    for _ in range(2):
        assert asked(task)[0][0].startswith("What colour is the sky?!\nA. red")
