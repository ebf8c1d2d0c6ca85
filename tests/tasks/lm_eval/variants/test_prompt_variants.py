"""A task in several prompts: its variants, their requests, what they leave out, and every user error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate, rescore
from assay.core.errors import TaskFileError, UserError
from assay.core.requests import Generation, Loglikelihood
from assay.core.results import RunResult, TaskResult
from assay.report.lm_eval_results import results_data
from assay.testing import toy_choice_task

Write = Callable[..., Path]
ROWS = [
    {"q": "Sky?", "options": ["blue", "red"], "label": 0},
    {"q": "Grass?", "options": ["blue", "green"], "label": 1},
    {"q": "Snow?", "options": ["white", "red"], "label": -1},
]
TASK = "task: colour\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
LISTED = """output_type: multiple_choice
doc_to_choice: options
doc_to_target: "{{label if label >= 0 else 0}}"
prompts:
  - name: short
    text: "{{q}}"
  - name: long
    text: "Q: {{q}}\\nA:"
  - name: truth
    text: "Is it {{options[0]}}?"
    choices: ["yes", "no"]
    target: "{{0 if label == 0 else 1}}"
    original_task: false
"""
TEMPLATES = """templates:
  1: !Template
    answer_choices: '{{options|join("|||")}}'
    jinja: '{{q}} Pick! ||| {% if label != -1 %}{{options[label]|upper}}{% endif %}'
    metadata: !TemplateMetadata {original_task: true, metrics: [Accuracy]}
    name: pick one
  2: !Template
    answer_choices: null
    jinja: 'Colour of {{q}} ||| {{options[[label, 0]|max]}}'
    name: write
  3: !Template
    answer_choices: A ||| B
    jinja: '{{q}} {{options[label + 1]}} ||| A'
    name: fails
