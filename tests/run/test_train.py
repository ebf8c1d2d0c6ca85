"""The fit lap: a model's training examples, the name of a trained model, and when nothing is trained again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest

from assay.api import evaluate_matrix, finetune
from assay.core.errors import DataError, ModelError, StoreError, UserError
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.requests import Loglikelihood
from assay.core.specs import MetricSpec, RunSpec, Scoring
from assay.core.training import FitListener, FitProgress, FitReport, FitSettings, TrainingExample
from assay.run.events import Event, Noticed, Trained
from assay.run.open_model import trained_notices
from assay.store.store import Store
from assay.store.trained_models import FittedModel
from assay.testing import ScriptedModel, toy_choice_task
from assay.testing.toys import ToyTask


@dataclass(frozen=True)
class TrainableModel(ScriptedModel):
    """A model that can be trained: it writes a folder that looks like a model's, and records its calls of `fit`."""

    fit_calls: list[tuple[Sequence[TrainingExample], Sequence[TrainingExample], FitSettings]] = field(
        default_factory=list
    )
    capabilities: ClassVar = Capabilities(frozenset({"loglikelihood"}), learns=frozenset({"loglikelihood"}))

    def fit(
        self,
        training_examples: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        settings: FitSettings,
        folder: Path,
        listener: FitListener,
    ) -> FitReport:
        self.fit_calls.append((training_examples, validation, settings))
        listener(FitProgress(1, 1, 0.5, 0.75))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
        (folder / "model.safetensors").write_bytes(repr((len(training_examples), settings)).encode())
        return FitReport(1, 1, settings.metric, 0.75, notices=("a word about training",))


@dataclass(frozen=True)
class TrainableTask(ToyTask):
    """A toy task with training examples: one per number, with the task's own name."""

    training: int = 20
    validation: int = 0
    evaluated: tuple[TrainingExample, ...] = ()

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        if part == "evaluated":
            return list(self.evaluated)
        count = self.training if part == "training" else self.validation
        return [TrainingExample((Loglikelihood(f"{self.card.name} {part} {place}", " yes"),)) for place in range(count)]


@dataclass(frozen=True)
class Chosen(TrainableTask):
    """The same with choices."""

    choice_requests: tuple[Loglikelihood, ...] = ()

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        return [TrainingExample(self.choice_requests, place % 2) for place in range(12)]


def trainable_task(name: str, training: int = 20, validation: int = 0) -> TrainableTask:
    toy = toy_choice_task(4, name)
    return TrainableTask(toy.card, toy.scoring, toy.rows, toy.builder, training, validation)


def trainable_model() -> TrainableModel:
    return TrainableModel(lambda request: -1.0, "parent")


def prompts(training_examples: Sequence[TrainingExample]) -> list[str]:
    return [
        str(request.prompt)
        for training_example in training_examples
        for request in training_example.requests
        if request.kind == "loglikelihood"
    ]  # type: ignore[union-attr]


def test_a_share_is_held_out_where_the_task_has_no_validation_documents(tmp_path: Path) -> None:
    model, events = trainable_model(), list[Event]()
    finetune(model, trainable_task("sums", 20), store=tmp_path / "s.db", fit={"holdout": 0.2}, listener=events.append)
    ((training_examples, validation, _),) = model.fit_calls
    assert (len(training_examples), len(validation)) == (16, 4)
    assert sorted(prompts([*training_examples, *validation])) == sorted(f"sums training {place}" for place in range(20))
    assert Noticed("sums: 4 of 20 training documents are held out for validation") in events
    assert Noticed("a word about training") in events
    assert Trained(FitProgress(1, 1, 0.5, 0.75), "accuracy") in events


def test_validation_documents_of_the_task_are_used_where_there_are_some(tmp_path: Path) -> None:
    model = trainable_model()
    finetune(model, trainable_task("sums", 20, 3), store=tmp_path / "s.db")
    ((training_examples, validation, _),) = model.fit_calls
    assert (len(training_examples), prompts(validation)) == (20, [f"sums validation {place}" for place in range(3)])


