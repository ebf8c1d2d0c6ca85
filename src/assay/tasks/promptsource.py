"""PromptSource's template files: many prompts for one dataset, each with its target and its answer choices.

Takes a `templates.yaml`, gives its templates; a template and a row of the dataset give prompt, target and choices, or
the reason for none. Templates run in the sandbox of task files. `choice` is seeded by the row, so that a row always
renders the same.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Template, pass_context
from jinja2.runtime import Context

from assay.core.errors import Fault, LimitError, TaskFileError, UserError, did_you_mean
from assay.core.identity import digest
from assay.guard.jinja_sandbox import GuardedEnvironment
from assay.guard.time_limit import ResourceLimit
from assay.tasks.lm_eval.file.value_checks import show
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file
from assay.tasks.styles import is_style
from assay.tasks.templates import check_syntax, failure, make_environment

FILE_NAME = "templates.yaml"
SEPARATOR = "|||"
Row = Mapping[str, Any]

# Replaces the separator within a row's own text while templates are rendered; Unicode's private-use characters.
_GUARD = "\ue0fa\ue0fb\ue0fa"
_DRAWS = "__draws__"
_CHOICES = "answer_choices"


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A row rendered by a template.

    Attributes:
        prompt: the prompt.
        target: the right answer, as text.
        choices: the answers to choose from; None if the answer is free-form.
    """

    prompt: str
    target: str
    choices: tuple[str, ...] | None = None

    @property
    def place(self) -> int | None:
        """The target's index among the choices: the same text, or else the same ignoring case; None for neither."""
        choices = self.choices or ()
        if self.target in choices:
            return choices.index(self.target)
        folded = [choice.casefold() for choice in choices]
        return folded.index(self.target.casefold()) if self.target.casefold() in folded else None


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row that a template skips, by rendering to nothing, or on which it fails."""

    reason: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One template of a file.

    Attributes:
        name: its name in PromptSource.
        label: the name as it follows a task's: `can_we_infer`; unique in a file.
        id: PromptSource's id.
        text: prompt and target, separated by `|||`.
        answer_choices: renders the choices, separated by `|||`; None if the answer is free-form.
        original_task: whether it is a prompt of the dataset's original task.
        choices_in_prompt: whether the prompt shows the choices.
        metrics: names of metrics in PromptSource.
        languages: languages of the prompt.
        reference: its source.
        where: its location, for errors.
    """

    name: str
    label: str
    id: str
    text: str
    answer_choices: str | None
    original_task: bool
    choices_in_prompt: bool
    metrics: tuple[str, ...]
    languages: tuple[str, ...]
    reference: str
    where: str

    def render_row(self, row: Row) -> RenderedPrompt | SkippedRow:
        """Renders a row."""
        if _CHOICES in row:
            return SkippedRow(f'the row has a column "{_CHOICES}", a name that the template itself uses', fails=True)
        guarded = {key: _guarded(value) for key, value in row.items()}
        try:
            choices = self._choices(guarded, row)
            parts = self._parts(self.text, {**guarded, _CHOICES: _guarded(choices)}, row)
        except LimitError:  # the other rows would take as long
            raise
        except UserError as error:
            return SkippedRow(error.faults[0].found, fails=True)
        if len(parts) > 2:
            return SkippedRow(f"it renders {len(parts)} parts instead of two (prompt and target)", fails=True)
        if not parts[0]:
            return SkippedRow("the prompt is empty for them")
        if len(parts) == 1 or not parts[1]:
            return SkippedRow("the target is empty for them")
        return RenderedPrompt(parts[0], parts[1], None if choices is None else tuple(choices))

    def _choices(self, fields: Row, row: Row) -> list[str] | None:
        return None if self.answer_choices is None else self._parts(self.answer_choices, fields, row)

    def _parts(self, text: str, fields: Row, row: Row) -> list[str]:
        try:
            with ResourceLimit():
                rendered = _compiled(text).render({**fields, _DRAWS: _Draws(row)})
        except Exception as error:  # a template may raise anything
            raise failure(error, row, self.where) from error
        return [part.strip().replace(_GUARD, SEPARATOR) for part in rendered.split(SEPARATOR)]


class _Draws:
    """The random draws of one rendering: seeded by the row alone, so that all templates draw the same from it."""

    def __init__(self, row: Row) -> None:
        self._row = row

    @cached_property
    def generator(self) -> random.Random:
        return random.Random(digest(self._row))


def _guarded(value: Any) -> Any:
    """A value whose texts do not contain the separator."""
    if isinstance(value, str):
        return value.replace(SEPARATOR, _GUARD)
    if isinstance(value, Mapping):
        return {key: _guarded(item) for key, item in value.items()}
    return [_guarded(item) for item in value] if isinstance(value, (list, tuple)) else value


# The dialect: filters and names of PromptSource's templates besides Jinja's own.


@pass_context
def _choice(context: Context, items: Iterable[Any]) -> Any:
    return context[_DRAWS].generator.choice(list(items))


