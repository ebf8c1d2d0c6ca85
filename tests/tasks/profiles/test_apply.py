"""What a profile changes, what it leaves alone, and what users' own options change about it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError, UserError
from assay.options.specification import make_spec
from assay.run.open_model import arguments_like, arguments_notices
from assay.tasks.profiles.parse import find_profile, profile_names

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
    [("arc_challenge", "acc_mutual_phrase"), ("arc_easy", "acc_per_char"), ("boolq", "acc"), ("quiz", "acc_per_char")],
)
def test_olmes_has_a_normalisation_for_each_task(name: str, primary: str, write_task: Write, select: Select) -> None:
    write_task(name)
    letters, cloze = metrics(select(name, "olmes"))
    assert (letters, cloze[0]) == (["acc"], primary)


def curated(task: str) -> list[dict[str, Any]]:
    """Rows with the questions of the examples that OLMES shows before a task, in its order."""
    rule = find_profile("olmes").rule(task)
    assert rule is not None
    return [{**EXAMPLES[0], **row} for row in rule.variants[0].rows]


def test_olmes_shows_its_own_examples_at_any_position(write_task: Write, select: Select) -> None:
    own = curated("arc_easy")
    write_task("arc_easy", train=[*EXAMPLES[:2], own[3], own[0], EXAMPLES[2], own[4], own[2], own[1]])
    questions = [row["question"] for row in own]
    assert [shown(task) for task in select("arc_easy", "olmes").tasks] == [questions] * 2
    assert [task.notices() for task in select("arc_easy", "olmes").tasks] == [[], []]
    assert shown(select("arc_easy", "olmes", num_fewshot=2).tasks[0]) == questions[:2]
    assert shown(select("arc_easy", "olmes", num_fewshot=2, fewshot_sampler="first_n").tasks[0]) == ["q0", "q1"]


def test_a_split_that_lacks_an_example_of_olmes_is_reported(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=[*EXAMPLES, *curated("arc_easy")[:4]])
    letters, cloze = select("arc_easy", "olmes").tasks
    assert shown(letters) == shown(cloze) == ["q0", "q1", "q2", "q3", "q4"]
    assert letters.notices() == [
        "arc_easy@olmes-mcf: the split holds 4 of the 5 examples that the tool shows; first_n chooses instead"
    ]
    assert shown(select("arc_easy", "olmes", num_fewshot=3).tasks[0]) == [
        row["question"] for row in curated("arc_easy")[:3]
    ]


def test_more_examples_than_olmes_lists_are_reported(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=[*EXAMPLES, *curated("arc_easy")])
    task = select("arc_easy", "olmes", num_fewshot=6).tasks[0]
    assert shown(task) == [f"q{n}" for n in range(6)]
    assert task.notices() == [
        "arc_easy@olmes-mcf: the tool shows 5 examples and the run wants 6, so first_n chooses all"
    ]


@pytest.mark.parametrize("name", [name for name in profile_names() if find_profile(name).has_rules])
def test_what_differs_from_a_tool_is_in_the_notices(name: str, write_task: Write, select: Select) -> None:
    for task in ("mmlu_high_school_biology", "winogrande"):
        write_task(task)
    message = select("mmlu_high_school_biology,winogrande", name, num_fewshot=1).notices
    profile = find_profile(name)
    general = f"{name}: known differences from the tool: {' '.join(profile.deviations)}"
    rule = profile.rule("winogrande")
    own = [f"{name}: {text[:-1]}: winogrande" for text in (rule.deviations if rule else ())]
    assert message[0] == general and set(own) <= set(message)


def test_a_task_without_a_rule_is_reported(write_task: Write, select: Select) -> None:
    write_task("quiz")
    assert select("quiz", "llama-3").notices == (
        "llama-3: no rule for these tasks, which run as their files have them: quiz",
    )


def test_a_free_answer_that_helm_prompts_differently_is_reported(write_task: Write, select: Select) -> None:
    write_task("gsm8k")
    (line,) = select("gsm8k", "helm").notices
    assert line.startswith('helm: HELM asks "Q: …", "A:"') and line.endswith("run as their files have them: gsm8k")


def test_opencompass_leaves_out_questions_without_four_choices(write_task: Write, select: Select) -> None:
    rows = [
        {"question": f"q{size}", "choices": {"text": [*"wxyz!"[:size]], "label": [*"ABCDE"[:size]]}, "answerKey": "A"}
        for size in (3, 4, 5, 4)
    ]
    write_task("arc_easy", test=rows)
    (task,) = select("arc_easy", "opencompass").tasks
    assert [document.fields["question"] for document in task.documents()] == ["q4", "q4"]
    assert task.notices() == [
        "arc_easy@opencompass: 2 of 4 documents are left out: the tool leaves out questions that do not have 4 choices "
        "(the first: document 0)"
    ]


def test_olmes_opens_a_decoder_without_bos_and_says_so() -> None:
    assert arguments_like("hf", "olmes") == {"add_bos_token": False}
    assert arguments_like("ngram", "olmes") == arguments_like("hf", "helm") == {}
    message = "olmes: the model is opened with add_bos_token=false, as the tool does; --model_args wins"
    assert arguments_notices(make_spec("hf", ["t"], like="olmes")) == (message,)
    assert arguments_notices(make_spec("hf", ["t"], like="olmes", model_args="add_bos_token=true")) == ()
    assert arguments_notices(make_spec("hf", ["t"], like="lm-eval")) == ()


def test_settings_that_no_decoder_has_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "description: mine\nsource: {paper: ours}\nmodel_args:\n  add_bos_tokn: false\n  dtype: []\n"
        "default: {variants: [{style: cloze}]}\n"
    )
    with pytest.raises(UserError) as raised:
        arguments_like("hf", str(tmp_path / "mine.yaml"))
    first, second = raised.value.faults
    assert first.where.endswith("mine.yaml:4  model_args.add_bos_tokn") and '"add_bos_token"?' in first.found
    assert second.where.endswith("mine.yaml:5  model_args.dtype")


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
    built = [found.tasks[0].build(found.tasks[0].documents()[0]) for found in (plain, like)]
    assert built[0] == built[1]


def test_tasks_without_choices_run_as_they_are(write_task: Write, select: Select) -> None:
    write_task("sums")
    write_task("arc_easy")
    found = select("sums,arc_easy", "opencompass")
    assert names(found) == ["sums", "arc_easy@opencompass"]
    message = (
        "opencompass: says nothing of tasks that are not multiple choice, which run as their files have them: sums"
    )
    assert message in found.notices


@pytest.mark.parametrize("like", ["olmes", "helm", "opencompass"])
def test_answers_that_are_numbers_are_not_labels(like: str, write_task: Write, select: Select) -> None:
    texts = ["1", "2", "3", "4"]
    rows = [{"question": "1 + 1 =", "choices": {"text": texts, "label": [*"ABCD"]}, "answerKey": "B"}]
    write_task("arc_challenge", test=rows)
    for task in select("arc_challenge", like, num_fewshot=0).tasks:
        built = task.build(task.documents()[0])
        assert built.choices in (tuple(texts), (*"ABCD",)) and built.gold in (1, "B")


def test_the_general_rule_is_reported(write_task: Write, select: Select) -> None:
    write_task("quiz")
    message = "opencompass: no rule for these tasks, its general one was used: quiz"
    assert message in select("quiz", "opencompass").notices


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


@pytest.mark.parametrize(("style", "metric"), [("cloze", "acc_per_char"), ("letters", "acc")])
def test_the_users_style_wins_and_keeps_the_scores_of_its_kind(
    style: str, metric: str, write_task: Write, select: Select
) -> None:
    write_task("arc_easy", train=EXAMPLES)
    for found in (select("arc_easy", "olmes", style=style), select(f"arc_easy@{style}", "olmes")):
        assert names(found) == [f"arc_easy@olmes+{style}"]
        assert metrics(found)[0][0] == metric and found.combined == ()
        assert found.tasks[0].card.num_fewshot == 5


def test_the_tasks_own_style_can_be_requested(write_task: Write, select: Select) -> None:
    write_task("arc_easy", train=EXAMPLES)
    (task,) = select("arc_easy@own", "olmes", num_fewshot=0).tasks
    assert task.card.name == "arc_easy@olmes+own"
    assert task.build(task.documents()[0]).requests[0].prompt == "Question: What burns?\nAnswer:"


def test_what_the_profile_says_is_in_the_record(write_task: Write, select: Select) -> None:
    write_task("mmlu_high_school_biology")
    (task,) = select("mmlu_high_school_biology", "opencompass", num_fewshot=1).tasks
    assert task.card.config["description"].startswith(
        "The following are multiple choice questions (with answers) about  "
    )
    assert task.card.config["style"] == "opencompass"


def test_a_column_that_is_not_there_is_reported_with_the_profiles_line(write_task: Write, select: Select) -> None:
    write_task("winogrande", like="arc_easy")
    task = select("winogrande", "olmes", num_fewshot=0).tasks[0]
    with pytest.raises(DataError, match=r"olmes\.yaml:\d+  format\.question: .*sentence"):
        task.build(task.documents()[0])


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
        "olmes": ("acc_per_char", ("none",), False),
        "opencompass": ("acc_opencompass", ("none",), True),
        "helm": ("exact_match", ("strict", "extract"), True),
    }
    for like, words in expected.items():
        (metric,) = select("mmlu", like, num_fewshot=1).groups[-1].metrics
        assert (metric.metric, metric.filters, metric.weight_by_size) == words


def test_other_groups_than_mmlu_report_the_mean_of_each_tasks_best(
    tmp_path: Path, write_task: Write, select: Select
) -> None:
    for name in ("arc_easy", "arc_challenge", "sums"):
        write_task(name)
    words = "group: g\ntask: [arc_easy, arc_challenge, sums]\naggregate_metric_list: [{metric: acc}]\n"
    (tmp_path / "g.yaml").write_text(words, encoding="utf-8")
    found = select("g", "olmes", num_fewshot=1)
    # Their cloze forms have different first metrics, of which no average is made.
    assert [(group.name, group.metrics) for group in found.groups] == [("g@olmes-mcf", ()), ("g@olmes-cf", ())]
    assert [item.name for item in found.combined] == ["arc_easy", "arc_challenge", "g"]
    assert [member.name for member in found.combined[-1].members] == ["arc_easy", "arc_challenge"]


def test_members_with_different_first_metrics_are_not_averaged(
    tmp_path: Path, write_task: Write, select: Select
) -> None:
    for name in ("piqa", "winogrande"):
        write_task(name)
    words = "group: g\ntask: [piqa, winogrande]\naggregate_metric_list: [{metric: acc}]\n"
    (tmp_path / "g.yaml").write_text(words, encoding="utf-8")
    found = select("g", "opencompass")
    assert [group.metrics for group in found.groups] == [()]
    message = "no average is reported, as the members' first metrics differ (acc_opencompass, acc)"
    assert f"opencompass: {message}: g" in found.notices


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
    prompt = task.build(task.documents()[0]).requests[0].prompt
    assert prompt.endswith("|What burns?\n1. stone\n2. wood\nAnswer:")
    assert task.scoring.nulls == ("A:",)


def test_an_unknown_metric_is_reported_with_its_line(tmp_path: Path, write_task: Write, select: Select) -> None:
    write_task("quiz")
    own = tmp_path / "mine.yaml"
    own.write_text(
        "description: d\nsource: {}\ndefault:\n  variants:\n    - metrics: [acc, acc_nrm]\n", encoding="utf-8"
    )
    with pytest.raises(UserError, match=r'mine\.yaml:5  default.*metrics\[1\]: unknown metric "acc_nrm".*acc_norm'):
        select("quiz", own)
