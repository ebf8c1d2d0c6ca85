"""Result and sample files in lm-eval's shape, keys and order."""

from __future__ import annotations

import hashlib
import json

import pytest

from assay.api import evaluate
from assay.core.responses import Failure
from assay.core.results import RunResult
from assay.report.lm_eval_results import plain, results_data, sample_lines
from assay.testing import ScriptedModel, toy_choice_task

# Section 13 of the compatibility specification, for a model without weights and tokenizer: lm-eval leaves theirs out.
TOP = [
    "results",
    "groups",
    "group_subtasks",
    "configs",
    "versions",
    "n-shot",
    "higher_is_better",
    "n-samples",
    "config",
    "git_hash",
    "date",
    "pretty_env_info",
    "transformers_version",
    "lm_eval_version",
    "upper_git_hash",
    "task_hashes",
    "model_source",
    "model_name",
    "model_name_sanitized",
    "system_instruction",
    "system_instruction_sha",
    "fewshot_as_multiturn",
    "chat_template",
    "chat_template_sha",
    "total_evaluation_time_seconds",
    "assay",
]
SAMPLE = ["doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"]
HASHES = ["doc_hash", "prompt_hash", "target_hash"]


def test_the_keys_are_lm_evals_in_its_order(grouped: RunResult) -> None:
    assert list(results_data(grouped, {})) == TOP


def test_without_an_aggregating_group_there_is_no_groups_block(result: RunResult) -> None:
    assert list(results_data(result, {})) == [key for key in TOP if key != "groups"]


def test_a_tasks_scores_have_lm_evals_keys(result: RunResult) -> None:
    scores = results_data(result, {})["results"]["toy_choice"]
    keys = ["name", "alias", "sample_len", "acc,none", "acc_stderr,none", "acc_norm,none", "acc_norm_stderr,none"]
    assert list(scores) == keys
    assert scores["sample_len"] == 6
    assert scores["acc,none"] == result.task("toy_choice").metric("acc").estimate.value


def test_an_error_that_lm_eval_lacks_is_not_available(result: RunResult) -> None:
    assert results_data(result, {})["results"]["toy_perplexity"]["bits_per_byte_stderr,none"] == "N/A"


def test_groups_come_after_tasks_and_only_aggregating_ones_have_scores(grouped: RunResult) -> None:
    data = results_data(grouped, {})
    assert list(data["results"]) == ["one", "two", "toy_perplexity", "inner", "outer"]
    assert data["results"]["outer"] == {"name": "outer", "alias": "Outer"}
    assert list(data["groups"]) == ["inner"]
    assert data["groups"]["inner"]["sample_count"] == {"acc,none": 16}
    assert data["groups"]["inner"]["sample_len"] == 16
    assert data["group_subtasks"] == {"inner": ["one", "two"], "outer": ["inner", "toy_perplexity"]}


def test_sorted_blocks_are_sorted_and_include_groups(grouped: RunResult) -> None:
    data = results_data(grouped, {})
    assert data["versions"] == {"inner": "2", "one": 1, "outer": "N/A", "toy_perplexity": 1, "two": 1}
    assert list(data["n-shot"]) == ["inner", "one", "outer", "toy_perplexity", "two"]
    assert list(data["configs"]) == ["one", "toy_perplexity", "two"]
    assert list(data["higher_is_better"]) == ["inner", "one", "outer", "toy_perplexity", "two"]
    assert data["higher_is_better"]["inner"] == {"acc": True, "acc_norm": True}
    assert data["higher_is_better"]["outer"]["bits_per_byte"] is False


def test_a_group_whose_leaves_disagree_has_no_direction(grouped: RunResult) -> None:
    from dataclasses import replace

    one, two, *rest = grouped.tasks
    flipped = replace(two, directions=dict.fromkeys(two.directions, False))
    data = results_data(replace(grouped, tasks=(one, flipped, *rest)), {})
    assert data["higher_is_better"]["inner"] == {"acc": None, "acc_norm": None}


def test_the_config_block_is_lm_evals(result: RunResult) -> None:
    config = results_data(result, {})["config"]
    assert list(config) == [
        "model",
        "model_args",
        "batch_size",
        "batch_sizes",
        "device",
        "use_cache",
        "limit",
        "bootstrap_iters",
        "gen_kwargs",
        "random_seed",
        "numpy_seed",
        "torch_seed",
        "fewshot_seed",
    ]
    assert (config["random_seed"], config["torch_seed"], config["bootstrap_iters"]) == (0, 1234, 100)