def test_documents_that_are_evaluated_too_are_counted_in_training_and_validation(tmp_path: Path) -> None:
    task, events = trainable_task("sums", 20, 5), list[Event]()
    twice = (
        *task.training_examples("training", frozenset())[:3],
        *task.training_examples("validation", frozenset())[:2],
    )
    fitted = finetune(
        trainable_model(), replace(task, evaluated=twice), store=tmp_path / "s.db", listener=events.append
    )
    message = "documents are in the evaluated split, too"
    flattered = "the weights that do best on these are kept, which flatters their score"
    assert Noticed(f"sums: training: 3 of 20 {message}: a score on these is recall") in events
    assert Noticed(f"sums: validation: 2 of 5 {message}: {flattered}") in events
    assert (fitted.data["lessons_evaluated"], fitted.data["checks_evaluated"]) == (3, 2)


def test_documents_that_are_held_out_and_evaluated_are_counted_as_such(tmp_path: Path) -> None:
    task, events = trainable_task("sums", 20), list[Event]()
    every = replace(task, evaluated=tuple(task.training_examples("training", frozenset())))
    finetune(trainable_model(), every, store=tmp_path / "s.db", fit={"holdout": 0.2}, listener=events.append)
    assert [event.text.partition(" documents")[0] for event in events if isinstance(event, Noticed)][1:3] == [
        "sums: training: 16 of 16",
        "sums: validation: 4 of 4",
    ]


def test_a_run_of_a_trained_model_says_what_its_score_owes_to_evaluated_documents() -> None:
    data = {"lessons": 20, "lessons_evaluated": 3, "checks": 5, "checks_evaluated": 2}
    record = FittedModel("new", "k", "folder", {}, {}, {}, ("sums",), data, {}, {})
    with Store(":memory:") as store:
        store.fitted.add(record)
        spec = RunSpec("new", ("sums",))
        message = trained_notices(spec, store, ["sums", "other"])
        assert (
            trained_notices(spec, store, ["other"])
            == trained_notices(RunSpec("ngram", ("sums",)), store, ["sums"])
            == []
        )
    assert message == [
        "new learnt 3 documents that its tasks evaluate: a score on these is recall",
        "new was chosen among its checkpoints by 2 documents that its tasks evaluate: this flatters their score",
    ]


def scored(metric: str) -> TrainableTask:
    """With choices in its validation examples."""
    task = trainable_task("sums", 20, 5)
    pair = tuple(Loglikelihood("1 + 1 =", text) for text in (" 2", " 3"))
    made = Chosen(*(getattr(task, entry.name) for entry in fields(task)), pair)
    return replace(made, scoring=Scoring("multiple_choice", (MetricSpec(metric),)))


@pytest.mark.parametrize(
    ("metric", "given", "watched"),
    [
        ("acc", None, "accuracy"),
        ("mcc", None, "mcc"),
        ("f1", None, "f1"),
        ("word_perplexity", None, "loss"),
        ("mcc", "acc", "accuracy"),
        ("acc", "mcc", "mcc"),
        ("bleu", None, "accuracy"),
    ],
)
def test_the_first_metric_of_the_task_decides_unless_another_is_named(
    tmp_path: Path, metric: str, given: str | None, watched: str
) -> None:
    model, events = trainable_model(), list[Event]()
    fitted = finetune(
        model, scored(metric), store=tmp_path / "s.db", fit={"validation_metric": given}, listener=events.append
    )
    assert (model.fit_calls[0][2].metric, fitted.settings["metric"]) == (watched, watched)
    message = Noticed("checkpoints are chosen by accuracy: bleu is not computed while training")
    assert (message in events) == (metric == "bleu")


