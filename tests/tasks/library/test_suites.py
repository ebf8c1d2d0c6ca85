"""The suites of the library: their members' names, their cards, and their scores on made-up results by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.core.results import TaskResult
from assay.core.score_terms import CombinedTerm, GroupScore, ScoreTerm, TaskTerm
from assay.core.scores import Denominators, Estimate, MetricResult
from assay.core.specs import GroupSpec, TaskCard
from assay.options.specification import make_spec
from assay.run.resolve import known_names, resolve_tasks
from assay.scoring.aggregate import aggregate_groups
from assay.tasks.catalog import LIBRARY, Catalog, open_catalog
from assay.tasks.file_checks import check_paths
from assay.tasks.lm_eval.file.card import REQUIRED

FOLDER = LIBRARY / "suites"
SUITES = sorted(FOLDER.glob("*.yaml"))
NAMES = [path.stem for path in SUITES]
TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [a, b]\ndoc_to_target: l\n"
)
# Members that are groups, with the tasks that a stand-in needs.
GROUPS = {
    "anli": ["anli_r1", "anli_r2", "anli_r3"],
    "blimp": ["blimp_x", "blimp_y"],
    "leaderboard_bbh": ["leaderboard_bbh_navigate", "leaderboard_bbh_snarks"],
    "leaderboard_gpqa": ["leaderboard_gpqa_diamond", "leaderboard_gpqa_extended", "leaderboard_gpqa_main"],
    "leaderboard_math_hard": ["leaderboard_math_algebra_hard", "leaderboard_math_geometry_hard"],
    "leaderboard_musr": [
        "leaderboard_musr_murder_mysteries",
        "leaderboard_musr_object_placements",
        "leaderboard_musr_team_allocation",
    ],
    "mmlu": ["mmlu_anatomy", "mmlu_virology"],
}


def members(data: Mapping[str, Any]) -> Iterator[str]:
    """Members of a suite without what follows their @."""
    for member in data["task"]:
        name = member if isinstance(member, str) else member.get("task") or member["group"]
        yield name.partition("@")[0]


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small task for every member of a suite."""
    folder = tmp_path_factory.mktemp("members")
    (folder / "x.jsonl").write_text('{"q": "?", "l": 0}\n')
    own = {str(yaml.safe_load(path.read_text())["group"]) for path in SUITES}
    wanted = {name for path in SUITES for name in members(yaml.safe_load(path.read_text()))} - own
    for group in sorted(wanted & GROUPS.keys()):
        (folder / f"{group}.yaml").write_text(f"group: {group}\ntask: {GROUPS[group]}\n")
    for task in sorted(wanted - GROUPS.keys()) + [task for tasks in GROUPS.values() for task in tasks]:
        (folder / f"{task}.yaml").write_text(f"task: {task}\n{TASK}")
    return folder


@pytest.fixture(scope="module")
def groups(stand_ins: Path) -> Mapping[str, GroupSpec]:
    catalog = Catalog([stand_ins])
    found = [
        resolve_tasks(make_spec("dummy", [name], include_path=stand_ins), (), catalog).groups[-1] for name in NAMES
    ]
    return {group.name: group for group in found}


@pytest.mark.parametrize("path", SUITES, ids=NAMES)
def test_a_suite_has_a_card_and_no_faults(path: Path, stand_ins: Path) -> None:
    data = yaml.safe_load(path.read_text())
    assert data["group"] == path.stem
    assert set(REQUIRED) <= data["card"].keys() and len(data["card"]["description"]) <= 100
    assert check_paths([path], known_names(), catalog=Catalog([stand_ins])).faults == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_resolves_with_its_scores(name: str, groups: Mapping[str, GroupSpec]) -> None:
    data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    listed = data.get("score", [])
    scores = listed if isinstance(listed, list) else [listed]
    assert [score.name for score in groups[name].scores] == [entry.get("name", "score") for entry in scores]
    primary = data["card"]["primary"]
    assert not scores or primary in [score.name for score in groups[name].scores]


def terms_of(term: ScoreTerm) -> Iterator[TaskTerm]:
    if isinstance(term, TaskTerm):
        yield term
    else:
        for part in term.parts:
            yield from terms_of(part)


@pytest.mark.parametrize("name", [name for name in NAMES if "score:" in (FOLDER / f"{name}.yaml").read_text()])
def test_the_members_of_a_suite_report_the_metrics_of_its_scores(name: str) -> None:
    resolved = resolve_tasks(make_spec("dummy", [name]), (), open_catalog(()))
    reported = {task.card.name: {spec.name for spec in task.scoring.metrics} for task in resolved.tasks}
    group = next(group for group in resolved.groups if group.name == name)
    wanted = [(term.task, metric) for score in group.scores for term in terms_of(score.term) for metric in term.metrics]
    assert [(task, metric) for task, metric in wanted if metric.partition(",")[0] not in reported[task]] == []


# Values by hand


def tasks_of(term: ScoreTerm) -> Iterator[str]:
    return (part.task for part in terms_of(term))


