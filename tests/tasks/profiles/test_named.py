"""`TASK@PROFILE`: a profile for one task of a run, or for a group's member; other tasks stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate, load_run, rescore
from assay.core.errors import UserError
from assay.core.requests import Request
from assay.core.responses import Logprob, Text
from assay.options.specification import make_spec
from assay.run.open_model import arguments_notices
from assay.tasks.profiles.parse import find_profile, named_profile, profile_names
from assay.tasks.styles import STYLES
from assay.testing import ScriptedModel

Write = Callable[..., Path]
Select = Callable[..., Any]


def names(selection: Any) -> list[str]:
    return [task.card.name for task in selection.tasks]


def prompts(selection: Any) -> dict[str, Any]:
    return {task.card.name: task.build(task.documents()[0]).requests for task in selection.tasks}


def member_lists(selection: Any) -> dict[str, tuple[str, ...]]:
    return {group.name: group.members for group in selection.groups}


def group_file(folder: Path, text: str, name: str = "suite") -> None:
    (folder / f"{name}.yaml").write_text(f"group: {name}\n{text}", encoding="utf-8")


def test_no_style_has_the_name_of_a_profile() -> None:
    assert not set(STYLES) & set(profile_names())


@pytest.mark.parametrize(
    ("text", "found"),
    [("olmes", ("olmes", "")), ("lm_eval", ("lm-eval", "")), ("olmes-mcf", ("olmes", "mcf")), ("olmesmcf", None)],
)
def test_a_text_names_a_profile_and_perhaps_a_variant(text: str, found: tuple[str, str] | None) -> None:
    assert named_profile(text) == found


def test_a_task_follows_its_profile_as_with_like(write_task: Write, select: Select) -> None:
    write_task("hellaswag")
    alone = prompts(select("hellaswag@olmes,hellaswag,hellaswag@helm", None, num_fewshot=1))
    assert list(alone) == ["hellaswag@olmes-mcf", "hellaswag@olmes-cf", "hellaswag", "hellaswag@helm"]
    for like in (None, "olmes", "helm"):
        found = prompts(select("hellaswag", like, num_fewshot=1))
        assert found.items() <= alone.items()


def test_a_named_profile_replaces_the_runs(write_task: Write, select: Select) -> None:
    write_task("hellaswag")
    assert names(select("hellaswag@helm,hellaswag", "olmes")) == [
        "hellaswag@helm",
        "hellaswag@olmes-mcf",
        "hellaswag@olmes-cf",
    ]


def test_one_variant_and_a_style_of_a_profile(write_task: Write, select: Select) -> None:
    write_task("hellaswag")
    assert names(select("hellaswag@olmes-cf,hellaswag@olmes+letters", None)) == [
        "hellaswag@olmes-cf",
        "hellaswag@olmes+letters",
    ]
    with pytest.raises(UserError, match='has no variant "xx" for this task; expected @olmes-mcf, @olmes-cf'):
        select("hellaswag@olmes-xx", None)


def test_the_users_options_override_a_named_profile(write_task: Write, select: Select) -> None:
    write_task("hellaswag")
    found = select("hellaswag@olmes,hellaswag", None, num_fewshot=0, style="letters")
    assert names(found) == ["hellaswag@olmes+letters", "hellaswag@letters"]
    assert found.tasks[0].card.num_fewshot == 0


def test_lm_eval_as_a_profile_of_one_task_names_it(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    group_file(write_task("boolq"), "task: [arc_easy, boolq]\n")
    found = select("arc_easy@lm-eval,arc_easy,suite@lm-eval", None)
    assert names(found) == ["arc_easy@lm-eval", "arc_easy", "boolq@lm-eval"]
    assert member_lists(found) == {"suite@lm-eval": ("arc_easy@lm-eval", "boolq@lm-eval")}
    assert [task.options.like for task in found.tasks] == ["lm-eval", None, "lm-eval"]


def test_the_best_variant_and_the_caveats_of_each_profile_are_reported(write_task: Write, select: Select) -> None:
    write_task("sums")
    write_task("arc_easy")
    found = select("arc_easy@olmes,sums@helm,arc_easy", None)
    assert [(best.tool, best.name) for best in found.combined] == [("olmes", "arc_easy")]
    assert any(line.startswith("olmes: the first five rows") or "olmes:" in line for line in found.notices)
    assert any("helm: has no rule for tasks that are not multiple choice" in line for line in found.notices)
    assert [profile.name for profile in found.named_profiles] == ["olmes", "helm"]


def test_a_group_reports_an_unknown_text_once(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    write_task("piqa")
    with pytest.raises(UserError) as found:
        select("arc_easy@leters,piqa@leters,arc_easy@short", None)
    assert [fault.found.partition(":")[0] for fault in found.value.faults] == ['"arc_easy@leters"', '"arc_easy@short"']


def test_an_unknown_text_suggests_styles_profiles_and_prompts(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    with pytest.raises(UserError, match=r'unknown style or profile "olms" \(did you mean "olmes"\?\).*no prompts'):
        select("arc_easy@olms", None)
    with pytest.raises(UserError, match=r'unknown style or profile "leters" \(did you mean "letters"\?\)'):
        select("arc_easy@leters", None)
    listed = [{"name": "plain", "text": "question"}]
    write_task("quiz", prompts=listed)
    with pytest.raises(UserError, match=r'"olmse" \(did you mean "olmes"\?\).*a prompt of the task \(plain\)'):
        select("quiz@olmse", None)


def test_settings_of_the_model_cannot_follow_one_task() -> None:
    spec = make_spec("hf", ["a@olmes"])
    (notice,) = arguments_notices(spec, [find_profile("olmes")])
    assert "--model_args add_bos_token=false, or use --like olmes" in notice
    own = make_spec("hf", ["a@olmes"], model_args="add_bos_token=true")
    assert arguments_notices(own, [find_profile("olmes")]) == ()
    assert arguments_notices(make_spec("ngram", ["a@olmes"]), [find_profile("olmes")]) == ()


# Members of groups


def test_members_name_styles_profiles_and_settings(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    write_task("hellaswag")
    members = "task:\n  - arc_easy@letters\n  - {task: hellaswag@olmes, num_fewshot: 1}\n  - arc_easy\n"
    group_file(write_task("boolq"), members)
    found = select("suite", None)
    expected = ("arc_easy@letters", "hellaswag@olmes-mcf", "hellaswag@olmes-cf", "arc_easy")
    assert member_lists(found) == {"suite": expected}
    assert names(found) == list(expected)


def test_a_member_may_be_a_group_with_a_profile(write_task: Write, select: Select) -> None:
    folder = write_task("mmlu_high_school_biology")
    group_file(folder, "task: [mmlu_high_school_biology]\naggregate_metric_list: [{metric: acc}]\n", "mmlu")
    group_file(folder, "task: [mmlu@olmes, mmlu@letters, mmlu]\n")
    found = member_lists(select("suite", None))
    assert found["suite"] == ("mmlu@olmes-mcf", "mmlu@olmes-cf", "mmlu@letters", "mmlu")
    assert found["mmlu@olmes-mcf"] == ("mmlu_high_school_biology@olmes-mcf",)


def test_a_wording_of_the_group_applies_to_all_members(write_task: Write, select: Select) -> None:
    write_task("arc_easy")
    group_file(write_task("hellaswag"), "task: [arc_easy@letters, hellaswag@olmes]\n")
    assert names(select("suite@cloze", None)) == ["arc_easy@cloze", "hellaswag@cloze"]
    assert names(select("suite@helm", None)) == ["arc_easy@helm", "hellaswag@helm"]
    # An option of the run is weaker than what a member says.
    assert names(select("suite", "helm")) == ["arc_easy@helm+letters", "hellaswag@olmes-mcf", "hellaswag@olmes-cf"]


def test_an_unknown_member_names_group_and_advice(write_task: Write, select: Select) -> None:
    group_file(write_task("arc_easy"), "task:\n  - arc_easy\n  - arc_eazy@letters\n")
    with pytest.raises(UserError) as caught:
        select("suite", None)
    text = str(caught.value)
    assert 'suite.yaml:4  task[1]: unknown task "arc_eazy" (did you mean "arc_easy"?)' in text
    assert 'a member of the group "suite"' in text and "--include_path" in text


# Records


def answer(request: Request) -> Logprob | Text:
    if request.kind == "generation":
        return Text("A")
    return Logprob(-float(len(str(getattr(request, "continuation", "")))), 1, False)


def test_a_recorded_run_is_loaded_and_rescored(write_task: Write, tmp_path: Path) -> None:
    folder, store = write_task("hellaswag"), tmp_path / "s.db"
    tasks = ["hellaswag@olmes", "hellaswag@helm", "hellaswag"]
    first = evaluate(ScriptedModel(answer), tasks, include_path=folder, store=store, bootstrap_iters=0, num_fewshot=1)
    loaded = load_run(first.run_id, store=store)
    assert [task.name for task in loaded.tasks] == [task.name for task in first.tasks]
    assert loaded.to_dicts() == first.to_dicts()
    again = rescore(first.run_id, metrics="+acc_bytes", store=store)
    assert "acc_bytes" in [metric.metric for metric in again.task("hellaswag").metrics]
