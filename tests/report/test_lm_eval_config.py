"""What was run, in lm-eval's keys: the whole configuration of a task, the model's facts, the chat template."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import rescore
from assay.core.protocols import ModelFacts
from assay.core.requests import Prompt
from assay.core.responses import Text
from assay.core.results import RunResult
from assay.core.specs import TaskCard
from assay.report.lm_eval_config import in_lm_evals_order, task_config
from assay.report.lm_eval_results import results_data, sample_lines
from assay.report.result_files import write_results
from assay.testing import ScriptedModel

TEMPLATE = "<{{ role }}>{{ text }}"
TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""


class Speaking(ScriptedModel):
    """A model with a template, and with facts."""

    def render(self, prompt: Prompt) -> str | None:
        return "".join(f"<{message.role}>{message.text}" for message in prompt)  # type: ignore[union-attr]

    def facts(self) -> ModelFacts:
        pad, eos, bos = ("<unk>", 0), ("</s>", 2), (None, None)
        return ModelFacts(260_032, "torch.float32", "main", "", 512, pad, eos, bos, TEMPLATE)


@pytest.fixture
def task(tmp_path: Path) -> str:
    (tmp_path / "rows.jsonl").write_text('{"q": "1 + 1 =", "a": "2"}\n')
    (tmp_path / "tiny.yaml").write_text(TASK)
    return str(tmp_path / "tiny.yaml")


@pytest.fixture
def chat(task: str, tmp_path: Path) -> Iterator[RunResult]:
    settings: dict[str, Any] = {"apply_chat_template": True, "store": tmp_path / "store.db"}
    yield evaluate(Speaking(lambda request: "2"), [task], bootstrap_iters=0, **settings)


def rows(result: RunResult) -> list[dict[str, Any]]:
    lines, _ = sample_lines(result.tasks[0], result.rendered)
    return [json.loads(line) for line in lines]


def test_a_sample_of_a_conversation_has_the_text_that_its_model_reads(chat: RunResult) -> None:
    (row,) = rows(chat)
    assert row["arguments"]["gen_args_0"]["arg_0"] == "<user>1 + 1 ="
    assert row["prompt_hash"] == hashlib.sha256(b"<user>1 + 1 =").hexdigest()
    assert row["assay"]["messages"] == [[{"role": "user", "content": "1 + 1 ="}]]


def test_a_sample_has_the_reasoning_apart_from_the_answer(task: str, tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: Text("2", "stop", reasoning="1 + 1 is 2"), kinds=["generation"])
    result = evaluate(model, [task], bootstrap_iters=0, store=tmp_path / "store.db")
    (row,) = rows(rescore(result.run_id, store=tmp_path / "store.db"))
    assert (row["resps"], row["filtered_resps"], row["assay"]["reasoning"]) == ([["2"]], ["2"], [["1 + 1 is 2"]])
    (plain,) = rows(evaluate(ScriptedModel(lambda request: "2"), [task], bootstrap_iters=0, store=tmp_path / "s.db"))
    assert "reasoning" not in plain.get("assay", {})


def test_a_run_scored_again_without_its_model_has_the_messages(chat: RunResult, task: str, tmp_path: Path) -> None:
    again = rescore(chat.run_id, metrics="exact_match", store=tmp_path / "store.db")
    (row,) = rows(again)
    assert row["arguments"]["gen_args_0"]["arg_0"] == row["assay"]["messages"][0]
    assert row["resps"] == rows(chat)[0]["resps"]


def test_files_name_the_template_and_its_hash(chat: RunResult, tmp_path: Path) -> None:
    path, *_ = write_results(chat, tmp_path / "out", log_samples=True)
    data = json.loads(path.read_text())
    assert data["chat_template"] == TEMPLATE
    assert data["chat_template_sha"] == hashlib.sha256(TEMPLATE.encode()).hexdigest()
    assert data["fewshot_as_multiturn"] is True


def test_without_chat_there_is_no_template(task: str) -> None:
    data = results_data(evaluate(Speaking(lambda _: "2"), [task], store=":memory:", bootstrap_iters=0), {})
    assert [data[key] for key in ("chat_template", "chat_template_sha", "fewshot_as_multiturn")] == [None] * 3


def test_the_facts_of_a_model_have_lm_evals_keys(chat: RunResult) -> None:
    data = results_data(chat, {})
    assert data["tokenizer_pad_token"] == ["<unk>", "0"]
    assert data["tokenizer_bos_token"] == [None, "None"]
    assert (data["eot_token_id"], data["max_length"]) == (2, 512)
    facts = {key: value for key, value in data["config"].items() if key.startswith("model_") and key != "model_args"}
    assert facts == {
        "model_num_parameters": 260_032,
        "model_dtype": "torch.float32",
        "model_revision": "main",
        "model_sha": "",
    }


def card(**config: Any) -> TaskCard:
    given = {"task": "t", "output_type": "multiple_choice", "doc_to_text": "q", **config}
    return TaskCard("t", 1, "t", "multiple_choice", 0, given, "folder/t.yaml")


def test_a_tasks_configuration_has_lm_evals_defaults_and_the_runs_metadata() -> None:
    config = task_config(card(metadata={"version": 1}, task_alias=None), {"pretrained": "folder"})
    assert config["metadata"] == {"version": 1, "pretrained": "folder", "config_source": "folder/t.yaml"}
    assert (config["unsafe_code"], config["repeats"], config["fewshot_delimiter"]) == (False, 1, "\n\n")
    assert "task_alias" not in config
    assert config["fewshot_config"]["doc_to_text"] == "q"
    assert config["fewshot_config"]["samples"] is None


def test_what_examples_say_for_themselves_wins() -> None:
    config = task_config(card(fewshot_config={"sampler": "first_n", "doc_to_text": "other"}), {})
    assert (config["fewshot_config"]["sampler"], config["fewshot_config"]["doc_to_text"]) == ("first_n", "other")


def test_keys_of_our_own_stay_and_a_python_tasks_configuration_stays_as_it_is() -> None:
    assert task_config(card(style="letters"), {})["style"] == "letters"
    own = TaskCard("t", 1, "t", "multiple_choice", 0, {"rows": 3}, "module")
    assert task_config(own, {"pretrained": "folder"}) == {"rows": 3}


def test_values_come_in_the_order_of_lm_evals_scoring_unless_the_task_scores_itself() -> None:
    values = {"acc_norm": 0.0, "mcc": (0, 1), "acc": 1.0, "own": 2}
    assert list(in_lm_evals_order(card(), values)) == ["acc", "mcc", "acc_norm", "own"]
    assert list(in_lm_evals_order(card(process_results="!function a.b"), values)) == list(values)
