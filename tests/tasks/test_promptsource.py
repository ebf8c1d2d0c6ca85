"""PromptSource's template files: every feature by hand, faults with their line, hostile files, and real ones."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import LimitError, TaskFileError, UserError
from assay.core.identity import digest
from assay.tasks.promptsource import (
    PromptTemplate,
    RenderedPrompt,
    SkippedRow,
    find_templates,
    labelled,
    read_templates,
)

Write = Callable[..., Path]
SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared")) / "data"
ROW = {"question": "Sky?", "options": ["Blue", "Red"], "label": 0}


def template(text: str, choices: str | None = None) -> PromptTemplate:
    return PromptTemplate("n", "n", "id", text, choices, True, False, (), (), "", "f.yaml:3  jinja")


def test_prompt_and_target_are_parted_and_stripped() -> None:
    assert template(" Q: {{question}} \n||| {{options[label]}}\n").render_row(ROW) == RenderedPrompt("Q: Sky?", "Blue")


def test_choices_are_rendered_from_the_row_and_are_in_the_prompt() -> None:
    found = template(
        "{{question}} {{answer_choices|join('/')}} ||| {{answer_choices[label]}}", "{{options|join('|||')}}"
    )
    assert found.render_row(ROW) == RenderedPrompt("Sky? Blue/Red", "Blue", ("Blue", "Red"))


def test_a_template_that_fills_the_memory_ends_the_task_and_not_the_row() -> None:
    with pytest.raises(LimitError, match="f.yaml:3  jinja, template: builds a text or list of 1,000,000,000"):
        template("{{ question.ljust(1000000000) }} ||| a").render_row(ROW)


def test_a_separator_in_the_data_parts_nothing() -> None:
    row = {"q": "a ||| b", "options": ["x ||| y", "z"]}
    found = template("{{q}} ||| {{answer_choices[0]}}", "{{options[0]}} ||| {{options[1]}}").render_row(row)
    assert found == RenderedPrompt("a ||| b", "x ||| y", ("x ||| y", "z"))


@pytest.mark.parametrize(("target", "place"), [("yes", 1), ("NO", 2), ("Yes", 0), ("maybe", None)])
def test_the_right_choice_is_the_same_text_or_else_the_same_but_for_case(target: str, place: int | None) -> None:
    assert RenderedPrompt("p", target, ("Yes", "yes", "No")).place == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{% if label == 1 %}x ||| y{% endif %}", "the prompt is empty"),
        ("x ||| {% if label == 1 %}y{% endif %}", "the target is empty"),
        ("x{% if label == 1 %} ||| y{% endif %}", "the target is empty"),
    ],
)
def test_a_template_that_renders_nothing_passes_the_row_over(text: str, reason: str) -> None:
    found = template(text).render_row(ROW)
    assert isinstance(found, SkippedRow) and not found.fails and found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{qestion}} ||| y", '(did you mean "question"?)'),
        ("{{1 // label}} ||| y", "ZeroDivisionError"),
        ("a ||| b ||| c", "3 parts"),
        ("{{question.__class__.__mro__}} ||| y", "__class__"),
        ("{{options.append('x')}} ||| y", "sandbox forbids"),
    ],
)
def test_a_template_that_fails_says_why(text: str, reason: str) -> None:
    found = template(text).render_row(ROW)
    assert isinstance(found, SkippedRow) and found.fails and reason in found.reason


def test_a_column_named_like_the_choices_is_refused() -> None:
    found = template("x ||| y").render_row({"answer_choices": []})
    assert isinstance(found, SkippedRow) and found.fails


def test_choice_draws_by_the_row_alone() -> None:
    rows = [{"n": n, "items": list("abcdefgh")} for n in range(30)]
    first, second = template("{{items|choice}} ||| y"), template("again: {{items | choice}} ||| y")
    drawn = [found.prompt for row in rows if isinstance(found := first.render_row(row), RenderedPrompt)]
    again = [found.prompt for row in rows if isinstance(found := second.render_row(dict(row)), RenderedPrompt)]
    assert again == [f"again: {letter}" for letter in drawn]
    assert len(set(drawn)) > 3
    assert drawn[0] == random.Random(digest(rows[0])).choice("abcdefgh")


def test_the_other_helpers_of_the_dialect() -> None:
    row = {"a": ["x", "y", "x", "z", "y"], "b": [1, 2]}
    text = "{{a|most_frequent|join('')}} {% for l, n in zip(a, b) %}{{l}}{{n|highlight}}{% endfor %} ||| y"
    assert template(text).render_row(row) == RenderedPrompt("xy x1y2", "y")


FILE = """dataset: d
templates:
  1f: !Template
    answer_choices: Yes ||| No
    id: 1f
    jinja: '{{question}} ||| {{answer_choices[label]}}'
    metadata: !TemplateMetadata
      choices_in_prompt: false
      languages: [en]
      metrics: [Accuracy]
      original_task: true
    name: claim yes/no
    reference: someone
  2f: !Template
    answer_choices: null
    jinja: '{{question}} ||| x'
    name: claim yes-no?
