"""Task files are checked without their data, all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import UserError
from assay.run.resolve import known_names
from assay.tasks.catalog import LIBRARY, Catalog
from assay.tasks.file_checks import CheckReport, check_paths

GOOD = (
    "task: good\ndataset_path: json\ntest_split: test\noutput_type: multiple_choice\n"
    "doc_to_text: 'Q: {{question}}'\ndoc_to_choice: options\ndoc_to_target: label\n"
)


def check(folder: Path, files: dict[str, str], columns: list[str] | None = None) -> CheckReport:
    for name, text in files.items():
        (folder / name).write_text(text)
    return check_paths([folder], known_names(), columns)


def test_the_shipped_library_has_no_faults() -> None:
    report = check_paths([LIBRARY], known_names())
    assert report.faults == ()
    kinds = [entry.kind for entry in Catalog().entries.values()]
    assert (report.tasks, report.groups) == (kinds.count("task"), kinds.count("group"))


def test_faults_of_all_files_come_together(tmp_path: Path) -> None:
    wrong = GOOD.replace("good", "wrong").replace("doc_to_text", "doc_to_txt") + "repeats: many\n"
    report = check(tmp_path, {"a.yaml": GOOD, "b.yaml": wrong, "c.yaml": "task: [\n", "d.yaml": "include: no\n"})
    shown = [str(fault).removeprefix(str(tmp_path)) for fault in report.faults]
    assert (report.files, report.tasks) == (4, 2)
    assert [line.split(".yaml")[0] for line in shown] == ["/b", "/b", "/b", "/c", "/d"]
    assert 'unknown key "doc_to_txt" (did you mean "doc_to_text"' in shown[0]


def test_an_include_need_not_be_whole_but_must_be_right(tmp_path: Path) -> None:
    base = "doc_to_text: '{{question}}'\nmetric_list:\n  - metric: accc\n"
    report = check(tmp_path, {"_base.yaml": base})
    (fault,) = report.faults
    assert '_base.yaml:3  metric_list[0].metric: unknown metric "accc" (did you mean "acc"' in str(fault)


def test_a_fault_of_an_include_is_reported_once(tmp_path: Path) -> None:
    files = {"_base.yaml": "repeats: many\n"}
    files |= {f"{name}.yaml": "include: _base.yaml\n" + GOOD.replace("good", name) for name in "xyz"}
    report = check(tmp_path, files)
    assert [fault.where for fault in report.faults] == [f"{tmp_path}/_base.yaml:1  repeats"]


def test_unknown_members_of_a_group_are_faults(tmp_path: Path) -> None:
    group = "group: all\ntask:\n  - good\n  - demo_text\n  - goood\n  - {task: new, dataset_path: json}\n"
    report = check(tmp_path, {"a.yaml": GOOD, "all.yaml": group})
    (fault,) = report.faults
    assert str(fault).startswith(f'{tmp_path}/all.yaml:5  task[2]: unknown task "goood" (did you mean "good"')


def test_an_inline_task_may_take_its_data_from_the_group(tmp_path: Path) -> None:
    group = "group: all\ndataset_path: json\ntask:\n  - {task: new, doc_to_text: q}\n"
    assert check(tmp_path, {"all.yaml": group}).faults == ()


def test_a_sample_document_shows_undefined_names(tmp_path: Path) -> None:
    text = "{% for o in options %}{{o}}{{loop.index}}{% endfor %}{{range(2)}}{{qestion}}{% set x = 1 %}{{x}}"
    report = check(tmp_path, {"a.yaml": GOOD.replace("Q: {{question}}", text)}, ["question", "options", "label"])
    (fault,) = report.faults
    assert "'qestion' is not a column of the sample document (did you mean \"question\"?)" in str(fault)


def test_columns_of_a_format(tmp_path: Path) -> None:
    stated = 'format: {question: "{{qestion}}", choices: optoins, answer: label, context: "{{label}} {{nobody}}"}\n'
    report = check(tmp_path, {"a.yaml": GOOD + stated}, ["question", "options", "label"])
    found = [str(fault).split("  ")[1] for fault in report.faults]
    assert [text.split(" is not a column")[0] for text in found] == [
        "format.question: 'qestion'",
        "format.choices: 'optoins'",
        "format.context: 'nobody'",
    ]


@pytest.mark.parametrize("path", ["nowhere", "empty"])
def test_nothing_to_check_is_an_error(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=path):
        check_paths([tmp_path / path], known_names())


def test_a_folder_of_yml_files_suggests_the_right_extension(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").write_text(GOOD)
    with pytest.raises(UserError, match=r"expected files that end in .yaml. Rename mine.yml to mine.yaml"):
        check_paths([tmp_path], known_names())


def test_faults_of_a_file_come_in_the_order_of_its_lines(tmp_path: Path) -> None:
    text = "metric_list: [{metric: accc}]\n" + GOOD.replace("doc_to_target: label\n", "repeats: 0\nrepeats: 0\n")
    report = check(tmp_path, {"a.yaml": text})
    places = [fault.where.removeprefix(f"{tmp_path}/a.yaml") for fault in report.faults]
    assert places == [":1  metric_list[0].metric", ":9  repeats", ":9  repeats", "  doc_to_target"]


def test_a_file_without_a_name_is_a_fault_unless_others_include_it(tmp_path: Path) -> None:
    base = GOOD.replace("task: good\n", "")
    report = check(tmp_path, {"base.yaml": base, "lone.yaml": base, "a.yaml": "include: base.yaml\ntask: a\n"})
    (fault,) = report.faults
    assert str(fault).startswith(f"{tmp_path}/lone.yaml: the file names neither a task nor a group")


def test_settings_of_a_metric_are_not_slips(tmp_path: Path) -> None:
    metric = "metric_list: [{metric: acc, average: macro, ignore_case: true, k: 3}]\n"
    generation = "generation_kwargs: {top_p: 0.9, top_k: 3, num_beams: 1, max_length: 8}\n"
    assert check(tmp_path, {"a.yaml": GOOD + metric + generation}).faults == ()


def test_code_that_changes_documents_ends_the_check_of_columns(tmp_path: Path) -> None:
    report = check(tmp_path, {"a.yaml": GOOD + "process_docs: !function utils.f\n"}, ["other"])
    assert not [fault for fault in report.faults if "sample document" in str(fault)]


def test_templates_are_checked_by_themselves_and_where_a_task_names_them(tmp_path: Path) -> None:
    template = "templates:\n  1: !Template\n    name: a\n    jinja: '{{q}} ||| {{a}}'\n"
    task = "task: t\ndataset_path: json\ntest_split: test\nprompts: templates.yaml\n"
    assert not check(tmp_path, {"templates.yaml": template, "t.yaml": task}).faults
    files = {"templates.yaml": template.replace("{{q}}", "{{q"), "u.yaml": task.replace("templates", "gone")}
    found = [str(fault) for fault in check(tmp_path, {"t.yaml": task, **files}).faults]
    assert len(found) == 2
    assert "templates.yaml:4" in found[0] and "template does not parse" in found[0]
    assert "u.yaml:4  prompts: no file or folder" in found[1]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("doc_to_choice: ['{{a}}', '{{b}}']\ndoc_to_target: label\n", "doc_to_choice: lists the choice '{{a}}'"),
        ("doc_to_choice: ['yes', 'no']\ndoc_to_target: 2\n", "doc_to_target: is 2; expected an index from 0 to 1"),
        ("doc_to_choice: ['1', '2']\ndoc_to_target: '{{label}}'\n", "the digits of a template are read as an index"),
    ],
)
def test_right_answers_that_can_be_no_choice_are_found_without_data(tmp_path: Path, keys: str, expected: str) -> None:
    (fault,) = check(tmp_path, {"a.yaml": GOOD.replace("doc_to_choice: options\ndoc_to_target: label\n", keys)}).faults
    assert expected in str(fault)
    inner = "fewshot_config: {doc_to_choice: ['{{a}}']}\n"
    (fault,) = check(tmp_path, {"a.yaml": GOOD + inner}).faults
    assert "fewshot_config.doc_to_choice: lists the choice" in str(fault)
