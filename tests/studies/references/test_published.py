"""Published numbers of the run's model beside its scores, and what differs in protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import explain_reference, load_run
from assay.core.errors import ArgumentError, TaskFileError, UnknownName
from assay.core.identity import Fingerprint
from assay.core.requests import Request
from assay.core.responses import Logprob
from assay.core.results import RunResult
from assay.studies.references.model_names import is_same_model, model_names
from assay.studies.references.protocol_report import REFERENCE_FORMATS
from assay.testing import ScriptedModel

REFERENCES = """
    - {model: acme/small-1b, metric: acc, value: 0.5, shots: 0, source: The paper}
    - {model: acme/small-1b, metric: acc, value: 0.99, shots: 5, source: The leaderboard, split: test, tool: Tool 1.0}
    - {model: acme/large-7b, metric: acc, value: 0.9, source: The paper}
    - {model: acme/small-1b, metric: f1, value: 0.9, source: The paper}
    - {task: pair, model: acme/small-1b, metric: acc, value: 0.1, source: The suite}
"""
TASK = f"""
task: coins
dataset_path: json
dataset_kwargs: {{data_files: {{test: coins.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_choice: [heads, tails]
doc_to_target: label
metric_list: [{{metric: acc}}]
card:
  rows: {{test: 40}}
  references: {REFERENCES}
"""
GROUP = f"""
group: pair
task: [coins]
aggregate_metric_list: [{{metric: acc}}]
card:
  description: x
  references: {REFERENCES}
"""
Run = Callable[..., RunResult]


class Named(ScriptedModel):
    """A model with a name of the Hub, or trained from it."""

    parent: str | None = None

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, weights=self.name, precision="float32", parent=self.parent)


class Trained(Named):
    parent = "0" * 64


def answer(request: Request) -> Logprob:
    return Logprob(-1.0 if "heads" in getattr(request, "continuation", "") else -2.0, 1, False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "coins.yaml").write_text(TASK)
    (tmp_path / "pair.yaml").write_text(GROUP)
    rows = "".join(json.dumps({"q": f"{place}?", "label": place % 2}) + "\n" for place in range(40))
    (tmp_path / "coins.jsonl").write_text(rows)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    def made(name: str = "acme/small-1b", task: str = "coins", kind: type[Named] = Named, **settings: Any) -> RunResult:
        model = kind(answer, name=name)
        return evaluate(model, task, store=folder / "s.db", include_path=[str(folder)], **settings)

    return made


def lines(result: RunResult) -> list[str]:
    return [line for item in result.contributions if item.key == "published" for line in item.lines]


def test_a_published_value_is_inside_or_outside_the_interval(run: Run) -> None:
    first, second, exact = lines(run())
    assert first.startswith("coins: acc of acme/small-1b published 0.5 (The paper, 0 shots): inside your interval 0.3")
    assert "(The leaderboard, 5 shots, here 0): 0.342" in second and " above your interval 0.3" in second
    assert second.endswith("; see: assay explain coins --reference acme/small-1b")
    assert exact == "A published value counts as exact here: its own sampling error is not known."


def test_other_models_trained_ones_and_other_revisions_have_no_published_numbers(run: Run) -> None:
    assert lines(run("acme/small-2b")) == lines(run("acme/small-1b", kind=Trained)) == []
    assert model_names("hf", {"pretrained": "a/b", "revision": "step1000"}, Fingerprint("a/b")) == []


def test_a_group_has_the_numbers_of_its_card(run: Run) -> None:
    assert any(
        line.startswith("pair: acc of acme/small-1b published 0.1 (The suite)") for line in lines(run(task="pair"))
    )


def test_result_files_and_reopened_runs_have_them(run: Run, folder: Path) -> None:
    result = run(output_path=folder / "out")
    (path,) = folder.glob("out/*/results_*.json")
    found = json.loads(path.read_text())["assay"]["published"]
    assert [(one["published"], one["place"], one["shots"], one["own_shots"]) for one in found] == [
        (0.5, "inside", 0, 0),
        (0.99, "above", 5, 0),
    ]
    assert lines(load_run(result.run_id, store=folder / "s.db")) == lines(result)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("EleutherAI/pythia-70m", "pythia-70m", True),
        ("EleutherAI/pythia-70m", "other/pythia-70m", False),
        ("gpt2", "openai-community/gpt2", True),
        ("Llama 2 7B", "meta-llama/Llama-2-7b-hf", True),
        ("Llama 3 8B", "meta-llama/Meta-Llama-3-8B", True),
        ("gpt2", "gpt2-large", False),
    ],
)
def test_names_of_one_model(one: str, other: str, same: bool) -> None:
    assert is_same_model(one, other) is is_same_model(other, one) is same


def test_a_folder_is_known_by_its_name_its_configuration_and_the_cache(tmp_path: Path) -> None:
    folder = tmp_path / "acme__small-1b"
    folder.mkdir()
    (folder / "config.json").write_text('{"_name_or_path": "acme/base-1b"}')
    found = model_names("hf", {"pretrained": str(folder)}, Fingerprint(str(folder)))
    assert [(name.text, name.origin) for name in found] == [
        ("acme/small-1b", "by the name of its folder"),
        ("acme/base-1b", "by _name_or_path in its config.json"),
    ]
    cached = tmp_path / "models--acme--tiny" / "snapshots" / "0123"
    cached.mkdir(parents=True)
    assert [name.text for name in model_names("hf", {"pretrained": str(cached)}, Fingerprint(str(cached)))] == [
        "acme/tiny"
    ]


def test_named_models_are_known_by_what_they_come_from() -> None:
    (name,) = model_names("smollm2", {}, Fingerprint("smollm2-1"))
    assert (name.text, name.origin) == (
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "smollm2 has its weights in 4 bits (Q4_1)",
    )


def test_the_protocol_of_a_task_beside_a_reference(folder: Path) -> None:
    path = str(folder / "coins.yaml")
    report = explain_reference(path, "leaderboard")
    (item,) = report.comparisons
    assert item.different == ("shots",) and item.unstated == ("documents", "style")
    aspects = {aspect.name: (aspect.published, aspect.here, aspect.is_same) for aspect in item.aspects}
    assert aspects["split"] == ("test", "test", True) and aspects["documents"] == ("", "40", None)
    assert len(explain_reference(path).listed["coins"]) == 4
    assert len(explain_reference(path, "small-1b").comparisons) == 3


def test_the_protocol_of_a_recorded_run_with_its_score(run: Run, folder: Path) -> None:
    result = run(limit=10, num_fewshot=0)
    item, other = explain_reference(result, "the paper", store=folder / "s.db").comparisons[:2]
    aspects = {aspect.name: (aspect.here, aspect.is_same) for aspect in item.aspects}
    assert aspects["documents"] == ("10 of 40", None) and aspects["precision"] == ("float32", None)
    assert item.score is not None and item.score.place == "inside" and item.different == ()
    assert other.score is None and other.different == ("model",)
    assert explain_reference("last", tasks=["coins"], store=folder / "s.db").listed.keys() == {"coins"}


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_reports_in_every_format(folder: Path, form: str) -> None:
    text = REFERENCE_FORMATS.text(form, explain_reference(str(folder / "coins.yaml"), "The leaderboard"))
    assert "Tool 1.0" in text and ("differs" in text or json.loads(text)["comparisons"][0]["different"] == ["shots"])
    listed = REFERENCE_FORMATS.text(form, explain_reference(str(folder / "coins.yaml")))
    assert listed.count("acme/small-1b") == 3


def test_unknown_names_say_which_are_known(folder: Path) -> None:
    path = str(folder / "coins.yaml")
    with pytest.raises(UnknownName, match='"acme/smal-1b" .did you mean "acme/small-1b"'):
        explain_reference(path, "acme/smal-1b")
    with pytest.raises(UnknownName, match="no published number is known"):
        explain_reference("demo_questions")
    with pytest.raises(ArgumentError, match="is a task"):
        explain_reference(path, tasks=["coins"])


def test_references_are_checked_in_the_file(folder: Path) -> None:
    (folder / "coins.yaml").write_text(TASK.replace("tool: Tool 1.0", "tol: Tool 1.0"))
    with pytest.raises(TaskFileError, match="tol"):
        evaluate("dummy", str(folder / "coins.yaml"), store=":memory:")