"""


def test_a_file_is_read_with_its_notes(write_yaml: Write) -> None:
    first, second = read_templates(write_yaml("templates.yaml", FILE))
    assert (first.name, first.label, first.id, first.original_task) == ("claim yes/no", "claim_yes_no", "1f", True)
    assert (first.metrics, first.languages, first.reference) == (("Accuracy",), ("en",), "someone")
    assert first.where.endswith("templates.yaml:6  templates.1f.jinja")
    assert (second.id, second.original_task, second.answer_choices) == ("2f", False, None)
    assert first.render_row(ROW) == RenderedPrompt("Sky?", "Yes", ("Yes", "No"))


def test_labels_differ_from_each_other_and_from_prompt_styles() -> None:
    assert labelled(["a b", "a/b", "?", "letters"]) == ["a_b", "a_b_2", "prompt", "letters_prompt"]


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        ("'{{question}} ||| x'", "'{{question ||| x'", 16, "template does not parse"),
        ("'{{question}} ||| x'", "'{{question|shout}} ||| x'", 16, "shout"),
        ("'{{question}} ||| x'", "'{{question}}'", 16, "has no |||"),
        ("'{{question}} ||| x'", "7", 16, "is 7"),
        ("    name: claim yes/no\n", "", 3, "is missing"),
        ("Yes ||| No", "'{{ Yes ||| No'", 4, "template does not parse"),
        ("!TemplateMetadata", "!!python/object/apply:os.getcwd", 7, "python/object"),
        ("2f: !Template", "2f: !!python/object:builtins.object", 14, "python/object"),
        ("2f: !Template", "2f: !Other", 14, "!Other"),
    ],
)
def test_faults_have_their_line(write_yaml: Write, old: str, new: str, line: int, found: str) -> None:
    assert FILE.count(old) == 1
    path = write_yaml("templates.yaml", FILE.replace(old, new))
    with pytest.raises(TaskFileError) as caught:
        read_templates(path)
    assert f"templates.yaml:{line}" in str(caught.value) and found in str(caught.value)


def test_a_file_without_templates_is_an_error(write_yaml: Write) -> None:
    with pytest.raises(TaskFileError, match="holds no templates"):
        read_templates(write_yaml("templates.yaml", "dataset: d\n"))


def test_all_faults_come_at_once(write_yaml: Write) -> None:
    path = write_yaml("templates.yaml", FILE.replace("'{{question}} ||| x'", "3").replace("claim yes/no", "''"))
    with pytest.raises(TaskFileError) as caught:
        read_templates(path)
    assert len(caught.value.faults) == 2


@pytest.mark.parametrize(
    ("dataset", "config", "found"),
    [
        ("allenai/ai2_arc", "ARC-Easy", "ai2_arc/ARC-Easy"),
        ("EleutherAI/headqa", "en", "head_qa/en"),
        ("piqa", None, "piqa"),
        ("baber/piqa", "default", "piqa"),
    ],
)
def test_a_folder_holds_the_file_of_a_dataset(
    write_yaml: Write, tmp_path: Path, dataset: str, config: str | None, found: str
) -> None:
    for name in ("ai2_arc/ARC-Easy", "ai2_arc/ARC-Challenge", "head_qa/en", "piqa"):
        write_yaml(f"{name}/templates.yaml", FILE)
    assert find_templates(tmp_path, dataset, config, "--prompts") == tmp_path / found / "templates.yaml"


def test_a_dataset_without_templates_lists_those_that_exist(write_yaml: Write, tmp_path: Path) -> None:
    write_yaml("piqa/templates.yaml", FILE)
    with pytest.raises(UserError, match='no templates for the dataset x/pica .*did you mean "piqa"'):
        find_templates(tmp_path, "x/pica", None, "--prompts")
    with pytest.raises(UserError, match="no file or folder"):
        find_templates(tmp_path / "nowhere", "piqa", None, "--prompts")


# PromptSource's folder → the dataset's own, and its split.
REAL = {
    "ai2_arc/ARC-Challenge": "allenai/ai2_arc/ARC-Challenge",
    "ai2_arc/ARC-Easy": "allenai/ai2_arc/ARC-Easy",
    "commonsense_qa": "tau/commonsense_qa/default",
    "glue/mrpc": "nyu-mll/glue/mrpc",
    "glue/qnli": "nyu-mll/glue/qnli",
    "glue/rte": "nyu-mll/glue/rte",
    "glue/sst2": "nyu-mll/glue/sst2",
    "glue/wnli": "nyu-mll/glue/wnli",
    "head_qa/en": "EleutherAI/headqa/en",
    "hellaswag": "Rowan/hellaswag/default",
    "mc_taco": "CogComp/mc_taco/default",
    "nq_open": "google-research-datasets/nq_open/default",
    "piqa": "baber/piqa/default",
    "squad_v2": "lighteval/squad_v2/default",
    "super_glue/boolq": "aps/super_glue/boolq",
    "super_glue/cb": "aps/super_glue/cb",
    "super_glue/copa": "aps/super_glue/copa",
    "super_glue/multirc": "aps/super_glue/multirc",
    "super_glue/rte": "aps/super_glue/rte",
    "super_glue/wic": "aps/super_glue/wic",
    "super_glue/wsc.fixed": "aps/super_glue/wsc.fixed",
    "trivia_qa/unfiltered": "mandarjoshi/trivia_qa/rc.nocontext",
    "winogrande/winogrande_xl": "allenai/winogrande/winogrande_xl",
    "xsum": "EdinburghNLP/xsum/default",
}


def real_rows(dataset: str) -> list[dict[str, Any]]:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = parquet.read_table(SHARED / "hub" / dataset / "validation.parquet").to_pylist()
    return rows[:40]


@pytest.mark.skipif(
    not (SHARED / "promptsource").is_dir(), reason="needs the shared datasets and models (ASSAY_SHARED)"
)
@pytest.mark.parametrize("name", REAL)
def test_real_templates_render_real_rows(name: str) -> None:
    templates = read_templates(SHARED / "promptsource" / name / "templates.yaml")
    rows = real_rows(REAL[name])
    assert len(templates) >= 5
    for each in templates:
        render_row = [found for row in rows if isinstance(found := each.render_row(row), RenderedPrompt)]
        failed = [found for row in rows if isinstance(found := each.render_row(row), SkippedRow) and found.fails]
        assert render_row and not failed, each.name
        assert all(found.choices is None or len(found.choices) > 1 for found in render_row)
        # Commonsense QA has five choices, of which one template knows four.
        if each.answer_choices is not None and each.label != "question_to_answer_index":
            assert all(found.place is not None for found in render_row), each.name


@pytest.mark.skipif(
    not (SHARED / "promptsource").is_dir(), reason="needs the shared datasets and models (ASSAY_SHARED)"
)
def test_a_real_row_is_rendered_as_its_template_says() -> None:
    templates = read_templates(SHARED / "promptsource" / "super_glue" / "cb" / "templates.yaml")
    (infer,) = [each for each in templates if each.name == "can we infer"]
    row = {"premise": "It rains.", "hypothesis": "the road is wet", "label": 2}
    prompt = 'Suppose It rains. Can we infer that "the road is wet"? Yes, no, or maybe?'
    assert infer.render_row(row) == RenderedPrompt(prompt, "Maybe", ("Yes", "No", "Maybe"))
    assert isinstance(infer.render_row({**row, "label": -1}), SkippedRow)
