"""The key `format` of a task file: its kinds, their parts, and the faults of a file's value.

A format states a document's shape once, free of prompts; see docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, did_you_mean
from assay.tasks.lm_eval.file.value_checks import (
    COLUMN,
    DOC_CHOICE,
    DOC_TARGET,
    FLAG,
    KeySchema,
    is_type,
    key_faults,
    show,
)
from assay.tasks.lm_eval.file.yaml_reader import TaskFile
from assay.tasks.templates import check_syntax, undefined_names

CHOICE, CLASSES, SPAN, REWRITE, NUMBER = "multiple_choice", "classification", "span_qa", "text_to_text", "rating"

# Metrics of a span question whose file names none.
SPAN_METRICS = ("squad_em", "squad_f1")
# Those of texts with a number.
NUMBER_METRICS = ("pearson", "spearman")


def _are_names(value: Any) -> bool:
    is_list = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    return is_list and len(set(value)) == len(value) > 1


_TEXTS = KeySchema("a column, a template or a list", is_type(str, list))


@dataclass(frozen=True, slots=True)
class FormatKind:
    """A kind of format.

    Attributes:
        parts: its keys.
        needed: required keys.
        output_types: permitted values of the task's own `output_type`; the first is the default.
        names_only: whether it only names the kind of the file's own prompts.
    """

    parts: Mapping[str, KeySchema]
    needed: tuple[str, ...]
    output_types: tuple[str, ...]
    names_only: bool = False


FORMATS: dict[str, FormatKind] = {
    CHOICE: FormatKind(
        {
            "question": COLUMN,
            "choices": DOC_CHOICE,
            "answer": DOC_TARGET,
            "context": COLUMN,
            "labels": DOC_CHOICE,
            "completes": FLAG,
        },
        ("question", "choices", "answer"),
        ("multiple_choice",),
    ),
    CLASSES: FormatKind(
        {
            "text": COLUMN,
            "pair": COLUMN,
            "labels": KeySchema("a list of two or more different names, the same for all documents", _are_names),
            "answer": DOC_TARGET,
        },
        ("text", "labels", "answer"),
        ("multiple_choice",),
    ),
    SPAN: FormatKind(
        {"question": COLUMN, "context": COLUMN, "answers": _TEXTS, "starts": _TEXTS, "may_lack": FLAG},
        ("question", "context", "answers"),
        ("generate_until",),
    ),
    REWRITE: FormatKind({"source": COLUMN, "target": _TEXTS}, ("source", "target"), ("generate_until",)),
    NUMBER: FormatKind({"text": COLUMN, "pair": COLUMN, "answer": COLUMN}, ("text", "answer"), ("generate_until",)),
    "ranked_classification": FormatKind({}, (), ("multiple_choice", "loglikelihood"), names_only=True),
    "generation": FormatKind({}, (), ("generate_until",), names_only=True),
    "perplexity": FormatKind({}, (), ("loglikelihood_rolling",), names_only=True),
}
_KIND = KeySchema("one of " + ", ".join(FORMATS), lambda value: value in FORMATS)
# Parts of all formats that are read from a document; a text is a column or a template.
_READ = ("question", "choices", "answer", "context", "labels", "text", "pair", "answers", "starts", "source", "target")


def format_kind(stated: Any) -> str:
    """The kind that a file's key names; multiple choice by default."""
    kind = stated.get("kind") if isinstance(stated, Mapping) else None
    return CHOICE if kind is None else str(kind)


def stated_format(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The parts that a file states; None if it states none, or only names its kind."""
    stated = data.get("format")
    if not isinstance(stated, Mapping):
        return None
    kind = FORMATS.get(format_kind(stated))
    return None if kind is not None and kind.names_only else stated


def usual_output_type(data: Mapping[str, Any]) -> str:
    """The `output_type` of a file that names none."""
    kind = FORMATS.get(format_kind(data["format"])) if isinstance(data.get("format"), Mapping) else None
    return "generate_until" if kind is None or kind.names_only else kind.output_types[0]


def format_faults(file: TaskFile, stated: Mapping[Any, Any]) -> list[Fault]:
    """Faults of the parts of a format."""
    kind = format_kind(stated)
    if kind not in FORMATS:
        return key_faults(file, {"kind": _KIND}, {"kind": stated["kind"]}, ("format",))
    found = FORMATS[kind]
    faults = key_faults(file, {"kind": _KIND, **found.parts}, stated, ("format",))
    for key in found.needed:
        if stated.get(key) is None:
            faults.append(Fault(file.where("format", key), "is missing", found.parts[key].expected))
    for key, value in stated.items():
        problem = check_syntax(value) if isinstance(value, str) and key in found.parts else None
        if problem:
            faults.append(Fault(file.where("format", key), problem))
    return [*faults, *_type_faults(file, kind, found)]


def _type_faults(file: TaskFile, kind: str, found: FormatKind) -> list[Fault]:
    """Faults of a kind that contradicts the file's own prompts. Without any, the format determines the prompts."""
    given = file.data.get("output_type", "generate_until" if found.names_only and "task" in file.data else None)
    has_prompts = file.data.get("doc_to_text") is not None and not found.names_only
    if given is None or given in found.output_types or has_prompts or kind == CHOICE:
        return []
    wanted = " or ".join(found.output_types)
    return [Fault(file.where("format", "kind"), f"is {kind}, and the file's output_type is {show(given)}", wanted)]


def stated_column_faults(file: TaskFile, stated: Mapping[Any, Any], columns: Collection[str]) -> list[Fault]:
    """Names in the parts of a format that a document with these columns does not have. A single word is a column."""
    faults = []
    for key in _READ:
        text = stated.get(key)
        if not isinstance(text, str) or text in columns or check_syntax(text) is not None:
            continue
        for name in [text] if text.isidentifier() else undefined_names(text, columns):
            found = f"'{name}' is not a column of the sample document{did_you_mean(name, columns)}"
            faults.append(Fault(file.where("format", key), found, "one of: " + ", ".join(columns)))
    return faults
