"""docs/style-gallery.md: every style of every format with no examples and with two, rendered for a person to read.

The page is generated from rows written for it. After a change of prompts, regenerate it and read the diff:

    python tests/docs/test_style_gallery.py
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay import UserError
from assay.api import show_document
from assay.core.requests import Generation, Instance, Loglikelihood, Request, RollingLoglikelihood, untruncated_prompt
from assay.tasks.lm_eval.file.format_key import FORMATS
from assay.tasks.styles import OWN, STYLES

PAGE = Path(__file__).parents[2] / "docs" / "style-gallery.md"
COUNTS = (0, 2)


@dataclass(frozen=True)
class Case:
    """A task of the gallery.

    Attributes:
        name: the task's name.
        title: what it is an example of.
        format: the kind of format that it is an instance of.
        keys: keys of its file.
        rows: the document, then the two examples.
        styles: styles in which it is shown.
        prompts: a PromptSource file, if the task uses one.
    """

    name: str
    title: str
    format: str
    keys: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    styles: Sequence[str] = (OWN, *STYLES)
    prompts: str = ""


BIRDS = [
    {"q": "Which bird cannot fly?", "options": ["a swan", "a penguin", "a robin"], "label": 1, "key": ["P", "Q", "R"]},
    {"q": "Which of these is a fruit?", "options": ["a leek", "a pear"], "label": 1, "key": ["P", "Q"]},
    {"q": "What do bees make?", "options": ["honey", "silk", "wool"], "label": 0, "key": ["P", "Q", "R"]},
]
HARBOUR = [
    {
        "story": "The ferry left at noon. Ida missed it.",
        "q": "Who missed the ferry?",
        "options": ["Ida", "Tom"],
        "label": 0,
    },
    {
        "story": "Tom sold his boat. He kept the oars.",
        "q": "What did Tom keep?",
        "options": ["the boat", "the oars"],
        "label": 1,
    },
    {
        "story": "It rained for days. The pier was closed.",
        "q": "What was closed?",
        "options": ["the pier", "the shop"],
        "label": 0,
    },
]
ENDINGS = [
    {"ctx": "She opened the umbrella because it", "endings": ["had begun to rain.", "was made of bread."], "label": 0},
    {"ctx": "He put the kettle on and", "endings": ["ate the stove.", "waited for it to boil."], "label": 1},
    {"ctx": "The dog saw the cat and", "endings": ["barked.", "read the paper."], "label": 0},
]
REVIEWS = [
    {"review": "A warm and funny film.", "liked": 1},
    {"review": "I left after an hour.", "liked": 0},
    {"review": "The songs alone are worth it.", "liked": 1},
]
PAIRS = [
    {"premise": "Ann sold the car.", "hypothesis": "Ann has the car.", "label": 1},
    {"premise": "It snowed all night.", "hypothesis": "It was cold.", "label": 0},
    {"premise": "Ben lost his key.", "hypothesis": "Ben has two keys.", "label": 1},
]
SPANS = [
    {
        "title": "Well",
        "text": "The well was dug in 1804 by two brothers.",
        "q": "When was the well dug?",
        "found": ["1804"],
    },
    {"title": "Mill", "text": "The mill grinds rye and oats.", "q": "Who owns the mill?", "found": []},
    {"title": "Lamp", "text": "The lamp was lit by Mary Ross.", "q": "Who lit the lamp?", "found": ["Mary Ross"]},
]
SUMS = [
    {"q": "Ida has 3 pens and buys 4. How many has she?", "a": "3 + 4 = 7. The answer is 7."},
    {"q": "A box holds 6 eggs. How many do 2 boxes hold?", "a": "2 x 6 = 12. The answer is 12."},
    {"q": "Tom eats 2 of 5 figs. How many are left?", "a": "5 - 2 = 3. The answer is 3."},
]
RATED = [
    {"one": "A girl sings.", "other": "A girl is singing.", "score": 4.8},
    {"one": "It rains.", "other": "A dog sleeps.", "score": 0.0},
    {"one": "Two men talk.", "other": "Two people are talking.", "score": 4.2},
]
PLURALS = [
    {"one": "one goose", "many": "two geese"},
    {"one": "one ox", "many": "two oxen"},
    {"one": "one bee", "many": "two bees"},
]
GAPS = [
    {"start": "The jug fell off the table because ", "who": ["it", "the cat"], "rest": "was pushed.", "label": 0},
    {"start": "Ann thanked Eve because ", "who": ["Ann", "Eve"], "rest": "had helped.", "label": 1},
    {"start": "The soup was cold, so ", "who": ["the cook", "the spoon"], "rest": "heated it.", "label": 0},
]

CHOICE = {"output_type": "multiple_choice", "doc_to_target": "label"}
LIST = "{% for o in options %}{{'ABC'[loop.index0]}}. {{o}}\n{% endfor %}"
TEMPLATES = """dataset: birds
templates:
  1: !Template
    answer_choices: '{{options | join("|||")}}'
    id: 1
    jinja: "{{q}} Choose from: {{answer_choices | join(', ')}}. ||| {{answer_choices[label]}}"
    metadata: !TemplateMetadata {original_task: true}
    name: choose from
    reference: ''
  2: !Template
    answer_choices: null
    id: 2
    jinja: "{{q}} ||| {{options[label]}}"
    metadata: !TemplateMetadata {original_task: true}
    name: write it
    reference: ''
