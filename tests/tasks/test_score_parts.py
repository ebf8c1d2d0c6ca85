"""The key `score` of group files: what it means for the tasks of a run, and its faults with their lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.score_terms import BEST, MACRO, MICRO, CombinedTerm, Normalisation, TaskTerm
from assay.options.specification import make_spec
from assay.run.resolve import known_names, resolve_tasks
from assay.tasks.catalog import Catalog
from assay.tasks.file_checks import check_paths

TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [a, b]\ndoc_to_target: l\n"
)
Scores = Callable[..., dict[str, CombinedTerm]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{TASK}")
    (tmp_path / "pair.yaml").write_text("group: pair\ntask: [b, c]\n")
    (tmp_path / "x.jsonl").write_text('{"q": "?", "l": 0}\n')
    return tmp_path


@pytest.fixture
def scores(folder: Path) -> Scores:
    """Name → term of the scores of a group file's group."""

    def read(text: str, item: str = "suite", **settings: Any) -> dict[str, CombinedTerm]:
        (folder / "suite.yaml").write_text("group: suite\n" + text)
        spec = make_spec("dummy", [item], include_path=folder, **settings)
        groups = resolve_tasks(spec, (), Catalog([folder])).groups
        return {f"{group.name} {score.name}": score.term for group in groups for score in group.scores}

    return read


def test_without_members_every_task_below_counts_once(scores: Scores) -> None:
    (term,) = scores("task: [a, pair]\nscore: {metric: acc, floor: 0.5}\n").values()
    rule = Normalisation(0.5)
    assert term == CombinedTerm("suite", tuple(TaskTerm(name, ("acc",), None, rule) for name in "abc"), MACRO)


def test_micro_pools_the_documents_before_normalisation(scores: Scores) -> None:
    (term,) = scores("task: [a, pair]\nscore: {metric: acc, floor: 0.5, average: micro}\n").values()
    assert term == CombinedTerm("suite", tuple(TaskTerm(name, ("acc",)) for name in "abc"), MICRO, Normalisation(0.5))


def test_members_have_their_own_metrics_filters_and_floors(scores: Scores) -> None:
    text = (
        "task: [a, pair, d]\nscore:\n  name: average\n  scale: 100\n  metric: acc\n  members:\n"
        "    a: [acc, f1]\n    pair: {floor: chance, ceiling: 0.9}\n    d:\n"
        "    all: {of: [a, d], metric: em, filter: strict}\n"
    )
    found = scores(text)
    rule = Normalisation("chance", 0.9)
    inner = CombinedTerm("pair", (TaskTerm("b", ("acc",), None, rule), TaskTerm("c", ("acc",), None, rule)))
    both = CombinedTerm("all", (TaskTerm("a", ("em",), "strict"), TaskTerm("d", ("em",), "strict")))
    parts = (TaskTerm("a", ("acc", "f1")), inner, TaskTerm("d", ("acc",)), both)
    assert found == {"suite average": CombinedTerm("suite", parts, MACRO, scale=100)}


def test_a_part_may_have_parts_with_their_own_floors(scores: Scores) -> None:
    both = "both: {metric: f1, of: {b: {floor: 1/4}, c: {floor: 1/2}}}"
    text = f"task: [a, pair]\nscore:\n  members:\n    a: acc\n    {both}\n"
    (term,) = scores(text).values()
    terms = (TaskTerm("b", ("f1",), None, Normalisation(0.25)), TaskTerm("c", ("f1",), None, Normalisation(0.5)))
    assert term.parts == (TaskTerm("a", ("acc",)), CombinedTerm("both", terms))


def test_a_part_may_be_below_a_member_or_a_groups_own_score(scores: Scores, folder: Path) -> None:
    (folder / "pair.yaml").write_text("group: pair\ntask: [b, c]\nscore: {name: mark, metric: acc, floor: 0.2}\n")
    found = scores("task: [a, pair]\nscore: {members: {c: acc, pair: mark}}\n")
    rule = Normalisation(0.2)
    mark = CombinedTerm("pair", (TaskTerm("b", ("acc",), None, rule), TaskTerm("c", ("acc",), None, rule)))
    assert found["pair mark"] == mark
    assert found["suite score"].parts == (TaskTerm("c", ("acc",)), CombinedTerm("pair", (mark,)))