def test_tasks_with_different_first_metrics_are_watched_by_accuracy(tmp_path: Path) -> None:
    model, events = trainable_model(), list[Event]()
    two = [scored("acc"), replace(scored("mcc"), card=replace(scored("mcc").card, name="other"))]
    finetune(model, two, store=tmp_path / "s.db", listener=events.append)
    assert model.fit_calls[0][2].metric == "accuracy"
    assert Noticed("checkpoints are chosen by accuracy: the tasks' first metrics differ (acc, mcc)") in events


@pytest.mark.parametrize(("training", "holdout"), [(9, 0.5), (20, 0.0)])
def test_nothing_is_held_out_of_few_training_examples_or_when_not_wanted(
    tmp_path: Path, training: int, holdout: float
) -> None:
    model = trainable_model()
    finetune(model, trainable_task("sums", training), store=tmp_path / "s.db", fit={"holdout": holdout})
    ((training_examples, validation, _),) = model.fit_calls
    assert (len(training_examples), len(validation)) == (training, 0)


def test_several_tasks_are_concatenated_or_balanced(tmp_path: Path) -> None:
    model, tasks = trainable_model(), [trainable_task("sums", 6, 1), trainable_task("names", 4, 1)]
    finetune(model, tasks, store=tmp_path / "s.db")
    finetune(model, tasks, store=tmp_path / "s.db", fit={"mix": "balanced"})
    (one, _, _), (other, _, _) = model.fit_calls
    assert len(one) == 10
    assert [prompt for prompt in prompts(other) if prompt.startswith("names")] == [
        f"names training {place}" for place in (0, 1, 2, 3, 0, 1)
    ]
    assert len(other) == 12


def test_a_limit_draws_by_the_seed(tmp_path: Path) -> None:
    model, task = trainable_model(), trainable_task("sums", 100, 50)
    for seed in (1, 1, 2):
        fit = {"train_limit": 10, "check_limit": 5, "train_seed": seed}
        finetune(model, task, store=":memory:", folder=tmp_path / f"m{len(model.fit_calls)}", fit=fit)
    first, second, third = model.fit_calls
    assert (len(first[0]), len(first[1])) == (10, 5)
    assert first[0] == second[0]
    assert first[0] != third[0]
    assert prompts(first[0]) != [f"sums training {place}" for place in range(10)]


def test_what_was_trained_before_is_not_trained_again(tmp_path: Path) -> None:
    model, task, store = trainable_model(), trainable_task("sums"), tmp_path / "s.db"
    first = finetune(model, task, store=store)
    again = finetune(model, task, store=store)
    assert again == first
    assert len(model.fit_calls) == 1
    finetune(model, task, store=store, fit={"epochs": 5})
    finetune(replace(model, name="another parent", fit_calls=(later := [])), task, store=store)
    assert (len(model.fit_calls), len(later)) == (2, 1)


def test_a_model_whose_files_are_gone_is_trained_again(tmp_path: Path) -> None:
    model, task, store = trainable_model(), trainable_task("sums"), tmp_path / "s.db"
    fitted = finetune(model, task, store=store)
    (Path(fitted.folder) / "config.json").unlink()
    assert finetune(model, task, store=store).name == fitted.name
    assert len(model.fit_calls) == 2


def test_the_record_reports_where_the_model_comes_from(tmp_path: Path) -> None:
    model = trainable_model()
    fitted = finetune(
        model, trainable_task("sums", 20, 2), store=tmp_path / "s.db", fit={"finetune": "lora", "epochs": 2}
    )
    assert fitted.name.startswith("parent-sums-lora-")
    assert Path(fitted.folder) == tmp_path / "models" / fitted.name
    with Store(tmp_path / "s.db") as store:
        record = store.fitted.get(fitted.name)
    assert record is not None
    assert record == fitted
    assert record.parent["digest"] == model.fingerprint.digest
    assert record.fingerprint["weights"] and record.fingerprint["digest"] != model.fingerprint.digest
    assert (record.data["lessons"], record.data["checks"], record.tasks) == (20, 2, ("sums",))
    assert (record.settings["method"], record.settings["epochs"], record.settings["limit"]) == ("lora", 2.0, None)
    assert record.report["value"] == 0.75