"""

CASES = (
    Case(
        "science",
        "A question whose choices are not listed (as ARC)",
        "multiple_choice",
        {**CHOICE, "doc_to_text": "Question: {{q}}\nAnswer:", "doc_to_choice": "options"},
        BIRDS,
    ),
    Case(
        "exam",
        "A question with listed choices and a description (as MMLU)",
        "multiple_choice",
        {
            **CHOICE,
            "description": "The following are questions (with answers) about nature.\n\n",
            "doc_to_text": "{{q}}\n" + LIST + "Answer:",
            "doc_to_choice": "{{['A', 'B', 'C'][:options|length]}}",
        },
        BIRDS,
    ),
    Case(
        "quiz",
        'A question with choices listed after "Question:" (as CommonsenseQA)',
        "multiple_choice",
        {
            **CHOICE,
            "doc_to_text": "Question: {{q}}\n" + LIST + "Answer:",
            "doc_to_choice": "{{['A', 'B', 'C'][:options|length]}}",
        },
        BIRDS,
    ),
    Case(
        "reading",
        "A question about a passage (as RACE)",
        "multiple_choice",
        {**CHOICE, "doc_to_text": "{{story}}\nQuestion: {{q}}\nAnswer:", "doc_to_choice": "options"},
        HARBOUR,
    ),
    Case(
        "endings",
        "A text that the choices complete (as HellaSwag)",
        "multiple_choice",
        {**CHOICE, "doc_to_text": "ctx", "doc_to_choice": "endings"},
        ENDINGS,
    ),
    Case(
        "stated",
        "A question with choices, stated as a format only",
        "multiple_choice",
        {"format": {"question": "q", "choices": "options", "answer": "label", "labels": "key"}},
        BIRDS,
        (OWN, *STYLES, "letters:own", "letters:lower", "letters:numbers", "letters:rotated"),
    ),
    Case(
        "stated_reading",
        "A question about a passage, stated as a format only",
        "multiple_choice",
        {"format": {"question": "q", "choices": "options", "answer": "label", "context": "story"}},
        HARBOUR,
    ),
    Case(
        "gaps",
        "One prompt per choice (as WinoGrande): no style applies",
        "ranked_classification",
        {
            "output_type": "multiple_choice",
            "doc_to_text": "label",
            "doc_to_choice": "{{[start + who[0], start + who[1]]}}",
            "doc_to_target": "rest",
            "format": {"kind": "ranked_classification"},
        },
        GAPS,
        (OWN,),
    ),
    Case(
        "reviews",
        "A text classified by a prompt (as SST-2)",
        "ranked_classification",
        {
            "output_type": "multiple_choice",
            "doc_to_text": "{{review}}\nQuestion: Is this review negative or positive?\nAnswer:",
            "doc_to_choice": ["negative", "positive"],
            "doc_to_target": "liked",
            "format": {"kind": "ranked_classification"},
        },
        REVIEWS,
    ),
    Case(
        "stated_reviews",
        "A text with classes, stated as a format only",
        "classification",
        {"format": {"kind": "classification", "text": "review", "labels": ["negative", "positive"], "answer": "liked"}},
        REVIEWS,
    ),
    Case(
        "stated_pairs",
        "A pair of texts with classes, stated as a format only (as RTE)",
        "classification",
        {
            "format": {
                "kind": "classification",
                "text": "premise",
                "pair": "hypothesis",
                "labels": ["true", "false"],
                "answer": "label",
            }
        },
        PAIRS,
    ),
    Case(
        "spans",
        "An extractive question, answerable or not (as SQuAD 2.0)",
        "span_qa",
        {"format": {"kind": "span_qa", "question": "q", "context": "text", "answers": "found", "may_lack": True}},
        SPANS,
        (OWN, "t5"),
    ),
    Case(
        "plurals",
        "A text to transform into another",
        "text_to_text",
        {"format": {"kind": "text_to_text", "source": "{{one}} =>", "target": "many"}},
        PLURALS,
        (OWN,),
    ),
    Case(
        "likeness",
        "A pair of texts and its number (as STS-B)",
        "rating",
        {"format": {"kind": "rating", "text": "one", "pair": "other", "answer": "score"}},
        RATED,
        (OWN,),
    ),
    Case(
        "sums",
        "A generated answer (as GSM8K)",
        "generation",
        {
            "output_type": "generate_until",
            "doc_to_text": "Question: {{q}}\nAnswer:",
            "doc_to_target": "a",
            "generation_kwargs": {"until": ["Question:"], "max_gen_toks": 64},
            "format": {"kind": "generation"},
        },
        SUMS,
        (OWN,),
    ),
    Case(
        "texts",
        "A whole text (as WikiText)",
        "perplexity",
        {
            "output_type": "loglikelihood_rolling",
            "doc_to_text": "",
            "doc_to_target": "text",
            "format": {"kind": "perplexity"},
        },
        SPANS,
        (OWN,),
    ),
    Case(
        "sourced",
        "PromptSource's templates",
        "multiple_choice",
        {**CHOICE, "doc_to_text": "Question: {{q}}\nAnswer:", "doc_to_choice": "options"},
        BIRDS,
        ("choose_from", "write_it"),
        TEMPLATES,
    ),
)


OPENING = """# Gallery of prompt styles

