"""A run in several seeds, prompts, orders and draws: every number computed by hand, no request twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay import evaluate
from assay.api_records import rescore
from assay.core.errors import ModelError
from assay.core.requests import HEAD_KINDS, Generation, Loglikelihood, Request
from assay.core.responses import Failure
from assay.core.results import RunResult
from assay.studies.variance.variance_values import TaskVariance
from assay.testing.scripted import ScriptedModel

# Right (1) or wrong (0), by document and seed. Sums of squares: documents 1, seeds 1/2, the rest 1/2.
TABLE = {0: (1, 1), 1: (1, 0), 2: (0, 0), 3: (1, 0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"name": f"thing{place}", "options": ["yes", "no"], "label": 0} for place in range(4)]
    pool = [{"name": f"pool{place}", "options": ["yes", "no"], "label": place % 2} for place in range(50)]
    for split, listed in (("test", rows), ("train", pool)):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, listed)) + "\n")
    return tmp_path


def write(folder: Path, **keys: Any) -> str:
    task = {
        "task": "things",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "test.jsonl", "train": "train.jsonl"}},
        "test_split": "test",
        "training_split": "train",
        "output_type": "multiple_choice",
        "doc_to_text": "{{name}}:",
        "doc_to_choice": "options",
        "doc_to_target": "label",
        "metric_list": [{"metric": "acc"}],
    }
    path = folder / "things.yaml"
    path.write_text(yaml.safe_dump({**task, **keys}))
    return str(path)


def by_prompt(path: str, right: Callable[[str, int], int], **settings: Any) -> ScriptedModel:
    """A model that is right about a document, in a task of the run, where the function says 1."""
    asked = evaluate(ScriptedModel(lambda _: 0.0, name="asked"), path, store=":memory:", **settings)
    table: dict[Any, int] = {}
    for task in asked.tasks:
        for item in task.answered:
            prompt = item.instance.requests[0].prompt  # type: ignore[union-attr]
            assert prompt not in table  # the levels must put different prompts
            table[prompt] = right(task.name, item.document.id)

    def reply(request: Request) -> float:
        assert isinstance(request, Loglikelihood)
        return float((request.continuation == " yes") == table[request.prompt]) - 1.0

    return ScriptedModel(reply)


def seeded(name: str, document: int) -> int:
    return TABLE[document][0 if name.endswith("=1") else 1]


def only(result: RunResult) -> TaskVariance:
    (found,) = result.variance
    return found


def components(found: TaskVariance) -> dict[str, float]:
    assert found.parts is not None
    return {" ".join(part.effect): part.variance for part in found.parts.components}


def test_two_seeds_by_hand(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 2, "fewshot_seeds": [1, 2]}
    path = write(folder)
    result = evaluate(by_prompt(path, seeded, **settings), path, store=":memory:", **settings)
    assert [task.name for task in result.tasks] == ["things#seed=1", "things#seed=2"]
    found = only(result)
    assert (found.task, found.metric, found.filter, found.reason) == ("things", "acc", "none", "")
    # Mean squares: documents 1/3, seeds 1/2, the rest 1/6.
    expected = {"document": 1 / 12, "seed": 1 / 12, "document seed": 1 / 6}
    assert components(found) == pytest.approx(expected)
    assert found.parts is not None
    assert found.parts.mean == 0.5
    assert found.parts.stderr == pytest.approx(math.sqrt(1 / 12))
    assert found.documents_only_stderr == pytest.approx(math.sqrt(1 / 24))
    doubled = {item.factor: item.doubled for item in found.parts.forecasts}
    assert doubled == pytest.approx({"document": 1 / 4, "seed": math.sqrt(5 / 96)})
    assert found.parts.component("seed").share == pytest.approx(1 / 4)


def test_levels_and_predictions_of_an_axis(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 2, "fewshot_seeds": [1, 2]}
    path = write(folder)
    (axis,) = only(evaluate(by_prompt(path, seeded, **settings), path, store=":memory:", **settings)).axes
    assert (axis.name, dict(axis.scores)) == ("seed", {"1": 0.75, "2": 0.25})
    assert (axis.lowest, axis.highest, axis.spread) == ("2", "1", 0.5)
    # Picks: yes yes, yes no, no no, yes no. Half of the pairs agree; by chance 3/7 would.
    assert axis.agreement is not None and axis.agreement.value == 0.5
    assert axis.alpha is not None and axis.alpha.value == pytest.approx(1 / 8)


PROMPTS = [{"name": "colon", "text": "{{name}}:"}, {"name": "asked", "text": "Is {{name}} so?"}]


def test_prompts_and_seeds_are_crossed(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 1, "fewshot_seeds": 2, "prompts": "all"}
    path = write(folder, prompts=PROMPTS)
    model = by_prompt(path, lambda name, _: int("@colon" in name), **settings)
    result = evaluate(model, path, store=":memory:", **settings)
    assert [task.name for task in result.tasks] == [
        f"things@{prompt}#seed={seed}" for prompt in ("colon", "asked") for seed in (1234, 1235)
    ]
    found = only(result)
    # One prompt is always right, the other never: the mean square of prompts is 4, of 8 scores each.
    assert components(found)["prompt"] == pytest.approx(0.5)
    assert sum(components(found).values()) == pytest.approx(0.5)
    assert found.parts is not None and found.parts.stderr == pytest.approx(0.5) and found.documents_only_stderr is None
    assert {axis.name: dict(axis.scores) for axis in found.axes} == {
        "prompt": {"colon": 1.0, "asked": 0.0},
        "seed": {"1234": 0.5, "1235": 0.5},
    }
    (prompts,) = result.prompts
    assert prompts.scores == {"colon": 1.0, "asked": 0.0}


def test_prompts_alone_are_taken_apart_too(folder: Path) -> None:
    path = write(folder, prompts=PROMPTS)
    found = only(evaluate(by_prompt(path, lambda name, _: int("@colon" in name)), path, store=":memory:"))
    assert components(found)["prompt"] == pytest.approx(0.5)


def test_prompts_that_mean_other_choices_are_not_said_to_agree(folder: Path) -> None:
    other = {"name": "denied", "text": "Is {{name}} wrong?", "target": "{{1}}"}
    path = write(folder, prompts=[PROMPTS[0], other])
    (axis,) = only(evaluate("ngram", path, store=":memory:")).axes
    assert axis.agreement is None and axis.alpha is None


# Orders


CITIES = ["Rome", "Oslo", "Lima", "Bern"]


@pytest.fixture
def cities(folder: Path) -> str:
    rows = [{"name": name, "options": CITIES, "label": place} for place, name in enumerate(CITIES)]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return write(folder, doc_to_text="Which one is {{name}}?")


def test_the_right_answer_moves_with_its_choice(cities: str) -> None:
    def knows(request: Request) -> float:
        assert isinstance(request, Loglikelihood)
        name = str(request.prompt).split("Which one is ")[1].split("?")[0]
        return float(f"{request.continuation.strip()}. {name}" in str(request.prompt)) - 1.0

    result = evaluate(ScriptedModel(knows), f"{cities}@letters", store=":memory:", orders=5)
    found = only(result)
    assert found.axes[0].scores == dict.fromkeys("12345", 1.0)
    assert found.axes[0].agreement is not None and found.axes[0].agreement.value == 1.0
    prompts = {task.answered[0].instance.requests[0].prompt for task in result.tasks}  # type: ignore[union-attr]
    assert len(prompts) == 5
    assert "A. Rome\nB. Oslo\nC. Lima\nD. Bern" in str(
        result.task("things@letters#order=1").answered[0].instance.requests[0].prompt  # type: ignore[union-attr]
    )


def test_a_model_that_always_says_a_predicts_another_choice_in_another_order(cities: str) -> None:
    def first(request: Request) -> float:
        assert isinstance(request, Loglikelihood)
        return float(request.continuation == " A") - 1.0

    result = evaluate(ScriptedModel(first), f"{cities}@letters", store=":memory:", orders=24)
    (axis,) = only(result).axes
    # In every order one of the four cities stands first; over all 24 each of them in six.
    assert set(axis.scores.values()) == {0.25}
    assert axis.agreement is not None
    assert axis.agreement.value == pytest.approx(4 * math.comb(6, 2) / math.comb(24, 2))
    assert components(only(result))["order"] == 0.0


def test_a_written_letter_moves_too(cities: str) -> None:
    def knows(request: Request) -> str:
        assert isinstance(request, Generation)
        name = str(request.prompt).split("Which one is ")[1].split("?")[0]
        return str(request.prompt).split(f". {name}\n")[0][-1]

    result = evaluate(ScriptedModel(knows), f"{cities}@generate", store=":memory:", orders=4)
    assert {dict(found.axes[0].scores)["4"] for found in result.variance} == {1.0}
    assert result.variance[0].axes[0].agreement is not None


# Draws


def drawn(folder: Path, **keys: Any) -> str:
    sampled = {"until": ["\n"], "do_sample": True, "temperature": 0.7}
    written = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "{{'yes'}}"}
    scored = {"metric_list": [{"metric": "exact_match"}], "generation_kwargs": sampled}
    return write(folder, **{**written, **scored, **keys})


def say(request: Request) -> str:
    """Draws: yes yes, yes no, no no."""
    assert isinstance(request, Generation)
    rights = {"thing0:": 2, "thing1:": 1, "thing2:": 0}[str(request.prompt)]
    return "yes" if request.draw < rights else "no"


def test_draws_make_the_residual(folder: Path) -> None:
    result = evaluate(ScriptedModel(say), drawn(folder), store=":memory:", draws=2, limit=3)
    assert [task.name for task in result.tasks] == ["things"]
    found = only(result)
    # Within documents the variances are 0, 1/2 and 0; the mean square of documents is 1/2.
    assert components(found) == pytest.approx({"document": 1 / 6, "document draw": 1 / 6})
    assert found.parts is not None and found.parts.stderr == pytest.approx(math.sqrt(1 / 12))
    assert {axis.name: dict(axis.scores) for axis in found.axes} == {"draw": {"1": 2 / 3, "2": 1 / 3}}


def test_what_is_made_of_all_draws_has_no_axis_of_draws(folder: Path) -> None:
    pipelines = [
        {"name": "first", "filter": [{"function": "take_first"}]},
        {"name": "vote", "filter": [{"function": "majority_vote"}, {"function": "take_first"}]},
    ]
    path = drawn(folder, filter_list=pipelines)
    result = evaluate(ScriptedModel(say), path, store=":memory:", draws=2, limit=3)
    assert {found.filter: [axis.name for axis in found.axes] for found in result.variance} == {
        "first": ["draw"],
        "vote": [],
    }


def test_more_draws_request_only_the_new_ones(folder: Path) -> None:
    path, store, model = drawn(folder), folder / "s.db", ScriptedModel(say)
    evaluate(model, path, store=store, draws=2, limit=3)
    again = evaluate(model, path, store=store, draws=4, limit=3)
    assert (again.counts.asked, again.counts.known) == (6, 6)


# What the whole keeps


def test_repeating_requests_nothing_and_another_seed_its_own_only(folder: Path) -> None:
    path, store, model = write(folder), folder / "s.db", ScriptedModel(lambda _: 0.0)
    first = evaluate(model, path, store=store, num_fewshot=2, fewshot_seeds=3)
    assert first.counts.asked == first.counts.unique == 4 * 2 * 3
    assert evaluate(model, path, store=store, num_fewshot=2, fewshot_seeds=3).counts.asked == 0
    assert evaluate(model, path, store=store, num_fewshot=2, fewshot_seeds=4).counts.asked == 4 * 2
    # The first of the seeds is the run's own.
    assert evaluate(model, path, store=store, num_fewshot=2).counts.asked == 0


def test_a_document_that_failed_somewhere_is_left_out_of_the_table(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 2, "fewshot_seeds": [1, 2]}
    path = write(folder)
    model = by_prompt(path, seeded, **settings)

    def fails(request: Request) -> Any:
        is_one = str(request.prompt).endswith("thing3:")  # type: ignore[union-attr]
        return Failure("lost", "no answer") if is_one and model.handler(request) == 0.0 else model.handler(request)

    found = only(evaluate(ScriptedModel(fails, name="fails"), path, store=":memory:", **settings))
    assert found.parts is not None
    assert (found.parts.left_out, dict(found.parts.levels)) == (1, {"document": 3, "seed": 2})
    assert found.parts.mean == pytest.approx(3 / 6)


def test_a_metric_that_is_not_a_mean_is_not_taken_apart(folder: Path) -> None:
    path = write(folder, metric_list=[{"metric": "mcc"}])
    found = only(evaluate("ngram", path, store=":memory:", num_fewshot=2, fewshot_seeds=2))
    assert found.parts is None and found.reason == "the metric is not a mean over documents"
    assert set(found.axes[0].scores) == {"1234", "1235"}


def test_a_recorded_run_is_rescored_whole(folder: Path) -> None:
    path, store = write(folder), folder / "s.db"
    run = evaluate("ngram", f"{path}@letters", store=store, num_fewshot=2, fewshot_seeds=[1, 5], orders=2)
    again = rescore("last", store=store, metrics="+acc_bytes")
    assert [task.name for task in again.tasks] == [task.name for task in run.tasks]
    assert again.variance[0] == run.variance[0]
    assert [found.metric for found in again.variance] == ["acc", "acc_bytes"]


def test_result_files_name_every_variant_and_hold_the_parts(folder: Path) -> None:
    path, target = write(folder), folder / "out"
    evaluate("ngram", path, store=":memory:", num_fewshot=2, fewshot_seeds=[1, 2], output_path=target, log_samples=True)
    (file,) = target.glob("*/results_*.json")
    data = json.loads(file.read_text(encoding="utf-8"))
    assert list(data["results"]) == ["things#seed=1", "things#seed=2"]
    assert data["configs"]["things#seed=2"]["variant"] == {"task": "things", "seed": 2}
    (found,) = data["assay"]["variance"]
    assert found["levels"] == {"document": 4, "seed": 2} and {"stderr", "components", "forecasts"} <= set(found)
    assert len(list(target.glob("*/samples_things#seed=*.jsonl"))) == 2


def test_samples_are_chosen_by_the_tasks_own_name(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 1, "fewshot_seeds": 2, "samples": {"things": [0, 2]}}
    result = evaluate("ngram", write(folder), store=":memory:", **settings)
    assert [[item.document.id for item in task.answered] for task in result.tasks] == [[0, 2], [0, 2]]


def test_a_group_is_reported_for_every_variant(folder: Path) -> None:
    write(folder)
    group = {"group": "both", "task": ["things"], "aggregate_metric_list": [{"metric": "acc"}]}
    (folder / "both.yaml").write_text(yaml.safe_dump(group))
    result = evaluate("ngram", "both", include_path=folder, store=":memory:", num_fewshot=1, fewshot_seeds=[1, 2])
    assert {item.spec.name: item.spec.members for item in result.groups} == {
        "both#seed=1": ("things#seed=1",),
        "both#seed=2": ("things#seed=2",),
    }


def test_a_plain_run_has_no_variance(folder: Path) -> None:
    result = evaluate("ngram", write(folder), store=":memory:")
    assert result.variance == () and "variance" not in result.summary()


def test_a_head_that_sees_no_list_is_refused(cities: str) -> None:
    model = ScriptedModel(lambda _: 0.0, kinds=HEAD_KINDS)
    with pytest.raises(ModelError, match="with a classifier head, which sees neither examples nor a list"):
        evaluate(model, f"{cities}@letters", store=":memory:", orders=2)


def test_one_document_has_no_error(folder: Path) -> None:
    found = only(evaluate("ngram", write(folder), store=":memory:", num_fewshot=2, fewshot_seeds=2, limit=1))
    assert (found.parts, found.reason) == (None, "one document gives no variance")


def test_documents_in_clusters_are_counted_by_clusters(folder: Path) -> None:
    settings: Mapping[str, Any] = {
        "num_fewshot": 2,
        "fewshot_seeds": [1, 2],
        "cluster": "{{'a' if name < 'thing2' else 'b'}}",
    }
    path = write(folder)
    found = only(evaluate(by_prompt(path, seeded, **settings), path, store=":memory:", **settings))
    # Means 1, 1/2 | 0, 1/2: residuals of clusters 1/2 and −1/2, so the error is √(2·(1/4 + 1/4))/4.
    assert found.parts is not None and found.documents_only_stderr == pytest.approx(1 / 4)
    assert found.parts.stderr == pytest.approx(math.sqrt(1 / 16 + 1 / 24))
    for agreed in (found.axes[0].agreement, found.axes[0].alpha):
        assert agreed is not None and (agreed.n, agreed.clusters, agreed.method) == (4, 2, "cluster-bootstrap")


def test_the_number_of_available_levels_is_known(folder: Path) -> None:
    found = only(evaluate("ngram", f"{write(folder)}@letters", store=":memory:", orders=2, limit=3))
    assert found.available == {"document": 4, "order": 2}


def test_a_single_prompt_gives_its_name(folder: Path) -> None:
    prompts = [{"name": name, "text": f"{{{{name}}}} {name}:"} for name in ("one", "two")]
    path = write(folder, prompts=prompts)
    found = only(evaluate("ngram", f"{path}@two", store=":memory:", num_fewshot=2, fewshot_seeds=2))
    assert found.task == "things@two"


def test_an_error_speaks_of_no_orders_where_all_were_evaluated(folder: Path) -> None:
    found = only(evaluate("ngram", f"{write(folder)}@letters", store=":memory:", orders=2))
    assert found.parts is not None and found.parts.exhausted == ("order",)
    assert found.available["order"] == 2


def test_documents_with_equal_means_have_no_error_alone(folder: Path) -> None:
    settings: Mapping[str, Any] = {"num_fewshot": 2, "fewshot_seeds": [1, 2]}
    path = write(folder)
    model = by_prompt(path, lambda name, document: int((document % 2) == name.endswith("=1")), **settings)
    found = only(evaluate(model, path, store=":memory:", limit=2, **settings))
    assert found.parts is not None and found.parts.stderr == pytest.approx(0.5)
    assert found.documents_only_stderr is None


@pytest.mark.parametrize(("size", "message"), [(2, ["things: 6 seeds draw 2 different sets of examples"]), (900, [])])
def test_seeds_that_draw_the_same_examples_are_reported(folder: Path, size: int, message: list[str]) -> None:
    pool = [{"name": f"pool{place}", "options": ["yes", "no"], "label": 0} for place in range(size)]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, pool)) + "\n")
    settings: Mapping[str, Any] = {"num_fewshot": 1, "fewshot_seeds": 6, "fewshot_sampler": "fixed"}
    found = evaluate("dummy", write(folder), store=":memory:", **settings).notices
    assert [line.partition(";")[0] for line in found if "seeds draw" in line] == message


def test_a_metric_without_a_value_is_not_said_to_be_no_mean(folder: Path) -> None:
    path = drawn(folder, metric_list=[{"metric": "pass@k", "k": [2, 9]}])
    result = evaluate(ScriptedModel(say), path, store=":memory:", draws=2, limit=3)
    assert {found.metric: found.reason for found in result.variance} == {
        "pass@2": "",
        "pass@9": "the metric has no value",
    }