def test_counts_say_how_many_there_were(result: RunResult) -> None:
    data = results_data(result, {})
    assert data["n-samples"]["toy_generation"] == {"original": 4, "effective": 3}  # one failed
    assert data["n-samples"]["toy_choice"] == {"original": 6, "effective": 6}
    assert isinstance(data["total_evaluation_time_seconds"], str)


def test_our_block_has_intervals_failures_and_the_manifest(result: RunResult) -> None:
    own = json.loads(json.dumps(results_data(result, {}), default=plain))["assay"]
    assert own["failures"] == {"too_long": {"count": 1, "example": "9 tokens"}}
    assert own["requests"]["failed"] == 1
    assert own["tasks"]["toy_generation"]["denominators"]["failed"] == 1
    assert own["tasks"]["toy_choice"]["metrics"][0]["estimate"]["method"] == "wilson"
    assert own["manifest"]["tasks"]["toy_choice"]["documents"] == 6
    assert own["run"] == result.run_id


def read(result: RunResult, task: str) -> list[dict[str, object]]:
    lines, _ = sample_lines(result.task(task))
    return [json.loads(line) for line in lines]


def test_a_sample_has_lm_evals_keys_in_order(result: RunResult) -> None:
    first = read(result, "toy_choice")[0]
    assert list(first) == [*SAMPLE, *HASHES, "acc", "acc_norm"]
    assert first["metrics"] == ["acc", "acc_norm"]
    assert first["target"] == "0"


def test_numbers_in_a_sample_are_texts(result: RunResult) -> None:
    first, answered = read(result, "toy_choice")[0], result.task("toy_choice").answered[0]
    totals = [output.total for output in answered.outputs]  # type: ignore[union-attr]
    assert first["resps"] == [[[str(total), "False"]] for total in totals]
    assert first["filtered_resps"] == [[str(total), "False"] for total in totals]
    assert first["arguments"]["gen_args_1"]["arg_1"] == " " + answered.instance.choices[1]  # type: ignore[index]


def test_a_rolling_sample_has_one_number_per_request(result: RunResult) -> None:
    first, answered = read(result, "toy_perplexity")[0], result.task("toy_perplexity").answered[0]
    total = answered.outputs[0].total  # type: ignore[union-attr]
    assert (first["resps"], first["filtered_resps"]) == ([[str(total)]], [str(total)])
    assert first["arguments"] == {"gen_args_0": {"arg_0": answered.document.fields["text"]}}


def test_hashes_are_those_of_document_prompt_and_target(result: RunResult) -> None:
    first, answered = read(result, "toy_generation")[0], result.task("toy_generation").answered[0]
    document = json.dumps(dict(answered.document.fields), indent=2, ensure_ascii=False)
    for name, text in (("doc", document), ("prompt", "0 + 7 ="), ("target", "7")):
        assert first[f"{name}_hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_of_a_file_is_that_of_its_lines_hashes(result: RunResult) -> None:
    lines, digest = sample_lines(result.task("toy_choice"))
    parts = [json.loads(line) for line in lines]
    joined = "".join(part[name] for part in parts for name in HASHES)
    assert digest() == hashlib.sha256(joined.encode()).hexdigest()


def test_a_failed_document_is_listed_with_its_failure(result: RunResult) -> None:
    lines = read(result, "toy_generation")
    assert [line["doc_id"] for line in lines] == [0, 1, 3, 2]
    assert lines[-1]["failures"] == [{"kind": "too_long", "message": "9 tokens", "retryable": True}]
    assert (lines[-1]["filter"], lines[-1]["metrics"]) == (None, [])


def test_a_failed_documents_row_has_what_was_answered_and_null_for_what_failed() -> None:
    task = toy_choice_task(1)
    first = task.build(task.documents()[0]).requests[0]
    model = ScriptedModel(lambda request: Failure("too_long", "9 tokens") if request == first else -1.0)
    (row,) = read(evaluate(model, [task], store=":memory:"), "toy_choice")
    assert row["resps"] == [[None], *[[["-1.0", "False"]]] * (len(row["resps"]) - 1)]  # type: ignore[arg-type]
    assert list(row) == [*SAMPLE, *HASHES, "failures"]


@pytest.mark.parametrize("task", ["toy_choice", "toy_generation", "toy_perplexity"])
def test_lines_come_in_the_order_of_the_documents(result: RunResult, task: str) -> None:
    scored = [line["doc_id"] for line in read(result, task) if line["filter"] is not None]
    assert scored == sorted(scored, key=int)  # type: ignore[call-overload]