<!-- Made by tests/docs/test_style_gallery.py, which fails where this page differs: regenerate it with
     python tests/docs/test_style_gallery.py -->

How each [style](styles.md) renders each [format](formats.md), zero-shot and with two examples, as the model reads it.
See the same for a task of yours with `assay show TASK@STYLE --num_fewshot 2`.

`⏎` is a newline. `·` is a space at the beginning or end of a line or answer, or one of several in a row. Below each
prompt are the answers scored after it, the right one in bold, or, for generated answers, where generation stops and
which answer is right. `own` is the prompt of the task's file. The rows were written for this page.
"""


# Tasks


@cache
def built(name: str, style: str, count: int, place: int = 0) -> Instance:
    """A row of a case, built: the document, or one of its examples in the document's place."""
    case = next(case for case in CASES if case.name == name)
    rows = [case.rows[place], *case.rows[1:]]
    with tempfile.TemporaryDirectory() as folder:
        path = write(case, rows, Path(folder))
        prompts = {"prompts": str(path.parent / "templates.yaml")} if case.prompts else {}
        wanted = str(path) if style == OWN else f"{path}@{style}"
        (shown,) = show_document(wanted, num_fewshot=count, **prompts)  # type: ignore[arg-type]
    return shown.instance


def write(case: Case, rows: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    for split, members in (("test", rows[:1]), ("train", rows[1:])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in members), encoding="utf-8")
    source = {
        "task": case.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {split: f"{split}.jsonl" for split in ("test", "train")}},
        "test_split": "test",
        "training_split": "train",
        "fewshot_config": {"sampler": "first_n"},
    }
    (folder / "templates.yaml").write_text(case.prompts, encoding="utf-8")
    path = folder / f"{case.name}.yaml"
    path.write_text(yaml.safe_dump({**source, **case.keys}, sort_keys=False), encoding="utf-8")
    return path


def text_of(request: Request) -> str:
    assert isinstance(request, (Loglikelihood, Generation))
    found = untruncated_prompt(request.prompt)
    assert isinstance(found, str)
    return found


# The page


def page() -> str:
    return "\n".join([OPENING, *(line for case in CASES for line in _section(case))]) + "\n"


