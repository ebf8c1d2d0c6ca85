"""An explanation as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from assay.core.scores import Estimate
from assay.studies.explain.explain_report import explanation_data, explanation_markdown, explanation_text
from assay.studies.explain.explain_values import Cause, Explanation, TaskExplanation
from assay.studies.paired.paired_values import Score

FIRST = Score("odd", "acc", "none", Estimate(0.25, 0.1, 0.125, 0.5, 8, "wilson"))
SECOND = Score("odd", "acc_norm", "strict", Estimate(0.5, 0.1, None, None, 8, "wilson"))
CAUSES = (Cause("prompts", "one differs", ("-a·b⏎", "+a")), Cause("normalisation", "other metrics", (), 0.25))
TASK = TaskExplanation(FIRST, SECOND, 0.25, 8, 3, 1, CAUSES, ("a caveat",), "The end.")
BOTH = Explanation(("r1", "r2"), ("m1", "m2"), (TASK,))


def test_the_text_has_scores_flips_causes_and_an_end() -> None:
    assert explanation_text(BOTH).split("\n") == [
        "run r1 (m1) and run r2 (m2)",
        "",
        "odd",
        "",
        "- first:  acc 0.2500 (0.1250 … 0.5000), n = 8",
        "- second: acc_norm (strict) 0.5000, n = 8",
        "- difference: +25.00 points",
        "- of 8 documents that both scored, 3 are better in the second run, 1 worse",
        "",
        "prompts: one differs",
        "    -a·b⏎",
        "    +a",
        "",
        "normalisation: other metrics [+25.00 points]",
        "",
        "note: a caveat",
        "",
        "The end.",
    ]


def test_evidence_is_in_a_code_block_of_the_page() -> None:
    page = explanation_markdown(BOTH)
    assert page.startswith("# run r1 (m1) and run r2 (m2)\n\n## odd\n")
    assert "prompts: one differs\n\n```diff\n-a·b⏎\n+a\n```\n" in page
    assert page.endswith("The end.\n")


def test_what_is_missing_is_said() -> None:
    nothing = replace(FIRST, metric="", estimate=Estimate(None, None, None, None, 0, "none"))
    task = replace(TASK, first=nothing, difference=None, common=None, better=None, worse=None)
    text = explanation_text(replace(BOTH, tasks=(task,)))
    assert "- first:  no metric: no score" in text
    assert "difference" not in text and "[+25" not in text and "both scored" not in text


def test_units_other_than_shares_are_plain() -> None:
    far = replace(SECOND, estimate=replace(SECOND.estimate, value=12.5))
    assert "- difference: +12.25\n" in explanation_text(
        replace(BOTH, tasks=(replace(TASK, second=far, difference=12.25),))
    )


def test_the_data_is_json() -> None:
    data = json.loads(json.dumps(explanation_data(BOTH)))
    assert data["tasks"][0]["causes"][1] == {
        "kind": "normalisation",
        "text": "other metrics",
        "evidence": [],
        "points": 0.25,
        "name": "",
    }