"""


@pytest.fixture
def run(write_yaml: Write, tmp_path: Path) -> Callable[..., RunResult]:
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n", encoding="utf-8")
    write_yaml("templates.yaml", TEMPLATES)

    def ask(task: str, behind: str = "", **settings: Any) -> RunResult:
        path = write_yaml("colour.yaml", task)
        return evaluate("ngram", f"{path}{behind}", store=":memory:", **settings)

    return ask


def prompts(task: TaskResult) -> list[Any]:
    return [getattr(item.instance.requests[0], "prompt", None) for item in task.answered]


def test_every_prompt_of_a_list_is_a_task(run: Callable[..., RunResult]) -> None:
    result = run(TASK + LISTED)
    assert [task.name for task in result.tasks] == ["colour@short", "colour@long", "colour@truth"]
    assert prompts(result.task("colour@long"))[0] == "Q: Sky?\nA:"
    truth = result.task("colour@truth").answered
    assert [(item.instance.choices, item.instance.gold) for item in truth[:2]] == [
        (("yes", "no"), 0),
        (("yes", "no"), 1),
    ]


def test_the_axis_holds_every_prompt_by_metric(run: Callable[..., RunResult]) -> None:
    result = run(TASK + LISTED)
    assert [(axis.task, axis.metric) for axis in result.prompts] == [("colour", "acc"), ("colour", "acc_norm")]
    acc = result.prompts[0]
    assert acc.scores == {name: result.task(f"colour@{name}").metric("acc").estimate.value for name in acc.scores}
    assert list(acc.scores) == ["short", "long", "truth"] and acc.documents["short"] == 3
    assert result.summary()["prompts"][0]["mean"] == acc.mean


def test_a_run_without_prompts_has_no_axis(run: Callable[..., RunResult]) -> None:
    result = run(TASK + "doc_to_text: q\ndoc_to_target: label\n")
    assert result.prompts == () and "prompts" not in result.summary()


def test_only_the_original_task_or_a_single_prompt(run: Callable[..., RunResult]) -> None:
    assert [task.name for task in run(TASK + LISTED, original_task=True).tasks] == ["colour@short", "colour@long"]
    assert [task.name for task in run(TASK + LISTED, "@truth").tasks] == ["colour@truth"]


def test_templates_are_choices_or_generation(run: Callable[..., RunResult]) -> None:
    result = run(TASK + "prompts: templates.yaml\n")
    pick, write = result.task("colour@pick_one"), result.task("colour@write")
    assert prompts(pick) == ["Sky? Pick!", "Grass? Pick!"]
    assert [
        request.continuation for request in pick.answered[1].instance.requests if isinstance(request, Loglikelihood)
    ] == [
        " blue",
        " green",
    ]
    assert [item.instance.gold for item in pick.answered] == [0, 1]  # found though the target is in capitals
    assert isinstance(write.answered[0].instance.requests[0], Generation)
    assert [item.instance.gold for item in write.answered] == ["blue", "green", "white"]
    assert [metric.metric for metric in write.metrics] == ["exact_match"]
    assert pick.card.config["prompt"]["promptsource_name"] == "pick one"


def test_what_a_template_cannot_render_is_counted_and_named(run: Callable[..., RunResult]) -> None:
    result = run(TASK + "prompts: templates.yaml\n")
    empty = "colour@pick_one: 1 of 3 documents is left out: the target is empty for them (first: document 2)"
    assert empty in result.notices
    (failed,) = [notice for notice in result.notices if notice.startswith("colour@fails")]
    assert "1 of 3 documents is left out: the prompt fails: " in failed and "document 1)" in failed
    acc = next(axis for axis in result.prompts if axis.metric == "acc")
    assert acc.left_out == {"pick_one": 1, "fails": 1} and acc.documents == {"pick_one": 2, "fails": 2}
    counts = result.task("colour@pick_one").denominators
    assert (counts.left_out, counts.available, counts.scored) == (1, 2, 2)
    assert results_data(result, {})["n-samples"]["colour@pick_one"] == {"original": 3, "effective": 2}


def test_a_prompt_that_fits_no_document_has_no_score(run: Callable[..., RunResult], write_yaml: Write) -> None:
    write_yaml("none.yaml", TEMPLATES.replace("Colour of {{q}}", "{{nothing}}"))
    result = run(TASK + "prompts: none.yaml\n", "@write")
    assert not result.task("colour@write").answered
    assert result.prompts[0].scores == {"write": None}


def test_examples_are_rendered_by_the_same_template(run: Callable[..., RunResult]) -> None:
    task = TASK + "prompts: templates.yaml\nfewshot_config: {sampler: first_n, split: test}\n"
    result = run(task, "@pick_one", num_fewshot=1)
    # The choice as it is scored, where the template writes it in other letters.
    assert prompts(result.tasks[0])[0] == "Grass? Pick! green\n\nSky? Pick!"


def test_examples_are_joined_as_in_catwalk_where_the_file_says_so(run: Callable[..., RunResult]) -> None:
    catwalk = 'fewshot_config: {sampler: first_n, split: test, target_delimiter: "\\n"}\n'
    result = run(TASK + "prompts: templates.yaml\n" + catwalk, "@pick_one", num_fewshot=1)
    # tasks/promptsource.py: f"{prompt.strip()}\n{choice.strip()}\n\n"; the question's choices stand behind a blank.
    assert prompts(result.tasks[0])[0] == "Grass? Pick!\ngreen\n\nSky? Pick!"


def test_the_run_puts_its_templates_over_a_task(run: Callable[..., RunResult], tmp_path: Path) -> None:
    task = TASK + "doc_to_text: q\ndoc_to_target: label\ndescription: 'D: '\n"
    result = run(task, prompts=tmp_path / "templates.yaml", original_task=True)
    assert [task.name for task in result.tasks] == ["colour@pick_one"]
    assert prompts(result.tasks[0])[0] == "Sky? Pick!"


@pytest.mark.parametrize(
    ("old", "new", "line", "found"),
    [
        ('    text: "{{q}}"\n', "", 9, "is missing"),
        ('    text: "{{q}}"', '    text: "{{q"', 10, "template does not parse"),
        ('    text: "{{q}}"', "    txt: q", 10, 'unknown key "txt" (did you mean "text"?)'),
        ("name: long", "name: short", 11, "the name of two"),
        ("name: long", "name: letters", 11, "the name of a prompt style"),
        ("name: long", "name: a b", 11, "letters, digits"),
        ("original_task: false", "original_task: 3", 17, "true or false"),
        ('    text: "{{q}}"', "    text: !function m.f", 10, "names Python code"),
        ('  - name: short\n    text: "{{q}}"\n', "  - short\n", 9, "a prompt: {name"),
    ],
)
def test_faults_of_a_list_have_their_line(
    run: Callable[..., RunResult], old: str, new: str, line: int, found: str
) -> None:
    assert LISTED.count(old) == 1
    with pytest.raises(TaskFileError) as caught:
        run(TASK + LISTED.replace(old, new))
    assert f"colour.yaml:{line} " in str(caught.value) and found in str(caught.value)


def test_an_unknown_prompt_names_the_near_one(run: Callable[..., RunResult]) -> None:
    with pytest.raises(UserError, match=r'unknown prompt, style or profile "shrt" \(did you mean "short"\?\)'):
        run(TASK + LISTED, "@shrt")
    with pytest.raises(UserError, match='unknown style or profile "shrt"'):
        run(TASK + "doc_to_text: q\ndoc_to_target: label\n", "@shrt")


@pytest.mark.parametrize("settings", [{"style": "letters"}, {"like": "helm"}])
def test_prompts_and_another_style_exclude_each_other(run: Callable[..., RunResult], settings: dict[str, str]) -> None:
    with pytest.raises(UserError, match="both word the question"):
        run(TASK + LISTED, **settings)


def test_no_prompt_of_the_original_task_is_an_error(run: Callable[..., RunResult], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none of its 1 prompts is marked original_task"):
        run(
            TASK + "doc_to_text: q\ndoc_to_target: label\nprompts: [{name: a, text: q, original_task: false}]\n",
            original_task=True,
        )
    with pytest.raises(UserError, match="no file or folder"):
        run(TASK + LISTED, prompts=tmp_path / "nowhere")


def test_a_group_in_two_prompts_is_two_groups(run: Callable[..., RunResult], write_yaml: Write, tmp_path: Path) -> None:
    run(TASK + LISTED)
    write_yaml("g.yaml", "group: g\ntask: [colour]\naggregate_metric_list: [{metric: acc}]\n")
    result = evaluate("ngram", ["g@short", "g@long", "g"], store=":memory:", include_path=tmp_path)
    assert [(group.spec.name, group.leaves) for group in result.groups] == [
        ("g@short", ("colour@short",)),
        ("g@long", ("colour@long",)),
        ("g", ("colour@short", "colour@long", "colour@truth")),
    ]


def test_a_task_in_python_takes_no_prompts(tmp_path: Path, run: Callable[..., RunResult]) -> None:
    with pytest.raises(UserError, match="is written in Python, so other prompts"):
        evaluate("dummy", toy_choice_task(3), store=":memory:", prompts=tmp_path / "templates.yaml")


def test_a_recorded_run_in_prompts_is_rescored_with_its_axis(run: Callable[..., RunResult], tmp_path: Path) -> None:
    run(TASK + "prompts: templates.yaml\n")
    store = tmp_path / "s.db"
    first = evaluate("ngram", str(tmp_path / "colour.yaml"), store=store)
    second = rescore(first.run_id, metrics="+acc_bytes", store=store)
    assert [axis.metric for axis in second.prompts] == ["acc", "acc_norm", "acc_bytes", "exact_match"]
    assert second.prompts[0] == first.prompts[0]


def test_rows_that_a_template_cannot_render_are_not_examples(run: Callable[..., RunResult], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, reversed(ROWS))) + "\n", encoding="utf-8")
    task = TASK.replace("test: d.jsonl", "test: d.jsonl, train: t.jsonl") + "prompts: templates.yaml\n"
    result = run(task + "fewshot_config: {sampler: first_n, split: train}\n", "@pick_one", num_fewshot=1)
    assert prompts(result.tasks[0])[0] == "Grass? Pick! green\n\nSky? Pick!"


def test_templates_read_the_rows_of_the_dataset_itself(run: Callable[..., RunResult], tmp_path: Path) -> None:
    code = "def changed(rows):\n    return [{**row, 'q': 'changed'} for row in rows]\n"
    (tmp_path / "prompted_rows.py").write_text(code, encoding="utf-8")
    code_settings = {"allow_code": True}
    task = TASK + "doc_to_text: q\ndoc_to_target: label\nprocess_docs: !function prompted_rows.changed\n"
    fewshot = "fewshot_config: {sampler: first_n, split: test}\n"
    assert prompts(run(task, **code_settings).tasks[0])[0] == "changed"
    result = run(task + fewshot, "@pick_one", prompts=tmp_path / "templates.yaml", num_fewshot=1, **code_settings)
    assert prompts(result.tasks[0])[0] == "Grass? Pick! green\n\nSky? Pick!"