def test_a_name_and_a_folder_may_be_chosen(tmp_path: Path) -> None:
    model, store = trainable_model(), tmp_path / "s.db"
    fitted = finetune(model, trainable_task("sums"), store=store, name="my-model", folder=tmp_path / "here")
    assert (fitted.name, fitted.folder) == ("my-model", str(tmp_path / "here"))
    with pytest.raises(StoreError, match='another model is called "my-model": it was trained on sums'):
        finetune(model, trainable_task("names"), store=store, name="my-model", folder=tmp_path / "there")
    assert len(model.fit_calls) == 1, "it is reported before the training"


@pytest.mark.parametrize("name", ["hf", "smollm2", "a/b", ".hidden", ""])
def test_a_name_that_cannot_be_one_is_refused_before_training(tmp_path: Path, name: str) -> None:
    model = trainable_model()
    with pytest.raises(UserError, match="--name"):
        finetune(model, trainable_task("sums"), store=tmp_path / "s.db", name=name)
    assert not model.fit_calls


def test_a_model_that_cannot_be_trained_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"scripted.*cannot be trained"):
        finetune(ScriptedModel(lambda request: -1.0), trainable_task("sums"), store=tmp_path / "s.db")


def test_a_task_without_training_examples_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="task toy_choice: has no training documents"):
        finetune(trainable_model(), toy_choice_task(3), store=tmp_path / "s.db")


def test_wrong_settings_are_reported_together() -> None:
    with pytest.raises(UserError) as caught:
        finetune(
            trainable_model(),
            trainable_task("sums"),
            store=":memory:",
            fit={"epochs": 0, "finetune": "all", "epoch": 3},
        )
    message = [str(fault) for fault in caught.value.faults]
    assert message[0] == '--epochs: is "0"; expected a number above 0'
    assert message[1] == '--finetune: is "all"; expected one of full, lora, head'
    assert "unknown training setting (did you mean" in message[2]


def test_in_a_matrix_every_column_has_a_model_of_its_own_and_a_gap_says_why(tmp_path: Path) -> None:
    """The folders hold no weights that could be loaded, so the cells stay empty: after the training."""
    model, tasks = trainable_model(), [trainable_task("sums"), trainable_task("names"), toy_choice_task(3)]
    matrix = evaluate_matrix(model, tasks, store=tmp_path / "s.db", finetune={"finetune": "head"}, bootstrap_iters=0)
    assert [
        {prompt.split()[0] for prompt in prompts(training_examples)} for training_examples, _, _ in model.fit_calls
    ] == [
        {"sums"},
        {"names"},
    ]
    reasons = {gap.task: gap.reason for gap in matrix.gaps}
    assert "has no training documents" in reasons["toy_choice"]
    assert len(reasons) == 3


def test_in_a_matrix_one_model_may_serve_all_columns(tmp_path: Path) -> None:
    model, tasks = trainable_model(), [trainable_task("sums"), trainable_task("names")]
    evaluate_matrix(
        model, tasks, store=tmp_path / "s.db", finetune={"finetune": "head"}, finetune_together=True, bootstrap_iters=0
    )
    ((training_examples, _, _),) = model.fit_calls
    assert {prompt.split()[0] for prompt in prompts(training_examples)} == {"sums", "names"}


def test_the_store_keeps_the_first_of_two_equal_records(tmp_path: Path) -> None:
    given = Fingerprint("parent").to_json()
    record = FittedModel("m", "key", "/here", {"add_bos_token": False}, given, given, ("t",), {}, {}, {}, 5.0)
    with Store(tmp_path / "s.db") as store:
        store.fitted.add(record)
        store.fitted.add(replace(record, created=6.0))
        assert store.fitted.all() == [record]
        assert store.fitted.of_key("key") == [record]
        assert store.fitted.get("other") is None
        with pytest.raises(StoreError, match="Choose another name"):
            store.fitted.add(replace(record, key="another"))
