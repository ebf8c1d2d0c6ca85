"""Cards of task files: what they may hold, and their faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.tasks.lm_eval.file.card import card_faults, card_of, primary_faults
from assay.tasks.lm_eval.file.schema import KnownNames, group_faults, task_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, TopLevelKeyReader, read_task_file

Write = Callable[..., Path]
Read = Callable[[str], TaskFile]

TASK = """\
task: t
dataset_path: owner/data
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: c
doc_to_target: a
"""
CARD = """\
card:
  title: T
  description: Choose one of four.
  languages: [en]
  primary: acc_norm
  primary_reason: Choices differ in length.
  chance: null
  lm_eval: {task: t, same: true}
  rows: {test: 100}
  traps: [One.]
  references: [{model: m, metric: acc, value: 0.5, shots: 0, source: a paper}]
"""


@pytest.fixture
def read(write_yaml: Write) -> Read:
    return lambda text: read_task_file(write_yaml("t.yaml", text))


def test_a_card_has_no_fault_and_keeps_its_nulls(read: Read, names: KnownNames) -> None:
    file = read(TASK + CARD)
    assert task_faults(file, names) == []
    assert list(primary_faults(file)) == []
    assert card_of(file.data)["chance"] is None
    assert card_of(read(TASK).data) == {}


FAULTS = {
    "descriptoin: x": 't.yaml:2  card.descriptoin: unknown key "descriptoin" (did you mean "description"?)',
    'description: "a\\nb"': "card.description: is 'a\\nb' (str); expected text of one line",
    "chance: a half": "card.chance: is 'a half' (str); expected a number",
    "languages: en": "card.languages: is 'en' (str); expected a list of texts",
    "languages: [no]": "card.languages: is [False] (list); expected a list of texts. Quote it",
    "rows: {test: many}": "card.rows: is {'test': 'many'} (dict); expected a mapping from split to number of rows",
    "lm_eval: {same: true}": 'card.lm_eval: the key "task" is missing',
    "lm_eval: {task: t, same: false}": "card.lm_eval.differs: same is false, but it does not say what differs",
    "lm_eval: {task: t, same: true, differs: x}": "card.lm_eval.differs: is given, but same is true",
    "references: [m]": "card.references[0]: is 'm' (str); expected {model: …, metric: …, value: …, source: …}",
    "references: [{model: m, metric: acc, value: 1}]": 'card.references[0]: the key "source" is missing',
    "references: [{model: m, metric: acc, value: x, source: s}]": "card.references[0].value: is 'x' (str)",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_name_file_line_and_key(text: str, read: Read) -> None:
    (fault,) = card_faults(read(f"card:\n  {text}\n"))
    assert FAULTS[text] in str(fault)


def test_a_card_is_a_mapping(read: Read, names: KnownNames) -> None:
    (fault,) = task_faults(read(TASK + "card: HellaSwag\n"), names)
    assert "card: is 'HellaSwag' (str); expected a mapping" in str(fault)


@pytest.mark.parametrize("primary", ["acc", "acc_norm,none", "acc,none"])
def test_the_primary_metric_may_name_its_filter(primary: str, read: Read) -> None:
    assert list(primary_faults(read(f"{TASK}card: {{primary: '{primary}'}}\n"))) == []


def test_the_primary_metric_is_one_of_the_task(read: Read) -> None:
    (fault,) = primary_faults(read(f"{TASK}metric_list: [{{metric: acc}}]\ncard: {{primary: acc_norm}}\n"))
    assert 't.yaml:9  card.primary: "acc_norm" is not a metric of the task' in str(fault)
    (fault,) = primary_faults(read(f"{TASK}card: {{primary: 'acc,strict'}}\n"))
    assert '"strict" is not a filter of the task; expected one of none' in str(fault)


def test_metrics_with_settings_may_be_primary(read: Read) -> None:
    text = "task: t\nmetric_list: [{metric: 'pass@k', k: [1, 5]}]\ncard: {primary: 'pass@5'}\n"
    assert list(primary_faults(read(text))) == []


def test_figures_that_name_another_task_are_left_out(read: Read) -> None:
    entries = "[{task: t, model: a, value: 1}, {task: u, model: b, value: 2}, {model: c, value: 3}]"
    card = card_of(read(f"task: t\ncard: {{references: {entries}}}\n").data)
    assert card["references"] == [{"model": "a", "value": 1}, {"model": "c", "value": 3}]


def test_a_group_may_have_a_card(read: Read) -> None:
    assert group_faults(read("group: g\ntask: [t]\ncard: {description: Two of them.}\n")) == []
    (fault,) = group_faults(read("group: g\ntask: [t]\ncard: {x: 1}\n"))
    assert 'card.x: unknown key "x"' in str(fault)


def test_a_group_with_configurations_is_named_by_task(read: Read) -> None:
    (fault,) = group_faults(read("group: g\ntask: [t]\nconfigurations: {a: {}}\n"))
    assert "names its group by the key task" in str(fault)


def test_the_facts_of_an_included_card_are_kept_one_by_one(write_yaml: Write) -> None:
    write_yaml("base", "card:\n  chance: 0.5\n  licence: MIT\n  rows: {test: 1}\n")
    path = write_yaml("t.yaml", "include: base\ntask: t\ncard:\n  chance: 0.25\n  rows: {test: 2}\n")
    file = read_task_file(path)
    assert file.data["card"] == {"chance": 0.25, "licence": "MIT", "rows": {"test": 2}}
    assert TopLevelKeyReader().top_level_keys(str(path))[0]["card"] == file.data["card"]
    assert [file.where("card", key).partition("  ")[0].rpartition("/")[2] for key in ("chance", "licence")] == [
        "t.yaml:4",
        "base:3",
    ]
    write_yaml("t.yaml", "include: base\ntask: other\ncard: 5\n")
    assert read_task_file(path).data["card"] == 5
