"""Every key of lm-eval's task files, as lm-eval 0.4.13 reads it: the same requests, answers, scores and groups.

The task files and their data are in dialect/, what lm-eval made of them in golden/dialect_*.json. Nothing here needs
lm-eval, a hub or a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

datasets = pytest.importorskip("datasets")
pytest.importorskip("sacrebleu")
pytest.importorskip("sklearn")

from assay.scoring.metrics.aggregations import AGGREGATIONS  # noqa: E402
from assay.scoring.registry import FILTERS, METRICS, OF_BENCHMARKS  # noqa: E402
from assay.tasks.lm_eval.file.schema import CODE_KEYS, FEWSHOT_KEYS, GROUP_KEYS, TASK_KEYS  # noqa: E402
from parity.compare import Near, RecordComparison, Tolerance, is_same  # noqa: E402
from parity.golden import COMMAND, DIALECT, OWN, REQUEST_CASES, digest_of, jobs, read_golden, shortened  # noqa: E402
from parity.ours import Requests  # noqa: E402
from parity.ours_scores import group_of, scores_of, scripted_model  # noqa: E402
from parity.records import plain  # noqa: E402

JOBS = jobs()
TASKS, GROUPS = JOBS["scores"].tasks, JOBS["groups"].tasks
KINDS = ("requests", "scores", "groups")
FIELDS = ("results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples")
TOLERANCE = Tolerance(scores=Near(1e-9, 1e-9))
# Known differences. A fixed one fails here until its line is removed.
FOUND_OTHERWISE: dict[str, str] = {}
ASKED_OTHERWISE: dict[str, str] = {}
SCORED_OTHERWISE: dict[str, str] = {}
GROUPED_OTHERWISE = {
    (group, field): "in lm-eval of the group's own tasks, not of those below its groups"
    for group in ("dialect_nested", "dialect_again")
    for field in ("n-shot", "higher_is_better")
}


def expected(names: Sequence[Any], otherwise: dict[Any, str]) -> list[Any]:
    """Parameters, those of known differences marked as such."""
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in otherwise.items()}
    return [pytest.param(name, marks=marks.get(name, ()), id=str(name)) for name in names]


@pytest.fixture(scope="module", autouse=True)
def _quiet_and_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A separate data cache, and no progress bars. lm-eval ran in the dialect's folder, and so do we."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(DIALECT)
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("datasets"))
        was_shown = datasets.utils.logging.is_progress_bar_enabled()
        datasets.utils.logging.disable_progress_bar()
        yield
        if was_shown:
            datasets.utils.logging.enable_progress_bar()


@pytest.fixture(scope="module")
def golden() -> dict[tuple[str, str, str], dict[str, Any]]:
    """All records: (golden file, task, case) → record."""
    return {(kind, row["task"], row["case"]): row for kind in KINDS for row in read_golden(kind)["records"]}


@pytest.fixture(scope="module")
def grouped(golden: dict[Any, Any]) -> dict[str, Any]:
    """What our result files say: group → content."""
    answers = {group: golden["groups", group, OWN[0].name]["answers"] for group in GROUPS}
    found = {group: group_of(group, OWN[0], JOBS["groups"], scripted_model(texts)) for group, texts in answers.items()}
    return {group: plain(content) for group, content in found.items()}


@pytest.fixture(scope="module")
def requests() -> Requests:
    return Requests(JOBS["requests"])


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    own = shortened({**plain(ours), "task": theirs["task"], "case": theirs["case"]})
    found = RecordComparison(theirs, own, TOLERANCE).differences()
    return [f"document {item.document}, {item.field}: lm-eval {item.texts[0]}, Assay {item.texts[1]}" for item in found]


@pytest.mark.parametrize("kind", KINDS)
def test_golden_files_are_of_these_task_files(kind: str) -> None:
    settings = read_golden(kind)["settings"]
    stale = f"tests/parity/dialect has changed since lm-eval last ran on it. Run: {COMMAND}"
    assert settings["dialect_sha256"] == digest_of(DIALECT), stale


@pytest.mark.parametrize("kind", KINDS)
def test_every_task_and_group_has_a_record(kind: str) -> None:
    wanted = {(name, case.name) for name in JOBS[kind].tasks for case in JOBS[kind].cases}
    assert {(row["task"], row["case"]) for row in read_golden(kind)["records"]} == wanted


@pytest.mark.parametrize("case", REQUEST_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("task", expected(TASKS, ASKED_OTHERWISE))
def test_the_requests_are_the_same(task: str, case: Any, requests: Requests, golden: dict[Any, Any]) -> None:
    assert differences(golden["requests", task, case.name], requests.record(task, case)) == []


@pytest.mark.parametrize("task", expected(TASKS, SCORED_OTHERWISE))
def test_the_same_is_made_of_the_answers(task: str, golden: dict[Any, Any]) -> None:
    theirs = golden["scores", task, OWN[0].name]
    ours = scores_of(task, OWN[0], JOBS["scores"], scripted_model(theirs["answers"]))
    assert ours["failures"] == {}
    assert differences(theirs, ours) == []


@pytest.mark.parametrize("place", expected([*product(GROUPS, FIELDS)], GROUPED_OTHERWISE))
def test_groups_say_the_same(place: tuple[str, str], golden: dict[Any, Any], grouped: dict[str, Any]) -> None:
    group, field = place
    theirs, ours = golden["groups", group, OWN[0].name][field] or {}, grouped[group].get(field) or {}
    assert ours.keys() == theirs.keys()
    for name, entry in theirs.items():
        assert is_same(entry, ours[name], TOLERANCE.scores), f"{name}: lm-eval {entry}, Assay {ours[name]}"


@pytest.mark.parametrize("group", GROUPS)
def test_results_come_in_the_same_order(group: str, golden: dict[Any, Any], grouped: dict[str, Any]) -> None:
    assert list(grouped[group]["results"]) == list(golden["groups", group, OWN[0].name]["results"])


@pytest.mark.parametrize("task", expected(TASKS, FOUND_OTHERWISE))
def test_data_is_found_beside_the_task_file(
    task: str, requests: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert requests.record(task, REQUEST_CASES[0])["documents"]


def words_of_task_files() -> set[str]:
    files = [path for path in DIALECT.iterdir() if path.is_file() and path.suffix in ("", ".yaml")]
    return {word for path in files for word in re.findall(r"[\w+]+", path.read_text(encoding="utf-8"))}


def test_the_dialect_uses_every_key_there_is() -> None:
    unserved = {"doc_to_image", "doc_to_audio"}  # no model of this version takes them
    ours = {"card", "cluster", "format", "keep_docs", "perplexity", "prompts", "sample", "score"}
    assert {*TASK_KEYS, *GROUP_KEYS, *FEWSHOT_KEYS, *CODE_KEYS} - unserved - ours <= words_of_task_files()


def test_the_dialect_uses_every_filter_metric_and_aggregation_of_lm_eval() -> None:
    # What lm-eval cannot run (decontaminate, acc_all), has for --predict_only (bypass), or does not have (rouge…).
    left_out = {"decontaminate", "acc_all", "bypass", "rouge1", "rouge2", "rougeL", "rougeLsum"}
    left_out |= {"acc_tokens", "greedy_choice", "choice_mass", "choice_margin", "mean_of_known", "ece", "position_bias"}
    left_out |= {"positions"}
    left_out |= {"acc_mutual_phrase", "acc_opencompass", "acc_per_char"}
    left_out |= {"rotation_agreement", "rotation_all", "rotation_vote"}
    left_out |= {"token_perplexity", "nats_per_token", "document_perplexity", "document_perplexity_median"}
    left_out |= {"weighted_nats", "median_of_known"}
    left_out |= {"squad_em", "squad_f1", "set_f1"}
    left_out |= {"pass@k", "pass^k", "maj@k", "mean@k", "gpass@k", "draws"}
    left_out |= {"ece_adaptive", "auroc", "aurc", "selective_acc", "log_loss", "cohen_kappa"}
    left_out |= {"extract"}  # ours
    left_out |= {"macro_f1", "pearson", "spearman", "group_em", "group_f1", "entity_em", "entity_f1", "bias_score"}
    # Values of lm-eval's own task code, here metrics.
    left_out |= {"accuracy_amb", "accuracy_disamb", "amb_bias_score", "disamb_bias_score"}
    left_out |= {"pct_stereotype", "likelihood_diff", "mc2", "mrr", "acc_top2"}
    left_out |= set(OF_BENCHMARKS) | {"share_of_parts"}  # values of lm-eval's own task code, here metrics
    assert {*FILTERS.names(), *METRICS.names(), *AGGREGATIONS} - left_out <= words_of_task_files()


def test_no_file_of_the_dialect_is_a_leftover() -> None:
    files = [path for path in DIALECT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    unused = [path.name for path in files if path.suffix != ".yaml" and path.stem not in words_of_task_files()]
    assert unused == []
