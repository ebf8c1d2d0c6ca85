"""A filter that never ends, found after all answers were given: the error names the place, the answers are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import Text, evaluate
from assay.core.results import RunResult
from assay.testing import ScriptedModel

TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: sums.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "4"
generation_kwargs: {{until: ["."], max_gen_toks: 32}}
filter_list:
  - name: number
    filter:
      - function: {filter}
      - function: take_first
metric_list:
  - metric: exact_match
    regexes_to_ignore: [{ignored}]
"""
ENDLESS = "'(a+)+$'"


def run(folder: Path, filter: str = "regex", ignored: str = "") -> tuple[RunResult, ScriptedModel]:
    rows = [{"q": name} for name in ("one", "two", "three")]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(TASK.format(filter=filter, ignored=ignored))
    model = ScriptedModel(lambda request: Text("a" * 60 + "b" if "two" in str(request) else "#### 4"))
    return evaluate(model, "sums", store=folder / "s.db", include_path=folder), model


@pytest.mark.parametrize(
    ("filter", "ignored", "where"),
    [
        (f"regex\n        regex_pattern: {ENDLESS}", "", 'filter number, document 1: filter "regex": takes'),
        (
            f"extract\n        patterns: [{{regex: {ENDLESS}}}]",
            "",
            'filter number, document 1: filter "extract": takes',
        ),
        ("lowercase", ENDLESS, "document 1: takes"),
    ],
)
def test_an_endless_pattern_costs_its_task_alone_and_names_the_place(
    tmp_path: Path, filter: str, ignored: str, where: str
) -> None:
    failed, _ = run(tmp_path, filter, ignored)
    assert f"task sums, {where} more than 5 seconds" in failed.problems[0].text
    result, model = run(tmp_path)
    assert result.tasks[0].metrics[0].estimate.value == pytest.approx(2 / 3)
    assert not model.asked  # every answer was kept