def test_several_scores_have_names(scores: Scores) -> None:
    text = "task: [pair]\nscore:\n  - {name: macro, metric: acc}\n  - {name: micro, metric: acc, average: micro}\n"
    assert {name: term.how for name, term in scores(text).items()} == {"suite macro": MACRO, "suite micro": MICRO}


def test_a_member_in_a_profile_counts_by_its_best_variant(scores: Scores) -> None:
    (term,) = scores("task: [a@olmes, b@letters]\nscore: {members: {a@olmes: , b@letters: acc}}\n").values()
    variants = (TaskTerm("a@olmes-mcf", ("acc",)), TaskTerm("a@olmes-cf", ("acc_per_char",)))
    assert term.parts == (CombinedTerm("a", variants, BEST), TaskTerm("b@letters", ("acc",)))


def test_a_group_that_its_tool_averages_first(scores: Scores, folder: Path) -> None:
    (folder / "mmlu.yaml").write_text("group: mmlu\ntask: [b, c]\n")
    (term,) = scores("task: [mmlu@olmes]\nscore: {scale: 100}\n").values()
    (best,) = term.parts
    assert isinstance(best, CombinedTerm) and best.how == BEST
    assert [part.name for part in best.parts if isinstance(part, CombinedTerm)] == ["mmlu@olmes-mcf", "mmlu@olmes-cf"]


def test_a_style_and_levels_of_the_group(scores: Scores) -> None:
    text = "task: [a]\nscore: {metric: acc}\n"
    assert scores(text, "suite@letters")["suite@letters score"].parts == (TaskTerm("a@letters", ("acc",)),)
    found = scores(text, style="letters", orders=2)
    assert found["suite@letters#order=2 score"].parts == (TaskTerm("a@letters#order=2", ("acc",)),)


def test_a_profile_of_the_whole_group_has_no_score_and_says_so(folder: Path) -> None:
    (folder / "suite.yaml").write_text("group: suite\ntask: [a]\nscore: {metric: acc}\n")
    spec = make_spec("dummy", ["suite@olmes"], include_path=folder)
    found = resolve_tasks(spec, (), Catalog([folder]))
    assert not any(group.scores for group in found.groups)
    assert any("its score is not reported" in line and "suite" in line for line in found.notices)


FAULTS = [
    ("score: 7", "suite.yaml:3  score: is 7"),
    ("score: {metrc: acc}", 'unknown key "metrc" (did you mean "metric"?)'),
    ("score: {scale: 0}", "score.scale: is 0; expected a number above 0"),
    ("score: {floor: low}", "score.floor: is 'low'; expected a number, a fraction such as 1/3, or chance"),
    ("score: {floor: 0.5, ceiling: 0.5}", "score.ceiling: is 0.5, which is not above the floor 0.5"),
    ("score: {ceiling: 0.5}", "score.ceiling: is given without a floor"),
    ("score: {average: mean}", "score.average: is 'mean'; expected macro (each counts once) or micro"),
    ("score: {members: {a: 7}}", "score.members.a: is 7; expected a metric, a list of metrics, or a mapping"),
    ("score: {members: {a: {mtric: acc}}}", 'score.members.a.mtric: unknown key "mtric"'),
    ("score: [{}, {}]", 'score[1].name: two scores are called "score"'),
    ("score: {name: acc}\naggregate_metric_list: [{metric: acc}]", '"acc" is the name of an aggregated metric'),
]


@pytest.mark.parametrize(("text", "found"), FAULTS)
def test_faults_have_their_line_in_a_run_and_a_check(scores: Scores, folder: Path, text: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        scores(f"task: [a, b]\n{text}\n")
    assert found in str(caught.value) and "suite.yaml:" in str(caught.value)
    report = check_paths([folder / "suite.yaml"], known_names(), catalog=Catalog([folder]))
    assert found in "\n".join(map(str, report.faults))


def test_a_part_that_is_no_member_is_a_fault(scores: Scores, folder: Path) -> None:
    text = r'suite.yaml:6  score.members.pear: "pear" is neither a member of the group "suite" nor below one \(did you'
    with pytest.raises(UserError, match=text):
        scores("task: [a, pair]\nscore:\n  members:\n    a: acc\n    pear: acc\n    c: acc\n")
    (fault,) = check_paths([folder / "suite.yaml"], known_names(), catalog=Catalog([folder])).faults
    assert str(fault).startswith(f"{folder}/suite.yaml:6  score.members.pear")
