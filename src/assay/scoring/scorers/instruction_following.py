"""IFEval's values of a document: which of its instructions a generated text follows, strictly or loosely.

In: an answer view and the document, with the columns `instruction_id_list` and `kwargs`. Out: per document, whether all
are followed, or (followed, asked). Loosely, a text follows if it does so without its first or last line or asterisks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, LimitError, did_you_mean
from assay.guard.time_limit import ResourceLimit
from assay.scoring.instructions.checks import CHECKS
from assay.scoring.instructions.language import EXTRA, PACKAGE
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.row_values import row_value


@dataclass(frozen=True, slots=True)
class PromptFollowed:
    """Whether every instruction of a prompt is followed."""

    package: ClassVar[str] = PACKAGE
    extra: ClassVar[str] = EXTRA
    is_loose: bool

    def __call__(self, view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
        """1.0 or 0.0; the mean over several draws."""
        values = [float(all(followed(text, document, self.is_loose))) for text in view.texts]
        return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class InstructionsFollowed:
    """How many instructions of a prompt are followed."""

    package: ClassVar[str] = PACKAGE
    extra: ClassVar[str] = EXTRA
    is_loose: bool

    def __call__(self, view: AnswerView, options: Mapping[str, Any], document: Document) -> tuple[float, float]:
        """(followed, asked), summed over several draws."""
        found = [is_followed for text in view.texts for is_followed in followed(text, document, self.is_loose)]
        return float(sum(found)), float(len(found))


def followed(text: str, document: Document, is_loose: bool) -> list[bool]:
    """Whether a text follows each of the document's instructions, in their order."""
    variants = [*_variants(text)] if is_loose else [text]
    texts = [variant for variant in variants if variant.strip()]
    names, arguments = row_value(document, "instruction_id_list"), row_value(document, "kwargs")
    return [
        any(_follows(each, name, given or {}, document) for each in texts)
        for name, given in zip(names, arguments, strict=True)
    ]


def _variants(text: str) -> Iterator[str]:
    """The text; the text without its first line, its last, and both; each also without asterisks."""
    lines = text.split("\n")
    for part in (text, *("\n".join(cut).strip() for cut in (lines[1:], lines[:-1], lines[1:-1]))):
        yield part
        yield part.replace("*", "")


def _follows(text: str, name: str, arguments: Mapping[str, Any], document: Document) -> bool:
    where = f"task {document.task}, document {document.id}"
    if name not in CHECKS:
        found = f'unknown instruction "{name}"{did_you_mean(name, CHECKS)}'
        raise DataError(Fault(where, found, "one of: " + ", ".join(CHECKS)))
    try:
        with ResourceLimit():
            return CHECKS[name](text, arguments)
    except (KeyError, TypeError, AttributeError) as error:
        found = f"{name} has the arguments {dict(arguments)}"
        raise DataError(Fault(where, found, "the arguments of IFEval's rows")) from error
    except LimitError as error:
        raise error.at(f"{where}, instruction {name}") from error
