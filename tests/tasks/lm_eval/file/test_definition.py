"""Definitions: what a task file says, with the defaults of the dialect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec
from assay.tasks.lm_eval.file.definition import TaskDefinition, define, plain_config
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.tasks.templates import Delimiters

Define = Callable[..., TaskDefinition]


@pytest.fixture
def definition(write_yaml: Callable[..., Path]) -> Define:
    def make(**keys: Any) -> TaskDefinition:
        base = {"task": "toy", "dataset_path": "json", "test_split": "test", "doc_to_text": "q", "doc_to_target": "a"}
        return define(read_task_file(write_yaml("toy.yaml", {**base, **keys})))

    return make


def test_defaults(definition: Define) -> None:
    found = definition()
    assert (found.name, found.alias, found.tags, found.version) == ("toy", "toy", (), "Yaml")
    assert (found.output_type, found.repeats, found.fewshot_count) == ("generate_until", 1, None)
    assert found.rendering.delimiters == Delimiters(" ", "\n\n")
    assert found.scoring.pipelines == (PipelineSpec("none", (FilterSpec("take_first"),)),)


@pytest.mark.parametrize(
    ("output_type", "metrics"),
    [
        ("multiple_choice", ["acc", "acc_norm"]),
        ("loglikelihood", ["perplexity", "acc"]),
        ("loglikelihood_rolling", ["word_perplexity", "byte_perplexity", "bits_per_byte"]),
        ("generate_until", ["exact_match"]),
    ],
)
def test_each_output_type_has_its_metrics(definition: Define, output_type: str, metrics: list[str]) -> None:
    assert [metric.name for metric in definition(output_type=output_type).scoring.metrics] == metrics


def test_metrics_keep_their_settings(definition: Define) -> None:
    entry = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}
    (metric,) = definition(metric_list=[entry]).scoring.metrics
    assert metric == MetricSpec("exact_match", "mean", True, {"ignore_case": True})


def test_pipelines_keep_their_steps(definition: Define) -> None:
    steps = [{"function": "regex", "regex_pattern": "x"}, {"function": "take_first"}]
    (pipeline,) = definition(filter_list=[{"name": "strict", "filter": steps}]).scoring.pipelines
    assert pipeline.name == "strict"
    assert pipeline.steps == (FilterSpec("regex", {"regex_pattern": "x"}), FilterSpec("take_first"))


def test_examples_inherit_what_they_do_not_set(definition: Define) -> None:
    found = definition(
        gen_prefix="P",
        target_delimiter=":",
        fewshot_split="train",
        fewshot_config={"doc_to_target": "", "doc_to_text": None},
    )
    shown = found.fewshot.rendering
    assert (shown.text, shown.target, shown.prefix, shown.delimiters.target) == ("q", "", "P", ":")
    assert found.fewshot.split == "train"


def test_the_few_shot_split_of_the_inner_block_wins(definition: Define) -> None:
    assert definition(fewshot_split="train", fewshot_config={"split": "dev"}).fewshot.split == "dev"


def test_the_evaluated_split_is_test_before_validation(definition: Define) -> None:
    assert definition(validation_split="dev").evaluated_split == "test"
    assert definition(validation_split="dev", test_split=None).evaluated_split == "dev"


def test_data_files_are_relative_to_the_file_that_names_them(write_yaml: Callable[..., Path]) -> None:
    write_yaml(
        "base/base.yaml", "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    )
    top = write_yaml("top.yaml", "include: base/base.yaml\ntask: toy\ndoc_to_text: q\ndoc_to_target: a\n")
    assert define(read_task_file(top)).source.folder == top.parent / "base"


def test_a_version_is_read_from_the_metadata(definition: Define) -> None:
    assert definition(metadata={"version": 2.5}).version == 2.5
    assert definition(metadata="free text").version == "Yaml"


def test_the_configuration_is_plain_data(write_yaml: Callable[..., Path]) -> None:
    path = write_yaml("a.yaml", "task: x\nprocess_docs: !function u.f\nmetadata: {1: [a]}\ndescription:\n")
    expected = {"task": "x", "process_docs": "!function u.f", "metadata": {"1": ["a"]}}
    assert plain_config(read_task_file(path).data) == expected


def test_empty_keys_of_the_examples_mean_none_where_lm_eval_takes_them_so(write_yaml: Callable[..., Path]) -> None:
    common = (
        "task: t\ndataset_path: x\ntest_split: test\nfewshot_split: train\ngen_prefix: A\ndoc_to_choice: [a]\n"
        "doc_to_text: q\ndoc_to_target: a\n"
    )
    empty = "fewshot_config: {split: null, gen_prefix: null, doc_to_choice: null, doc_to_text: null}\n"
    own = define(read_task_file(write_yaml("a.yaml", common))).fewshot
    none = define(read_task_file(write_yaml("b.yaml", common + empty))).fewshot
    assert (own.split, own.rendering.prefix, own.rendering.choice, own.rendering.text) == ("train", "A", ["a"], "q")
    assert (none.split, none.rendering.prefix, none.rendering.choice, none.rendering.text) == (None, None, None, "q")
