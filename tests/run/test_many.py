"""Runs of several models share their tasks."""

from __future__ import annotations

from pathlib import Path

from assay.options.specification import make_spec
from assay.run.many import SharedTasks


def test_models_share_tasks_that_they_build_alike() -> None:
    shared = SharedTasks()
    first = shared.select(make_spec("ngram", ["demo_questions"], model_args={"order": 3}), ["demo_questions"])
    again = shared.select(make_spec("ngram", ["demo_questions"], model_args={"order": 4}), ["demo_questions"])
    shots = shared.select(make_spec("ngram", ["demo_questions"], num_fewshot=2), ["demo_questions"])
    other = shared.select(make_spec("ngram", ["demo_scramble_cycle"]), ["demo_scramble_cycle"])
    assert again is first
    assert shots is not first
    assert [task.card.name for task in other.tasks] == ["demo_scramble_cycle"]


def test_task_code_that_reads_the_settings_of_the_model_is_resolved_for_each(tmp_path: Path) -> None:
    code = "def rows(**settings):\n    return {'test': [{'q': str(settings.get('order'))}]}\n"
    (tmp_path / "code.py").write_text(code)
    (tmp_path / "made.yaml").write_text(
        "task: made\ncustom_dataset: !function code.rows\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: '{{q}}'\ndoc_to_target: '{{q}}'\n"
    )
    shared, path = SharedTasks(), str(tmp_path / "made.yaml")
    specs = [make_spec("ngram", [path], model_args={"order": order}, allow_code=True) for order in (3, 4)]
    found = [shared.select(spec, [path]).tasks[0].documents()[0].fields["q"] for spec in specs]
    assert found == ["3", "4"]
