"""The audit as text and as data."""

from __future__ import annotations

from assay.studies.audit.audit_report import audit_data, audit_lines
from assay.studies.audit.extraction_audit import Disagreement, PipelineAudit, TaskAudit


def disagreement(number: int) -> Disagreement:
    return Disagreement(number, 0, {"one": "A", "two": "B\x1b[31m"}, ("B", "b"), "… A or B", number == 1)


AUDIT = TaskAudit(
    "t",
    (
        PipelineAudit("p", 9, {"one": 6, "two": 0}, 3, 2, 1, (disagreement(0), disagreement(1), disagreement(2))),
        PipelineAudit("q", 9, {"regex": 9}, 0, 2, 2, ()),
    ),
    (disagreement(2),),
)


def test_counts_come_before_the_documents() -> None:
    lines = list(audit_lines([AUDIT], 2))
    assert lines[0] == "audit of t (p): 9 texts, no answer in 3, cut off 2, of which 1 with an answer"
    assert lines[1:4] == [
        "        6 × one",
        "        0 × two",
        "  3 texts from which the extractors read different answers:",
    ]
    assert lines[4] == "  document 0: one 'A', two 'B\\x1b[31m'; right: 'B' or 'b'"
    assert lines[6].endswith("right: 'B' or 'b', cut off")
    assert "  and 1 more: --audit all" in lines
    assert "audit of t: 1 text read differently by its pipelines" in lines


def test_all_documents_are_shown_on_request() -> None:
    lines = list(audit_lines([AUDIT], None))
    assert [line.partition(":")[0] for line in lines if line.startswith("  document")] == [
        "  document 0",
        "  document 1",
        "  document 2",
        "  document 2",
    ]
    assert not any("more" in line for line in lines)


def test_a_run_without_extraction_says_so() -> None:
    assert list(audit_lines([], 20)) == ["audit: no task of this run extracts answers from generated text"]


def test_the_data_is_whole() -> None:
    data = audit_data([AUDIT])["t"]
    assert list(data) == ["pipelines", "between"]
    assert data["pipelines"][0]["matched"] == {"one": 6, "two": 0}
    assert len(data["pipelines"][0]["disagreements"]) == 3
    assert data["between"][0]["answers"] == {"one": "A", "two": "B\x1b[31m"}