def _most_frequent(items: Iterable[Any]) -> list[Any]:
    counts = Counter(items)
    return [item for item, count in counts.items() if count == max(counts.values())]


@cache
def _environment() -> GuardedEnvironment:
    environment = make_environment()
    environment.filters["choice"] = _choice
    environment.filters["most_frequent"] = _most_frequent
    environment.filters["highlight"] = str  # highlights filled-in text in PromptSource's own viewer
    environment.globals["zip"] = zip
    return environment


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Template:
    return _environment().from_string(text)


# Files


_KEYS = ("name", "jinja")


def read_templates(path: Path) -> tuple[PromptTemplate, ...]:
    """The templates of a file, in its order; raises once, with every fault."""
    file = read_task_file(path)
    listed = file.data.get("templates")
    if not isinstance(listed, dict) or not listed:
        where = file.where("templates") if "templates" in file.data else str(path)
        raise TaskFileError(Fault(where, "holds no templates", "PromptSource's form: templates: {id: !Template …}"))
    faults = [fault for key, entry in listed.items() for fault in _faults(file, key, entry)]
    if faults:
        raise TaskFileError(*faults)
    labels = labelled([str(entry["name"]) for entry in listed.values()])
    return tuple(_template(file, key, entry, label) for (key, entry), label in zip(listed.items(), labels, strict=True))


def _faults(file: TaskFile, key: Any, entry: Any) -> Iterable[Fault]:
    above = ("templates", key)
    if not isinstance(entry, dict):
        yield Fault(file.where(*above), f"is {show(entry)}", "a template: !Template {name: …, jinja: …}")
        return
    for name in _KEYS:
        if entry.get(name) in (None, ""):
            yield Fault(file.where(*above, name), "is missing", "text")
    for name in ("jinja", _CHOICES):
        text = entry.get(name)
        if text is not None and not isinstance(text, str):
            yield Fault(file.where(*above, name), f"is {show(text)}", "text", "Quote it in the YAML file")
        elif text is not None and (problem := check_syntax(text, _compiled)):
            yield Fault(file.where(*above, name), problem)
    if isinstance(entry.get("jinja"), str) and SEPARATOR not in entry["jinja"]:
        yield Fault(file.where(*above, "jinja"), "has no |||", "prompt ||| target")
    if not isinstance(entry.get("metadata") or {}, dict):
        yield Fault(file.where(*above, "metadata"), f"is {show(entry['metadata'])}", "a mapping")


def _template(file: TaskFile, key: Any, entry: Mapping[str, Any], label: str) -> PromptTemplate:
    notes = entry.get("metadata") or {}
    return PromptTemplate(
        name=str(entry["name"]),
        label=label,
        id=str(entry.get("id") or key),
        text=entry["jinja"],
        answer_choices=entry.get(_CHOICES) or None,
        original_task=notes.get("original_task") is True,
        choices_in_prompt=notes.get("choices_in_prompt") is True,
        metrics=_texts(notes.get("metrics")),
        languages=_texts(notes.get("languages")),
        reference=str(entry.get("reference") or ""),
        where=file.where("templates", key, "jinja"),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def labelled(names: Sequence[str]) -> list[str]:
    """Names as they follow a task's: letters, digits and underscores; a number is added to equal ones.

    A prompt style may follow a task's name, too, so no label is the name of a style.
    """
    found: dict[str, None] = {}
    for name in names:
        label = re.sub(r"[^\w.-]+", "_", name).strip("_") or "prompt"
        base = label = f"{label}_prompt" if is_style(label) else label
        number = 2
        while label in found:
            label, number = f"{base}_{number}", number + 1
        found[label] = None
    return list(found)


def find_templates(place: Path, dataset: str, config: str | None, where: str) -> Path:
    """The template file of a dataset.

    Args:
        place: a file, or a folder in PromptSource's layout: `dataset/config/templates.yaml`.
        dataset: the dataset's id, with its owner or without.
        config: its configuration.
        where: option or key that names the place, for errors.
    """
    if not place.is_dir():
        if not place.exists():
            raise UserError(Fault(where, f'no file or folder "{place}"', "a templates.yaml, or a folder of such"))
        return place
    if (place / FILE_NAME).is_file():
        return place / FILE_NAME
    known = {path.parent.relative_to(place).as_posix(): path for path in sorted(place.rglob(FILE_NAME))}
    plain = {_plain(name): path for name, path in reversed(known.items())}
    for base in (dataset, dataset.rpartition("/")[2]):
        for name in (f"{base}/{config}", base) if config else (base,):
            if _plain(name) in plain:
                return plain[_plain(name)]
    asked = f"{dataset}/{config}" if config else dataset
    found = f'"{place}" has no templates for the dataset {asked}{did_you_mean(dataset.rpartition("/")[2], known)}'
    raise UserError(Fault(where, found, "one of " + ", ".join(known) if known else "templates.yaml files"))


def _plain(name: str) -> str:
    """A dataset's name, normalized for comparison: `head_qa/en` is `headqa/en`."""
    return re.sub(r"[^\w/]|_", "", name).lower()
