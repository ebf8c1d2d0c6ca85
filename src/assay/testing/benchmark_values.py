"""What the contract of a benchmark checks, and what it found: values without computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.benchmark_checks import CHECKS

# A condition that few documents violate is a defect of the data, more is one of the task.
MOST_ODD_DOCUMENTS = 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """One violated condition of a task.

    Attributes:
        task: name of the task, with its style or head.
        check: name of the check, see `CHECKS`.
        message: what was found and what was expected.
        documents: documents that violate it; 0 if it concerns the task as a whole.
        total: documents that were checked.
        example: index of a document that violates it; None for the task as a whole.
        allowed: the reason for which the task's card allows it; empty for a fault.
        is_remark: whether so few documents violate it that it is a defect of the data, which is no fault of the task.
    """

    task: str
    check: str
    message: str
    documents: int = 0
    total: int = 0
    example: int | None = None
    allowed: str = ""
    is_remark: bool = False

    @property
    def is_fault(self) -> bool:
        """Whether the task must be changed, or its card must give a reason."""
        return not self.allowed and not self.is_remark

    def __str__(self) -> str:
        where = "" if self.example is None else f", document {self.example}"
        counted = f" ({self.documents:,} of {self.total:,} documents)" if self.documents else ""
        note = f" [allowed: {self.allowed}]" if self.allowed else ""
        return f"{self.task}{where}: {self.check}: {self.message}{counted}{note}"


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """A task, or one of its styles or heads, and what its contract found.

    Attributes:
        name: name of the task, with its style or head.
        documents: number of documents that were checked.
        done: names of the checks that apply to it.
        findings: the violated conditions.
        skipped: why nothing was checked; empty if something was.
    """

    name: str
    documents: int
    done: frozenset[str]
    findings: tuple[Finding, ...]
    skipped: str = ""

    def mark(self, check: str) -> str:
        """The outcome of a check: `ok`, `fault`, `allowed`, `remark`, or empty if it does not apply."""
        own = [finding for finding in self.findings if finding.check == check]
        if any(finding.is_fault for finding in own):
            return "fault"
        if own:
            return "allowed" if any(finding.allowed for finding in own) else "remark"
        return "ok" if check in self.done else ""

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON data."""
        findings = [
            {name: getattr(finding, name) for name in Finding.__slots__} | {"is_fault": finding.is_fault}
            for finding in self.findings
        ]
        marks = {check: self.mark(check) for check in CHECKS if self.mark(check)}
        return {
            "task": self.name,
            "documents": self.documents,
            "checks": marks,
            "findings": findings,
            "skipped": self.skipped,
        }


@dataclass(slots=True)
class FindingList:
    """Collects the findings of one task under the allowances of its card.

    Attributes:
        task: name of the task, with its style or head.
        total: documents that are checked.
        allowed: check → reason, from the card.
    """

    task: str
    total: int
    allowed: Mapping[str, str]
    done: set[str] = field(default_factory=set)
    found: list[Finding] = field(default_factory=list)

    def add(self, check: str, message: str) -> None:
        """A finding about the task as a whole."""
        reason = self.allowed.get(check, "")
        self.found.append(Finding(self.task, check, message, total=self.total, allowed=reason))

    def add_documents(self, check: str, message: str, documents: Sequence[int], strict: bool = False) -> None:
        """A finding about some documents; nothing if there are none.

        Args:
            check: the check.
            message: what was found.
            documents: their indices.
            strict: whether a single document is a fault.
        """
        if not documents:
            return
        is_remark = not strict and len(documents) <= MOST_ODD_DOCUMENTS * self.total
        self.found.append(
            Finding(
                task=self.task,
                check=check,
                message=message,
                documents=len(documents),
                total=self.total,
                example=documents[0],
                allowed=self.allowed.get(check, ""),
                is_remark=is_remark,
            )
        )