def made_up(task: str, values: Mapping[str, float], primary: str, chance: float) -> TaskResult:
    metrics = tuple(
        MetricResult(
            name, "strict-match" if task == "gsm8k" else "none", Estimate(value, 0.01, None, None, 50, "t"), True
        )
        for name, value in values.items()
    )
    card = TaskCard(task, 1, task, "multiple_choice", 0, {}, "", facts={"primary": primary, "chance": chance})
    return TaskResult(card, metrics, Denominators(50, 50, 50), "", "")


def score(
    group: GroupSpec,
    values: Mapping[str, float],
    own: Mapping[str, Mapping[str, float]] | None = None,
    primary: str = "acc",
    chance: float = 0.25,
) -> float:
    """The first score of a suite if every task has these values, or its own."""
    first: GroupScore = group.scores[0]
    names = dict.fromkeys(tasks_of(first.term))
    results = [made_up(name, (own or {}).get(name, values), primary, chance) for name in names]
    flat = GroupSpec(group.name, group.name, tuple(names), scores=(first,))
    (found,) = aggregate_groups([flat], results)
    assert found.problem is None and found.metrics[0].estimate.value is not None
    return found.metrics[0].estimate.value


def test_glue_by_hand(groups: Mapping[str, GroupSpec]) -> None:
    values = {"acc": 0.6, "f1": 0.8, "mcc": 0.2, "pearson": 0.5, "spearman": 0.4}
    own = {"mnli_mismatch": {"acc": 0.7}}
    assert score(groups["glue"], values, own) == pytest.approx((20 + 60 + 70 + 45 + 70 + 65 + 60 + 60 + 60) / 9)


def test_superglue_by_hand(groups: Mapping[str, GroupSpec]) -> None:
    values = {"acc": 0.6, "f1": 0.8, "group_em": 0.4, "entity_f1": 0.3, "entity_em": 0.1}
    assert score(groups["superglue"], values) == pytest.approx((60 + 70 + 60 + 60 + 20 + 60 + 60 + 60) / 8)


def test_open_llm_v1_counts_mmlu_once(groups: Mapping[str, GroupSpec]) -> None:
    values = {"acc": 0.5, "acc_norm": 0.6, "exact_match": 0.1}
    own = {"mmlu_anatomy": {"acc": 0.2}, "mmlu_virology": {"acc": 0.4}}
    expected = (60 + 60 + 30 + 50 + 50 + 10) / 6
    assert score(groups["open-llm-v1"], values, own) == pytest.approx(expected)


def test_open_llm_v2_normalises_every_part(groups: Mapping[str, GroupSpec]) -> None:
    values = {
        "prompt_level_strict_acc": 0.25,
        "inst_level_strict_acc": 0.35,
        "acc_norm": 0.4,
        "math_verify": 0.1,
        "acc": 0.19,
    }
    musr = (0 + (0.4 - 0.2) / 0.8 + (0.4 - 1 / 3) / (2 / 3)) / 3
    expected = (30 + 100 * 0.15 / 0.75 + 10 + 100 * 0.15 / 0.75 + 100 * musr + 10) / 6
    assert score(groups["open-llm-v2"], values, primary="acc_norm") == pytest.approx(expected)


def test_early_signal_averages_arc_and_mmlu_first(groups: Mapping[str, GroupSpec]) -> None:
    own = {
        "arc_easy": {"acc_norm": 0.7},
        "arc_challenge": {"acc_norm": 0.3},
        "mmlu_anatomy": {"acc_norm": 0.2},
        "mmlu_virology": {"acc_norm": 0.6},
        "winogrande": {"acc_norm": 0.8},
    }
    values = {"acc": 0.9, "acc_norm": 0.4}
    assert score(groups["early-signal"], values, own) == pytest.approx((40 + 80 + 40 + 40 + 40 + 50 + 40 + 40) / 8)


def test_olmes_counts_the_better_form(groups: Mapping[str, GroupSpec]) -> None:
    letters, cloze = {"acc": 0.3}, {"acc": 0.4, "acc_per_char": 0.5, "acc_mutual_phrase": 0.6}
    names = dict.fromkeys(tasks_of(groups["olmes"].scores[0].term))
    own = {name: letters if name.endswith("mcf") else cloze for name in names}
    assert len(groups["olmes"].scores[0].term.parts) == 10
    # Phrase: ARC-Challenge, CommonsenseQA, OpenBookQA; raw: BoolQ, WinoGrande; characters: the other five.
    expected = (3 * 60 + 2 * 40 + 5 * 50) / 10
    assert score(groups["olmes"], {}, own) == pytest.approx(expected)


def test_mmlu_has_both_averages(groups: Mapping[str, GroupSpec]) -> None:
    macro, micro = (item.term for item in groups["mmlu-averages"].scores)
    assert isinstance(macro, CombinedTerm) and (macro.how, micro.how) == ("macro", "micro")
    assert list(tasks_of(macro)) == list(tasks_of(micro)) == GROUPS["mmlu"]