def _section(case: Case) -> Iterator[str]:
    yield f"## {case.title}"
    yield ""
    yield f"Format `{case.format}`."
    yield ""
    known: dict[tuple[str, ...], str] = {}
    for style in case.styles:
        lines = tuple(_blocks(case, style))
        same = known.setdefault(lines, style)
        yield f"### `{case.name}@{style}`"
        yield ""
        yield from lines if same == style else (f"The same as `{case.name}@{same}`.", "")


def _blocks(case: Case, style: str) -> Iterator[str]:
    alone, shown = (tuple(_block(built(case.name, style, count))) for count in COUNTS)
    yield from ("No examples:", "", *alone, "", "Two examples:", "")
    yield from (*shown, "") if shown != alone else ("The same: whole texts are scored without examples.", "")


def _block(instance: Instance) -> Iterator[str]:
    prompts: dict[str, list[str]] = {}
    for place, request in enumerate(instance.requests):
        if isinstance(request, RollingLoglikelihood):
            yield from ("```", visible(request.text), "```")
        else:
            prompts.setdefault(text_of(request), []).append(_answer(instance, request, place))
    for prompt, answers in prompts.items():
        yield from ("```", visible(prompt), "```", " ".join(answers))


def _answer(instance: Instance, request: Request, place: int) -> str:
    if isinstance(request, Generation):
        stops = " or ".join(f"`{inline(stop)}`" for stop in request.stop)
        right = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
        shown = " or ".join(f"**`{inline(text)}`**" for text in right) or "**nothing**"
        return f"generated, up to {stops}, at most {request.max_tokens} tokens; right: {shown}"
    assert isinstance(request, Loglikelihood)
    order = instance.orders[place // len(instance.choices)] if instance.orders else range(len(instance.choices))
    is_right = order[place % len(order)] == instance.gold
    text = f"`{inline(request.continuation)}`"
    return f"**{text}**" if is_right else text


def visible(text: str) -> str:
    """The text with visible newlines, and visible spaces where they are easy to overlook."""
    return inline(text).replace("⏎", "⏎\n")


def inline(text: str) -> str:
    lines = [re.sub(r"^ +| +$|  +", lambda found: "·" * len(found[0]), line) for line in text.split("\n")]
    return "⏎".join(lines)


# Tests


def test_the_page_shows_the_prompts() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python tests/docs/test_style_gallery.py, and read the diff"


def test_every_format_and_every_style_is_shown() -> None:
    assert {case.format for case in CASES} == set(FORMATS)
    for kind in ("multiple_choice", "classification"):
        assert any(set(case.styles) >= {OWN, *STYLES} for case in CASES if case.format == kind)


SHOWN = [(case.name, style) for case in CASES for style in case.styles]


@pytest.mark.parametrize(("name", "style"), SHOWN)
def test_white_space_separates_answers_from_prompts(name: str, style: str) -> None:
    for count in COUNTS:
        for request in built(name, style, count).requests:
            if isinstance(request, Loglikelihood):
                joint = text_of(request)[-1:] + request.continuation[:1]
                assert joint.strip() != joint or not joint, (text_of(request)[-40:], request.continuation)
                assert not (text_of(request)[-1:].isspace() and request.continuation[:1].isspace())


@pytest.mark.parametrize(("name", "style"), [pair for pair in SHOWN if pair[0] not in ("texts", "gaps")])
def test_examples_are_rendered_like_the_question(name: str, style: str) -> None:
    alone, shown = (text_of(built(name, style, count).requests[0]) for count in COUNTS)
    opening = str(next(case for case in CASES if case.name == name).keys.get("description", ""))
    behind = STYLES[style].example_delimiter if style in STYLES else None
    examples = [example(name, style, place, opening) for place in (1, 2)]
    assert shown == opening + "".join(text + (behind or "\n\n") for text in examples) + alone.removeprefix(opening)


def example(name: str, style: str, place: int, opening: str) -> str:
    """A row as the model reads it, followed by its right answer."""
    instance = built(name, style, 0, place)
    request = instance.requests[0]
    asked = text_of(request).removeprefix(opening)
    if isinstance(request, Generation):
        right = instance.gold if isinstance(instance.gold, str) else next(iter(instance.gold), "unanswerable")
        return f"{asked} {right}"
    right_one = instance.requests[instance.gold]
    assert isinstance(right_one, Loglikelihood)
    return asked + right_one.continuation


def test_no_style_applies_to_one_prompt_per_choice() -> None:
    with pytest.raises(UserError, match="has one prompt per choice"):
        built("gaps", "cloze", 0)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
