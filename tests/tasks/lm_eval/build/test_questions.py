"""Formats of task files: stated by the key `format` or found in prompts, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, TaskFileError
from assay.core.formats import (
    LabelledText,
    MultipleChoice,
    Question,
    RatedText,
    SpanQuestion,
    TextToText,
    as_multiple_choice,
)
from assay.core.requests import Generation, Instance, Loglikelihood
from assay.core.specs import TaskOptions
from assay.tasks.lm_eval.file.schema import KnownNames, column_faults, task_faults
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.style_variants import in_style, restyle
from assay.tasks.python import Choose, Write, task
from assay.tasks.styles import find_style

Make = Callable[..., LmEvalTask]

PAIRS = [
    {"p": "It rains.", "h": "It is wet.", "label": 0, "yes": True},
    {"p": "It is dry.", "h": "It rains.", "label": 1, "yes": False},
]
CLASSES = {"kind": "classification", "text": "p", "pair": "h", "labels": ["true", "false"], "answer": "label"}
SQUAD = [
    {"c": "Ann has a red cat.", "q": "Who?", "a": {"text": ["Ann", "a"], "answer_start": [0, 8]}},
    {"c": "It snows.", "q": "When?", "a": {"text": [], "answer_start": []}},
]
SPAN = {"kind": "span_qa", "question": "q", "context": "c", "answers": "a"}
REWRITES = [{"de": "Hund", "en": ["dog", "hound"]}, {"de": "Katze", "en": ["cat"]}]
REWRITE = {"kind": "text_to_text", "source": "{{de}} =", "target": "en"}
FIXED = {"output_type": "multiple_choice", "doc_to_target": "label", "doc_to_choice": ["true", "false"]}


def asked(made: LmEvalTask, options: TaskOptions | None = None) -> LmEvalTask:
    """A task with the requests of language models."""
    return LmEvalTask(in_style(made.definition, None), options or made.options, made._source)


def build(made: LmEvalTask, place: int = 0) -> Instance:
    return made.build(made.documents()[place])


def question(made: LmEvalTask, place: int = 0) -> Question | None:
    return made.question(made.documents()[place])


# Stated


def test_classes_are_read(make_task: Make) -> None:
    made = make_task(PAIRS, format=CLASSES)
    assert question(made) == LabelledText("It rains.", ("true", "false"), 0, "It is wet.")
    assert question(make_task(PAIRS, format={**CLASSES, "pair": None}), 1) == LabelledText(
        "It is dry.", ("true", "false"), 1
    )


@pytest.mark.parametrize(
    ("answer", "place"),
    [("{{'false'}}", 1), ("{{label}}", 0), ("yes", 1), ("{{7}}", -100), ("{{'maybe'}}", -100), ("{{[0, 1]}}", (0, 1))],
)
def test_a_class_is_named_or_placed(make_task: Make, answer: str, place: Any) -> None:
    found = question(make_task(PAIRS, format={**CLASSES, "answer": answer}))
    assert isinstance(found, LabelledText)
    assert found.answer == place


def test_a_class_named_like_a_boolean_is_meant_by_it(make_task: Make) -> None:
    found = question(make_task(PAIRS, format={**CLASSES, "answer": "yes", "labels": ["True", "False"]}))
    assert isinstance(found, LabelledText)
    assert found.answer == 0


def test_spans_are_read(make_task: Make) -> None:
    made = make_task(SQUAD, format={**SPAN, "may_lack": True})
    assert question(made) == SpanQuestion("Who?", "Ann has a red cat.", ("Ann", "a"), (0, 8), may_lack=True)
    assert question(made, 1) == SpanQuestion("When?", "It snows.", (), (), may_lack=True)


@pytest.mark.parametrize(
    ("answers", "starts", "texts", "places"),
    [
        ("{{a.text}}", None, ("Ann", "a"), ()),
        ("{{a.text[0]}}", None, ("Ann",), ()),
        ("{{a.text[0]}}", "{{a.answer_start[0]}}", ("Ann",), (0,)),
        ("{{a.text}}", "{{a.answer_start}}", ("Ann", "a"), (0, 8)),
    ],
)
def test_answers_of_spans(make_task: Make, answers: str, starts: Any, texts: Any, places: Any) -> None:
    found = question(make_task(SQUAD, format={**SPAN, "answers": answers, "starts": starts}))
    assert found == SpanQuestion("Who?", "Ann has a red cat.", texts, places)


def test_texts_to_texts_are_read(make_task: Make) -> None:
    assert question(make_task(REWRITES, format=REWRITE)) == TextToText("Hund =", ("dog", "hound"))
    single = {**REWRITE, "target": "{{en[0]}}"}
    assert question(make_task(REWRITES, format=single)) == TextToText("Hund =", ("dog",))


@pytest.mark.parametrize(
    ("rows", "stated", "message"),
    [
        (PAIRS, {**CLASSES, "text": "premise"}, r'format.text: there is no column "premise"'),
        (SQUAD, {**SPAN, "answers": "{{a.answer_start[1:]}}"}, r"format.answers: gives \[8\].*text, a list of texts"),
        (SQUAD, {**SPAN, "starts": "{{[1]}}"}, r"format.starts: gives \[1\] for a document; expected 2 whole numbers"),
        (REWRITES, {**REWRITE, "source": "en"}, r"format.source: gives \['dog', 'hound'\] for a document"),
    ],
)
def test_what_cannot_be_read_is_reported(make_task: Make, rows: Any, stated: Any, message: str) -> None:
    made = asked(make_task(rows, format=stated))
    with pytest.raises(DataError, match=message):
        build(made)


# Faults of files


def faults(write: Callable[..., Path], names: KnownNames, **keys: Any) -> list[str]:
    data = {"task": "toy", "dataset_path": "memory", "test_split": "test", **keys}
    return list(map(str, task_faults(read_task_file(write("toy.yaml", data)), names)))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({**CLASSES, "kind": "clasification"}, "is 'clasification' (str) (did you mean \"classification\""),
        ({**CLASSES, "labels": "label"}, "toy.yaml:8  format.labels: is 'label' (str); expected a list of two or more"),
        ({**CLASSES, "labels": ["a", "a"]}, "expected a list of two or more different names"),
        ({**CLASSES, "text": None}, "format.text: is missing"),
        ({**CLASSES, "choices": "x"}, 'format.choices: unknown key "choices"'),
        ({**SPAN, "context": None}, "format.context: is missing"),
        ({**SPAN, "may_lack": "no"}, "format.may_lack: is 'no' (str); expected true or false"),
        ({**SPAN, "question": "{{q"}, "format.question: template does not parse"),
        ({**REWRITE, "target": 3}, "format.target: is 3 (int); expected a column, a template or a list"),
        ({"kind": "generation", "question": "q"}, 'format.question: unknown key "question"'),
    ],
)
def test_faults(write_yaml: Callable[..., Path], names: KnownNames, stated: Any, message: str) -> None:
    found = faults(write_yaml, names, format=stated)
    assert any(message in fault for fault in found), found


@pytest.mark.parametrize("stated", [CLASSES, SPAN, REWRITE])
def test_a_format_alone_is_a_whole_task(write_yaml: Callable[..., Path], names: KnownNames, stated: Any) -> None:
    assert faults(write_yaml, names, format=stated) == []


@pytest.mark.parametrize(
    ("kind", "output_type", "is_right"),
    [
        ("ranked_classification", "multiple_choice", True),
        ("ranked_classification", "loglikelihood", True),
        ("ranked_classification", "generate_until", False),
        ("ranked_classification", None, False),
        ("generation", "generate_until", True),
        ("generation", None, True),
        ("generation", "loglikelihood", False),
        ("perplexity", "loglikelihood_rolling", True),
        ("perplexity", "generate_until", False),
    ],
)
def test_a_kind_that_only_names_prompts_must_fit_them(
    write_yaml: Callable[..., Path], names: KnownNames, kind: str, output_type: str | None, is_right: bool
) -> None:
    keys = {"doc_to_text": "p", "doc_to_target": "h", "doc_to_choice": ["x", "y"], "format": {"kind": kind}}
    given = {} if output_type is None else {"output_type": output_type}
    found = faults(write_yaml, names, **keys, **given)
    assert (found == []) == is_right, found
    assert is_right or f"format.kind: is {kind}, and the file's output_type is" in found[0]


def test_a_format_without_prompts_must_fit_the_output_type(write_yaml: Callable[..., Path], names: KnownNames) -> None:
    (found,) = faults(write_yaml, names, format=SPAN, output_type="multiple_choice")
    assert "format.kind: is span_qa, and the file's output_type is 'multiple_choice'" in found


def test_columns_of_a_format_are_checked(write_yaml: Callable[..., Path]) -> None:
    data = {"task": "toy", "format": {**SPAN, "answers": "{{ans.text}}"}}
    (fault,) = column_faults(read_task_file(write_yaml("toy.yaml", data)), ["q", "c", "a"])
    assert "format.answers: 'ans' is not a column" in str(fault)


# What language models are asked


def test_classes_are_ranked(make_task: Make) -> None:
    instance = build(asked(make_task(PAIRS, format=CLASSES)))
    prompt = "It rains.\nIt is wet.\nAnswer:"
    assert instance.requests == (Loglikelihood(prompt, " true"), Loglikelihood(prompt, " false"))
    assert (instance.gold, instance.choices) == (0, ("true", "false"))
    single = build(asked(make_task(PAIRS, format={**CLASSES, "pair": None})))
    assert single.requests[0] == Loglikelihood("It rains.\nAnswer:", " true")


def test_classes_take_styles(make_task: Make) -> None:
    made = make_task(PAIRS, format=CLASSES)
    letters = LmEvalTask(restyle(made.definition, find_style("letters")), made.options, made._source)
    prompt = "It rains.\nIt is wet.\nA. true\nB. false\nAnswer:"
    assert build(letters).requests == (Loglikelihood(prompt, " A"), Loglikelihood(prompt, " B"))
    assert question(letters) == question(made)


def test_spans_are_written(make_task: Make) -> None:
    made = asked(make_task(SQUAD, format=SPAN))
    instance = build(made)
    (request,) = instance.requests
    assert isinstance(request, Generation)
    assert request.prompt == "Ann has a red cat.\n\nQuestion: Who?\nAnswer:"
    assert (request.stop, request.max_tokens, request.sampling.is_greedy) == (("\n",), 50, True)
    assert instance.gold == ("Ann", "a")
    assert [(spec.name, dict(spec.options)) for spec in made.scoring.metrics] == [("squad_em", {}), ("squad_f1", {})]


def test_prompts_of_spans_that_may_be_missing_say_so(make_task: Make) -> None:
    made = asked(make_task(SQUAD, format={**SPAN, "may_lack": True}))
    (request,) = build(made, 1).requests
    message = 'If the text does not answer the question, say "unanswerable".'
    assert request.prompt == f"It snows.\n\nQuestion: When?\n{message}\nAnswer:"  # type: ignore[union-attr]
    assert build(made, 1).gold == ()
    assert made.scoring.metrics[0].options == {"no_answer": "unanswerable"}


def test_examples_of_spans_show_an_answer(make_task: Make) -> None:
    rows = {"test": SQUAD[:1], "train": SQUAD[1:]}
    made = make_task(rows, format={**SPAN, "may_lack": True}, training_split="train")
    (request,) = build(asked(made, TaskOptions(num_fewshot=1))).requests
    assert "Answer: unanswerable\n\nAnn has" in request.prompt  # type: ignore[union-attr, operator]
    with pytest.raises(DataError, match="a few-shot example: has no right answer"):
        build(asked(make_task(rows, format=SPAN, training_split="train"), TaskOptions(num_fewshot=1)))


def test_texts_to_texts_are_written(make_task: Make) -> None:
    made = asked(make_task({"test": REWRITES[:1], "train": REWRITES[1:]}, format=REWRITE, training_split="train"))
    (request,) = build(made).requests
    assert isinstance(request, Generation)
    assert (request.prompt, request.stop, request.max_tokens) == ("Hund =", ("\n\n",), 256)
    assert build(made).gold == ("dog", "hound")
    assert [spec.name for spec in made.scoring.metrics] == ["exact_match"]
    (shown,) = build(asked(made, TaskOptions(num_fewshot=1))).requests
    assert shown.prompt == "Katze = cat\n\nHund ="  # type: ignore[union-attr]


RATED = {"kind": "rating", "text": "one", "pair": "two", "answer": "score"}


def test_ratings_are_written(make_task: Make) -> None:
    made = asked(make_task([{"one": "A cat.", "two": "A dog.", "score": 2.5}], format=RATED))
    instance = build(made)
    (request,) = instance.requests
    assert isinstance(request, Generation)
    assert (request.prompt, request.stop, request.max_tokens) == ("A cat.\nA dog.\nAnswer:", ("\n",), 16)
    assert [spec.name for spec in made.scoring.metrics] == ["pearson", "spearman"]
    assert made.question(made.documents()[0]) == RatedText("A cat.", 2.5, "A dog.")


def test_a_rating_is_a_number(make_task: Make) -> None:
    made = asked(make_task([{"one": "A cat.", "two": "A dog.", "score": "high"}], format=RATED))
    with pytest.raises(DataError, match="format.answer: gives 'high' for a document; expected a number"):
        build(made)


def test_what_a_file_says_of_generation_and_metrics_stays(make_task: Make) -> None:
    keys = {"metric_list": [{"metric": "exact_match"}], "generation_kwargs": {"until": ["."], "max_gen_toks": 3}}
    made = asked(make_task(SQUAD, format=SPAN, **keys))
    (request,) = build(made).requests
    assert (request.stop, request.max_tokens) == ((".",), 3)  # type: ignore[union-attr]
    assert [spec.name for spec in made.scoring.metrics] == ["exact_match"]


@pytest.mark.parametrize(("rows", "stated"), [(SQUAD, SPAN), (REWRITES, REWRITE)])
def test_no_style_fits_what_is_written(make_task: Make, rows: Any, stated: Any) -> None:
    with pytest.raises(TaskFileError, match=f"is of the format {stated['kind']}, so no prompt style fits it"):
        restyle(make_task(rows, format=stated).definition, find_style("letters"))


def test_prompts_of_its_own_come_before_the_format(make_task: Make) -> None:
    made = asked(make_task(SQUAD, format=SPAN, doc_to_text="{{q}}", doc_to_target="{{a.text[0]}}"))
    assert build(made).requests[0].prompt == "Who?"  # type: ignore[union-attr]
    assert isinstance(question(made), SpanQuestion)


# Found in prompts


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"doc_to_text": "{{p}}\nQuestion: {{h}}\nAnswer:"},
            LabelledText("It rains.", ("true", "false"), 0, "It is wet."),
        ),
        ({"doc_to_text": "{{p}}\nQuestion: Is it so?\nAnswer:"}, LabelledText("It rains.", ("true", "false"), 0)),
        ({"doc_to_text": "Text: {{p}}\nLabel:"}, LabelledText("Text: It rains.\nLabel:", ("true", "false"), 0)),
        (
            {"doc_to_text": "Sentence 1: {{p}}\nSentence 2: {{h}}\nQuestion: The same?\nAnswer:"},
            LabelledText("It rains.", ("true", "false"), 0, "It is wet."),
        ),
        (
            {"doc_to_text": "{{p}}\nOptions:\n- true\n- false\nAnswer:"},
            LabelledText("It rains.", ("true", "false"), 0),
        ),
        (
            {"doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": {"a": "true", "b": "false"}},
            LabelledText("It rains.", ("true", "false"), 0),
        ),
        (
            {"doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": "{{['true', 'false']}}"},
            LabelledText("It rains.", ("true", "false"), 0),
        ),
        (
            {"doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": [" true", " false"], "target_delimiter": ""},
            LabelledText("It rains.", ("true", "false"), 0),
        ),
        (
            {"doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": ["1", "2"]},
            LabelledText("It rains.", ("1", "2"), 0),
        ),
        (
            {"doc_to_text": "{{p}}\nA. wet\nB. dry\nAnswer:", "doc_to_choice": ["A", "B"]},
            MultipleChoice("It rains.", ("wet", "dry"), 0, headed=False),
        ),
        (
            {"doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": "{{[p, h]}}"},
            MultipleChoice("It rains.", ("It rains.", "It is wet."), 0, headed=False),
        ),
    ],
)  # fmt: skip
def test_choices_of_all_documents_are_classes(make_task: Make, keys: Mapping[str, Any], expected: Question) -> None:
    assert question(make_task(PAIRS, **{**FIXED, **keys})) == expected


def test_letters_without_a_list_have_no_format(make_task: Make) -> None:
    made = make_task(PAIRS, **{**FIXED, "doc_to_text": "{{p}}\nAnswer:", "doc_to_choice": ["A", "B"]})
    assert question(made) is None


@pytest.mark.parametrize(
    ("options", "end", "expected"),
    [
        (["So Ann", "So Anna"], "ran.", MultipleChoice("So", ("Ann ran.", "Anna ran."), 1, completes=True)),
        (["The cat", "The dog"], "ran.", MultipleChoice("The", ("cat ran.", "dog ran."), 1, completes=True)),
        (["Cats", "Dogs"], "ran.", MultipleChoice("", ("Cats ran.", "Dogs ran."), 1, completes=True)),
    ],
)
def test_one_prompt_per_choice(make_task: Make, options: list[str], end: str, expected: Question) -> None:
    rows = [{"options": options, "label": 1, "end": end}]
    keys = {"doc_to_text": "{{label}}", "doc_to_target": "end", "doc_to_choice": "options"}
    assert question(make_task(rows, output_type="multiple_choice", **keys)) == expected


def test_a_task_without_choices_has_no_format(make_task: Make) -> None:
    assert question(make_task(PAIRS, doc_to_text="p", doc_to_target="h")) is None


def test_classes_become_choices() -> None:
    pair = LabelledText("It rains.", ("true", "false"), 0, "It is wet.")
    assert as_multiple_choice(pair) == MultipleChoice("It is wet.", ("true", "false"), 0, "It rains.", headed=False)
    single = LabelledText("It rains.", ("true", "false"), (0, 1))
    assert as_multiple_choice(single) == MultipleChoice("It rains.", ("true", "false"), (0, 1), headed=False)
    assert as_multiple_choice(TextToText("a", ("b",))) is None


# Python


def test_python_tasks_have_formats() -> None:
    @task("toy", rows=[{"n": 1}, {"n": 2}])
    def choose(row: Mapping[str, Any]) -> Choose:
        return Choose(f"Question: {row['n']}?\nAnswer:", [f"{row['n']}", "x"], 0)

    @task("same", rows=[{"n": 1}, {"n": 2}])
    def same(row: Mapping[str, Any]) -> Choose:
        return Choose(f"Is {row['n']} odd?\nAnswer:", ["yes", "no"], 1 - row["n"] % 2)

    @task("write", rows=[{"n": 1}])
    def write(row: Mapping[str, Any]) -> Write:
        return Write("Say.", "x")

    assert choose.question(choose.documents()[1]) == MultipleChoice("2?", ("2", "x"), 0)
    assert same.question(same.documents()[1]) == LabelledText("Is 2 odd?", ("yes", "no"), 1)
    assert write.question(write.documents()[0]) is None


# T5


def in_t5(made: LmEvalTask) -> LmEvalTask:
    return LmEvalTask(restyle(made.definition, find_style("t5")), made.options, made._source)


def test_t5_names_the_columns_of_classes(make_task: Make) -> None:
    made = in_t5(make_task(PAIRS, format={**CLASSES, "pair": "{{h}}"}))
    prompt = "toy p: It rains. h: It is wet."
    assert build(made).requests == (Loglikelihood(prompt, "\ntrue"), Loglikelihood(prompt, "\nfalse"))
    assert made.definition.name == "toy@t5"


def test_t5_names_parts_that_no_column_holds(make_task: Make) -> None:
    made = in_t5(make_task(PAIRS, format={**CLASSES, "pair": "So {{h}}"}))
    assert build(made).requests[0].prompt == "toy p: It rains. pair: So It is wet."  # type: ignore[union-attr]


def test_t5_lists_choices(make_task: Make) -> None:
    keys = {**FIXED, "doc_to_text": "{{h}}\nQuestion: {{p}}\nAnswer:", "doc_to_choice": "{{[p, h]}}"}
    (first, _) = build(in_t5(make_task(PAIRS, **keys))).requests
    prompt = "toy h: It is wet. p: It rains. choice1: It rains. choice2: It is wet."
    assert first == Loglikelihood(prompt, "\nIt rains.")


def test_t5_parts_inputs_from_answers(make_task: Make) -> None:
    shots = TaskOptions(num_fewshot=1, like="lm-eval")  # the example is the document itself
    keys = {**FIXED, "doc_to_text": "{{h}}\nQuestion: {{p}}\nAnswer:", "doc_to_choice": "{{[p, h]}}"}
    sampler = {"sampler": "first_n"}
    listed = build(
        in_t5(make_task({"test": PAIRS, "train": PAIRS}, shots, **keys, training_split="train", fewshot_config=sampler))
    )
    assert "choice2: It is wet.\nIt " in listed.requests[0].prompt  # type: ignore[union-attr, operator]
    spans = build(
        in_t5(
            make_task(
                {"test": SQUAD, "train": SQUAD}, shots, format=SPAN, training_split="train", fewshot_config=sampler
            )
        )
    )
    shown = "question: Who? context: Ann has a red cat. Ann\n\nquestion: Who? context: Ann has a red cat."
    assert spans.requests[0].prompt == shown  # type: ignore[union-attr]


def test_t5_renders_spans(make_task: Make) -> None:
    made = in_t5(make_task(SQUAD, format=SPAN))
    (request,) = build(made).requests
    assert request.prompt == "question: Who? context: Ann has a red cat."  # type: ignore[union-attr]
    assert (made.definition.name, made.card.config["style"]) == ("toy@t5", "t5")
    assert [spec.name for spec in made.scoring.metrics] == ["squad_em", "squad_f1"]
    with pytest.raises(TaskFileError, match="is of the format text_to_text, so no prompt style fits it"):
        in_t5(make_task(REWRITES, format=REWRITE))
