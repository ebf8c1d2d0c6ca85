"""What a profile changes, what it leaves alone, and what users' own options change about it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, UserError

Write = Callable[..., Path]
Select = Callable[..., Any]
EXAMPLES = [
    {"question": f"q{n}", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "AB"[n % 2]}
    for n in range(7)
]


def names(selection: Any) -> list[str]:
    return [task.card.name for task in selection.tasks]


def metrics(selection: Any) -> list[list[str]]:
    return [[spec.name for spec in task.scoring.metrics] for task in selection.tasks]


def shown(task: Any) -> list[str]:
    return [example.fields["question"] for example in task.examples(task.documents()[0])]


@pytest.mark.parametrize(
    ("name", "primary"),
    [("arc_challenge", "acc_mutual_phrase"), ("arc_easy", "acc_norm"), ("boolq", "acc"), ("quiz", "acc_norm")],
)
def test_olmes_has_a_normalisation_for_each_task(name: str, primary: str, write_task: Write, select: Select) -> None:
    write_task(name)
    letters, cloze = metrics(select(name, "olmes"))
    assert (letters, cloze[0]) == (["acc"], primary)


def test_olmes_takes_the_first_five_and_says_so(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=EXAMPLES)
    found = select("arc_easy", "olmes")
    assert [shown(task) for task in found.tasks] == [["q0", "q1", "q2", "q3", "q4"]] * 2
    assert found.notices == (
        "olmes: its curated examples are not shipped; the first five rows stand in for them: arc_easy",
    )
    assert select("arc_easy", "olmes", num_fewshot=0).notices == ()


def test_helm_balances_its_examples_by_the_text_of_the_right_choice(write_task: Write, select: Select) -> None:
    # By letters A and B would take turns; by texts "often" is right in all rows but one.
    rows = [
        {
            "question": f"q{n}",
            "choices": {"text": [["often", "x"], ["x", "often"]][n % 2], "label": ["A", "B"]},
            "answerKey": "AB"[n % 2],
        }
        for n in range(40)
    ]
    rows[7]["choices"] = {"text": ["x", "rare"], "label": ["A", "B"]}
    write_task("quiz", train=rows)

    def drawn(seed: int) -> list[str]:
        stream, often = random.Random(seed), [n for n in range(40) if n != 7]
        first = often.pop(stream.randrange(39))
        assert stream.randrange(1) == 0  # the rare one
        return [f"q{first}", "q7", f"q{often.pop(stream.randrange(38))}"]

    (task,) = select("quiz", "helm", num_fewshot=3).tasks
    assert shown(task) == drawn(0) != drawn(1234)


def test_lm_eval_leaves_names_prompts_and_metrics(write_task: Write, select: Select) -> None:
    write_task("arc_easy", num_fewshot=1)
    plain, like = select("arc_easy", None), select("arc_easy", "lm-eval")
    assert names(like) == ["arc_easy"] and metrics(like) == metrics(plain) and like.notices == ()
    posed = [found.tasks[0].pose(found.tasks[0].documents()[0]) for found in (plain, like)]
    assert posed[0] == posed[1]


def test_tasks_without_choices_run_as_they_are(write_task: Write, select: Select) -> None:
    write_task("sums")
    write_task("arc_easy")
    found = select("sums,arc_easy", "opencompass")
    assert names(found) == ["sums", "arc_easy@opencompass"]
    assert found.notices == (
        "opencompass: says nothing of tasks that are not multiple choice, which run as their files have them: sums",
    )


@pytest.mark.parametrize("like", ["olmes", "helm", "opencompass"])
def test_answers_that_are_numbers_are_no_labels(like: str, write_task: Write, select: Select) -> None:
    rows = [{"question": "1 + 1 =", "choices": {"text": ["1", "2"], "label": ["A", "B"]}, "answerKey": "B"}]
    write_task("arc_challenge", test=rows)
    for task in select("arc_challenge", like, num_fewshot=0).tasks:
        posed = task.pose(task.documents()[0])
        assert posed.choices in (("1", "2"), ("A", "B")) and posed.gold in (1, "B")


def test_the_general_rule_is_told(write_task: Write, select: Select) -> None:
    write_task("quiz")
    assert select("quiz", "opencompass").notices == (
        "opencompass: no rule for these tasks, its general one was used: quiz",
    )


def test_what_cannot_be_repeated_runs_as_its_file_has_it(write_task: Write, select: Select) -> None:
    write_task("truthfulqa_mc1")
    found = select("truthfulqa_mc1", "helm")
    assert names(found) == ["truthfulqa_mc1"]
    assert found.notices[0].endswith("which is not repeated; run as their files have them: truthfulqa_mc1")


def test_choices_of_which_always_the_same_is_right_are_not_listed(write_task: Write, select: Select) -> None:
    write_task("quiz", doc_to_target=1)
    found = select("quiz", "olmes")
    assert names(found) == ["quiz"]
    assert found.notices == (
        "olmes: the right choice stands at the same place in every document, so the choices cannot be listed in this "
        "order; run as their files have them: quiz",
    )


def test_examples_never_hold_the_document_itself(write_task: Write, select: Select) -> None:
    write_task("quiz", train=[], test=EXAMPLES, training_split=None)
    found = select("quiz", "olmes", num_fewshot=2)
    task = found.tasks[0]
    examples = [[item.fields["question"] for item in task.examples(task.documents()[place])] for place in (0, 1, 6)]
    assert examples == [["q1", "q2"], ["q0", "q2"], ["q0", "q1"]]
    assert any("no split but the evaluated one has examples" in line for line in found.notices)


def test_the_users_number_of_examples_wins(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=EXAMPLES)
    assert [task.card.num_fewshot for task in select("arc_easy", "olmes", num_fewshot=2).tasks] == [2, 2]
    assert [task.card.num_fewshot for task in select("arc_easy", "opencompass", num_fewshot=2).tasks] == [2]


def test_the_users_metrics_win(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    assert metrics(select("arc_easy", "olmes", metrics="acc_tokens,acc")) == [["acc_tokens", "acc"]] * 2
    assert metrics(select("arc_easy", "opencompass", metrics="+acc_tokens"))[0][-1] == "acc_tokens"
    assert metrics(select("arc_easy", "opencompass", metrics="+acc_tokens"))[0][0] == "acc_opencompass"


@pytest.mark.parametrize(("style", "metric"), [("cloze", "acc_norm"), ("letters", "acc")])
def test_the_users_style_wins_and_keeps_the_scores_of_its_kind(
    style: str, metric: str, write_task: Write, select: Select
) -> None:
    write_task("arc_easy", train=EXAMPLES)
    for found in (select("arc_easy", "olmes", style=style), select(f"arc_easy@{style}", "olmes")):
        assert names(found) == [f"arc_easy@olmes+{style}"]
        assert metrics(found)[0][0] == metric and found.combined == ()
        assert found.tasks[0].card.num_fewshot == 5


def test_the_tasks_own_style_can_be_asked_for(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=EXAMPLES)
    (task,) = select("arc_easy@own", "olmes", num_fewshot=0).tasks
    assert task.card.name == "arc_easy@olmes+own"
    assert task.pose(task.documents()[0]).requests[0].prompt == "Question: What burns?\nAnswer:"


def test_what_the_profile_says_is_in_the_record(write_task: Write, select: Select) -> None:
    write_task("mmlu_high_school_biology")
    (task,) = select("mmlu_high_school_biology", "opencompass", num_fewshot=1).tasks
    assert task.card.config["description"].startswith(
        "The following are multiple choice questions (with answers) about  "
    )
    assert task.card.config["style"] == "opencompass"


def test_a_column_that_is_not_there_is_told_with_the_profiles_line(write_task: Write, select: Select) -> None:
    write_task("winogrande", like="arc_easy")
    task = select("winogrande", "olmes", num_fewshot=0).tasks[0]
    with pytest.raises(DataError, match=r"olmes\.yaml:\d+  format\.question: .*sentence"):
        task.pose(task.documents()[0])


# Groups


def write_group(folder: Path) -> None:
    inner = "group: inner\ntask: [mmlu_a]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    outer = "group: mmlu\ngroup_alias: All\ntask: [inner, mmlu_b, sums]\naggregate_metric_list: [{metric: acc}]\n"
    (folder / "inner.yaml").write_text(inner, encoding="utf-8")
    (folder / "outer.yaml").write_text(outer, encoding="utf-8")


def test_a_group_has_a_copy_for_every_variant(tmp_path: Path, write_task: Write, select: Select) -> None:
    for name in ("mmlu_a", "mmlu_b"):
        write_task(name, like="mmlu_high_school_biology")
    write_task("sums")
    write_group(tmp_path)
    found = select("mmlu", "olmes", num_fewshot=1)
    members = {group.name: group.members for group in found.groups}
    assert members == {
        "inner@olmes-mcf": ("mmlu_a@olmes-mcf",),
        "inner@olmes-cf": ("mmlu_a@olmes-cf",),
        "mmlu@olmes-mcf": ("inner@olmes-mcf", "mmlu_b@olmes-mcf", "sums"),
        "mmlu@olmes-cf": ("inner@olmes-cf", "mmlu_b@olmes-cf", "sums"),
    }
    assert [group.alias for group in found.groups][-1] == "All@olmes-cf"


def test_a_group_reports_what_comes_first_and_weighs_as_the_tool_does(
    tmp_path: Path, write_task: Write, select: Select
) -> None:
    for name in ("mmlu_a", "mmlu_b"):
        write_task(name, like="mmlu_high_school_biology")
    write_task("sums")
    write_group(tmp_path)
    expected = {
        "olmes": ("acc_norm", ("none",), False),
        "opencompass": ("acc_opencompass", ("none",), True),
        "helm": ("exact_match", ("strict", "extract"), True),
    }
    for like, words in expected.items():
        (metric,) = select("mmlu", like, num_fewshot=1).groups[-1].metrics
        assert (metric.metric, metric.filters, metric.weight_by_size) == words


def test_the_best_is_taken_of_the_whole_group(tmp_path: Path, write_task: Write, select: Select) -> None:
    for name in ("mmlu_a", "mmlu_b", "arc_easy"):
        write_task(name, like="arc_easy" if name == "arc_easy" else "mmlu_high_school_biology")
    write_task("sums")
    write_group(tmp_path)
    found = select("mmlu,arc_easy", "olmes", num_fewshot=1).combined
    assert [(item.name, dict(item.variants)) for item in found] == [
        ("mmlu", {"mcf": "mmlu@olmes-mcf", "cf": "mmlu@olmes-cf"}),
        ("arc_easy", {"mcf": "arc_easy@olmes-mcf", "cf": "arc_easy@olmes-cf"}),
    ]


def test_a_group_that_reports_nothing_leaves_the_best_to_its_tasks(
    tmp_path: Path, write_task: Write, select: Select
) -> None:
    write_task("arc_easy")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [arc_easy]\n", encoding="utf-8")
    found = select("g", "olmes", num_fewshot=1)
    assert [group.metrics for group in found.groups] == [(), ()]
    assert [item.name for item in found.combined] == ["arc_easy"]


def test_a_group_without_changed_tasks_keeps_its_name(tmp_path: Path, write_task: Write, select: Select) -> None:
    write_task("sums")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [sums]\n", encoding="utf-8")
    assert [group.name for group in select("g", "olmes").groups] == ["g"]


# The user's own


def test_a_profile_of_the_users_own(tmp_path: Path, write_task: Write, select: Select) -> None:
    write_task("quiz", train=EXAMPLES)
    own = tmp_path / "mine.yaml"
    own.write_text(
        "description: ours\nsource: {paper: none}\ndefault:\n  variants:\n"
        "    - style: letters:numbers\n      metrics: [{metric: acc_mutual_phrase, phrase: 'A:'}]\n"
        "      num_fewshot: 1\n      fewshot: {sampler: default, seed: 3}\n      fewshot_delimiter: '|'\n",
        encoding="utf-8",
    )
    (task,) = select("quiz", own).tasks
    assert task.card.name == "quiz@mine"
    prompt = task.pose(task.documents()[0]).requests[0].prompt
    assert prompt.endswith("|What burns?\n1. stone\n2. wood\nAnswer:")
    assert task.scoring.nulls == ("A:",)


def test_an_unknown_metric_is_told_with_its_line(tmp_path: Path, write_task: Write, select: Select) -> None:
    write_task("quiz")
    own = tmp_path / "mine.yaml"
    own.write_text(
        "description: d\nsource: {}\ndefault:\n  variants:\n    - metrics: [acc, acc_nrm]\n", encoding="utf-8"
    )
    with pytest.raises(UserError, match=r'mine\.yaml:5  default.*metrics\[1\]: unknown metric "acc_nrm".*acc_norm'):
        select("quiz", own)
