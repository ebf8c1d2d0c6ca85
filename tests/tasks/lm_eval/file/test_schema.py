"""Faults of task files: all at once, each with file, line, key path, and a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.tasks.lm_eval.file.schema import KnownNames, group_faults, task_faults
from assay.tasks.lm_eval.file.yaml_reader import read_task_file

Write = Callable[..., Path]

GOOD = """\
task: toy
dataset_path: json
dataset_kwargs: {data_files: {test: x.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_target: label
doc_to_choice: choices
"""


@pytest.fixture
def faults(write_yaml: Write, names: KnownNames) -> Callable[[str], list[str]]:
    """Every fault of a text, without the folder."""

    def find(text: str) -> list[str]:
        path = write_yaml("toy.yaml", text)
        return [str(fault).replace(str(path.parent) + "/", "") for fault in task_faults(read_task_file(path), names)]

    return find


def test_a_good_file_has_no_faults(faults: Callable[[str], list[str]]) -> None:
    assert faults(GOOD) == []


def test_every_fault_comes_at_once(faults: Callable[[str], list[str]]) -> None:
    text = GOOD.replace("doc_to_choice: choices\n", "") + (
        "doc_to_txt: x\n"
        "num_fewshot: two\n"
        "metric_list:\n  - metric: accc\n    aggregation: meen\n  - metric: word_perplexity\n  - 7\n"
        "filter_list:\n  - name: a\n    filter: [{function: regx}]\n  - name: a\n    filter: []\n  - filter: x\n"
    )
    found = faults(text.replace("{{q}}", "{{q"))
    assert [line.partition(": ")[0] for line in found] == [
        "toy.yaml:8  doc_to_txt",
        "toy.yaml:9  num_fewshot",
        "toy.yaml:6  doc_to_text",
        "toy.yaml  doc_to_choice",
        "toy.yaml:11  metric_list[0].metric",
        "toy.yaml:12  metric_list[0].aggregation",
        "toy.yaml:13  metric_list[1].metric",
        "toy.yaml:14  metric_list[2]",
        "toy.yaml:17  filter_list[0].filter[0].function",
        "toy.yaml:18  filter_list[1].name",
        "toy.yaml:20  filter_list[2]",
    ]
    assert 'unknown key "doc_to_txt" (did you mean "doc_to_text" or ' in found[0]
    assert found[1].endswith("is 'two' (str); expected a whole number, 0 or more")
    assert 'unknown metric "accc" (did you mean "acc"' in found[4] and found[4].endswith("See: assay ls metrics")
    assert 'unknown filter "regx" (did you mean "regex"' in found[8] and found[8].endswith("See: assay ls filters")


def test_an_unknown_aggregation_is_reported_with_near_names(faults: Callable[[str], list[str]]) -> None:
    (found,) = faults(GOOD + "metric_list:\n  - {metric: acc, aggregation: meen}\n")
    assert found.startswith('toy.yaml:10  metric_list[0].aggregation: unknown aggregation "meen" (did you mean "mean"')
    assert found.endswith("expected an aggregation's name, such as mean, f1, perplexity, bleu")


def test_a_metric_must_fit_the_output_type(faults: Callable[[str], list[str]]) -> None:
    (found,) = faults(GOOD + "metric_list: [{metric: word_perplexity}]\n")
    assert '"word_perplexity" is not defined for multiple_choice; expected a metric that is, such as acc' in found


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("task", "7", "has no name"),
        ("tag", "{a: b}", "text or a list of texts"),
        ("num_fewshot", "-1", "a whole number, 0 or more"),
        ("num_fewshot", "true", "a whole number, 0 or more"),
        ("repeats", "0", "a whole number from 1 to 100,000"),
        ("repeats", "1000000000", "a whole number from 1 to 100,000"),
        ("output_type", "multiple_chioce", "one of generate_until, multiple_choice"),
        ("generation_kwargs", "[1]", "a mapping"),
        ("metric_list", "acc", "a list"),
        ("filter_list", "x", "a list"),
        ("description", "3", "text"),
        ("unsafe_code", "maybe", "true or false"),
        ("doc_to_text", "1.5", "a column, a template or a whole number"),
        ("doc_to_choice", "1", "a column, a template, a list or a mapping"),
        ("fewshot_config", "{sampler: best}", "one of default, first_n, fixed"),
        ("fewshot_config", "{samples: [1]}", "a list of documents"),
        ("fewshot_config", "{splt: x}", '(did you mean "split"?)'),
        ("fewshot_config", "{doc_to_text: '{% if %}'}", "template does not parse"),
        ("metric_list", "[{metric: 3}]", "a metric's name"),
        ("metric_list", "[{metric: acc, aggregation: 3}]", "an aggregation's name"),
        ("filter_list", "[{name: a, filter: [regex]}]", "{function: NAME, …}"),
        ("use_prompt", "promptsource:x", "is not supported by this version"),
        ("process_results", "some text", "Python code: !function module.name"),
    ],
)
def test_a_wrong_value_is_reported_with_its_line(
    faults: Callable[[str], list[str]], key: str, value: str, expected: str
) -> None:
    kept = [line for line in GOOD.splitlines() if not line.startswith(f"{key}:")]
    found = [line for line in faults("\n".join([*kept, f"{key}: {value}"])) if expected in line]
    assert len(found) == 1
    assert found[0].startswith(f"toy.yaml:{len(kept) + 1}  {key}")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("task", "has no name"),
        ("dataset_path", "is missing"),
        ("test_split", "no split to evaluate"),
        ("doc_to_choice", "the choices of a multiple_choice task"),
        ("doc_to_target", "the right answer"),
        ("doc_to_text", "the prompt"),
    ],
)
def test_a_needed_key_that_is_missing_is_reported(faults: Callable[[str], list[str]], key: str, expected: str) -> None:
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(f"{key}:"))
    (found,) = faults(text)
    assert key in found and expected in found


def test_a_perplexity_task_needs_no_prompt(faults: Callable[[str], list[str]]) -> None:
    text = GOOD.replace("multiple_choice", "loglikelihood_rolling").replace('doc_to_text: "{{q}}"\n', "")
    assert faults(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "process_docs: !function utils.f\n",
        "process_results: !function utils.f\nmetric_list: [{metric: whatever}]\n",
        "metric_list:\n  - metric: !function utils.f\n    aggregation: !function utils.g\n",
        "filter_list:\n  - {name: a, filter: [{function: !function utils.F}]}\n",
        "fewshot_config: {process_docs: !function utils.f, sampler: !function utils.S, samples: !function utils.x}\n",
        "doc_to_image: picture\n",
    ],
)
def test_code_may_be_in_many_places(faults: Callable[[str], list[str]], text: str) -> None:
    assert faults(GOOD + text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("num_fewshot: !function utils.f\n", "names Python code (!function utils.f); expected plain data"),
        ("process_docs: !function f\n", '"!function f" names no module; expected !function module.name'),
        ("proces_docs: !function utils.f\n", 'unknown key "proces_docs"'),
    ],
)
def test_code_where_it_means_nothing_is_reported(faults: Callable[[str], list[str]], text: str, expected: str) -> None:
    assert any(expected in found for found in faults(GOOD + text))


def test_a_class_has_a_say_about_all_other_keys(faults: Callable[[str], list[str]]) -> None:
    assert faults("task: a\nclass: !function task.Own\nrecipe: {x: 1}\n") == []
    (found,) = faults("task: a\nclass: Own\n")
    assert found == "toy.yaml:2  class: is 'Own' (str); expected !function module.ClassName"


def test_faults_of_an_included_key_point_into_the_included_file(write_yaml: Write, names: KnownNames) -> None:
    write_yaml("base.yaml", GOOD + "repeats: none\n")
    path = write_yaml("top.yaml", "include: base.yaml\ntask: top\n")
    (fault,) = task_faults(read_task_file(path), names)
    assert fault.where.endswith("base.yaml:9  repeats")


def test_empty_keys_count_as_absent(faults: Callable[[str], list[str]]) -> None:
    assert faults(GOOD + "num_fewshot:\ndescription:\nmetric_list:\n") == []


def test_a_group_may_hold_task_keys_and_nothing_else(write_yaml: Write) -> None:
    path = write_yaml("group.yaml", "group: g\ntask: [a]\nnum_fewshot: 3\nagregate_metric_list: []\ngroup_alias: 3\n")
    found = [str(fault) for fault in group_faults(read_task_file(path))]
    assert len(found) == 2
    assert "group.yaml:4  agregate_metric_list: unknown key" in found[0]
    assert '(did you mean "aggregate_metric_list"' in found[0]
    assert "group.yaml:5  group_alias: is 3 (int); expected text" in found[1]
