"""Profiles are read with every fault and its line; those that come with the package are whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UserError
from assay.core.specs import LM_EVAL
from assay.options.specification import make_spec
from assay.run.resolve import known_names
from assay.tasks.profiles.apply import check_metrics
from assay.tasks.profiles.parse import find_profile, profile_names, read_profile

TOOLS = ["helm", "inspect", "lighteval", "llama-3", "lm-eval", "olmes", "opencompass", "simple-evals"]


def faults(folder: Path, text: str) -> list[str]:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_profile(path)
    return [str(fault).replace(f"{folder}/", "") for fault in caught.value.faults]


def test_there_are_eight_tools() -> None:
    assert profile_names() == TOOLS and LM_EVAL in TOOLS


@pytest.mark.parametrize("name", TOOLS)
def test_every_profile_names_its_source_and_its_deviations(name: str) -> None:
    profile = find_profile(name)
    assert profile.description and profile.deviations
    assert {"repository", "version"} <= set(profile.source)
    check_metrics(profile, known_names().metrics)
    assert all(rule.source or rule.unfit for rule in profile.rules)
    assert all(text.endswith(".") for text in profile.all_deviations)


def test_the_first_rule_that_fits_counts(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "description: d\nsource: {}\ntasks:\n"
        "  - {match: [x, 'a_?'], variants: [{metrics: [acc]}]}\n"
        "  - {match: 'a_*', unfit: 'no'}\n",
        encoding="utf-8",
    )
    profile = read_profile(path)
    assert [profile.rule(task) for task in ("x", "a_1", "a_12", "b")] == [
        profile.rules[0],
        profile.rules[0],
        profile.rules[1],
        None,
    ]


def test_a_pattern_after_an_exclamation_mark_leaves_names_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "description: d\nsource: {}\ntasks:\n  - {match: ['a_*', '!a_b*'], variants: [{metrics: [acc]}]}\n",
        encoding="utf-8",
    )
    profile = read_profile(path)
    assert [profile.rule(task) for task in ("a_1", "a_b", "a_bc")] == [profile.rules[0], None, None]


@pytest.mark.parametrize("name", profile_names())
def test_rules_of_mmlu_leave_out_its_successors(name: str) -> None:
    rules = find_profile(name).rules
    others = ("mmlu_pro_math", "mmlu_redux_virology")
    assert not any("mmlu_*" in rule.match and rule.is_for(task) for rule in rules for task in others)


def test_an_unknown_tool_has_near_names() -> None:
    with pytest.raises(UserError, match='unknown profile "opencompas" .did you mean "opencompass"'):
        make_spec("dummy", ["t"], like="opencompas")


def test_the_record_finds_the_users_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("description: d\nsource: {}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert make_spec("dummy", ["t"], like="mine.yaml").options.like == str(tmp_path / "mine.yaml")
    assert make_spec("dummy", ["t"], like="lm_eval").options.like == "lm-eval"


def test_a_missing_file_is_reported() -> None:
    with pytest.raises(UserError, match="nowhere.yaml"):
        make_spec("dummy", ["t"], like="nowhere.yaml")


def test_all_faults_of_a_profile_come_together(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        "description: d\n"
        "sources: {}\n"
        "tasks:\n"
        "  - match: a\n"
        "    combine: min\n"
        "    variants:\n"
        "      - style: leters\n"
        "        metrics: [3]\n"
        "        num_fewshot: -1\n"
        "        fewshot: {sampler: last, sed: 1}\n"
        "      - style: {prompt: '{{quesion}}'}\n"
        "        format: {question: q}\n"
        "        description: '{{'\n"
        "  - variants: []\n"
        "    unfit: x\n"
        "default: {match: b, variants: [1]}\n",
    )
    expected = [
        ("mine.yaml:2  sources", 'unknown key "sources" (did you mean "source"?)'),
        ("mine.yaml  source", "is missing"),
        ("mine.yaml:5  tasks[0].combine", "is 'min'"),
        ("mine.yaml:9  tasks[0].variants[0].num_fewshot", "is -1"),
        ("mine.yaml:10  tasks[0].variants[0].fewshot.sampler", "is 'last'"),
        ("mine.yaml:10  tasks[0].variants[0].fewshot.sed", 'unknown key "sed" (did you mean "seed"?)'),
        ("mine.yaml:7  tasks[0].variants[0].style", 'unknown style "leters" (did you mean "letters"'),
        ("mine.yaml:8  tasks[0].variants[0].metrics[0]", "is 3"),
        ("mine.yaml:13  tasks[0].variants[1].description", "template does not parse"),
        ("mine.yaml:12  format.choices", "is missing"),
        ("mine.yaml:12  format.answer", "is missing"),
        ("mine.yaml:11  tasks[0].variants[1].style.prompt", 'unknown name "quesion" (did you mean "question"?)'),
        ("mine.yaml:11  tasks[0].variants[1].style.answer", "is missing"),
        ("mine.yaml:6  tasks[0].variants", "several variants have the same name or none"),
        ("mine.yaml:14  tasks[1].match", "is missing"),
        ("mine.yaml:14  tasks[1].variants", "a rule has either variants or unfit"),
        ("mine.yaml:16  default.match", "has patterns, but is for all other tasks"),
        ("mine.yaml:16  default.variants[0]", "is 1"),
    ]
    assert len(found) == len(expected), "\n".join(found)
    assert [
        line for line, (where, what) in zip(found, expected, strict=True) if where not in line or what not in line
    ] == []


def test_what_a_rule_says_of_choices_filters_and_rows_is_checked(tmp_path: Path) -> None:
    text = (
        "description: d\nsource: {}\ngroups: {averaged_first: 3}\ntasks:\n"
        "  - match: a\n    choices: 1\n    variants:\n"
        "      - filters: [{name: x}]\n"
        "        fewshot: {by: letters, rows: [What burns?]}\n"
    )
    found = faults(tmp_path, text)
    expected = "a list of columns and their values: [{question: …}]"
    assert found == [
        "mine.yaml:6  tasks[0].choices: is 1; expected a whole number, 2 or more",
        "mine.yaml:9  tasks[0].variants[0].fewshot.by: is 'letters'; expected one of text, shown",
        f"mine.yaml:9  tasks[0].variants[0].fewshot.rows: is ['What burns?']; expected {expected}",
        "mine.yaml:8  tasks[0].variants[0].filters[0]: is {'name': 'x'}; expected {name: …, filter: [{function: …}]}",
        "mine.yaml:3  groups.averaged_first: is 3; expected a list of texts",
    ]
