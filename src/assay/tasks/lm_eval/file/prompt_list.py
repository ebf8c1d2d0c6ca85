"""The key `prompts` of a task file: a list of its own prompts, or the path of PromptSource's templates.

Takes a task file, gives one task file per prompt of the list: the keys of a prompt replace the file's own
keys, so that later stages need not know about the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, did_you_mean
from assay.tasks.lm_eval.file.value_checks import show
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, references
from assay.tasks.styles import is_style

# Key of a prompt → key of the task file that it replaces.
_STANDS_FOR = {"text": "doc_to_text", "target": "doc_to_target", "choices": "doc_to_choice"}
_KEYS = ("name", *_STANDS_FOR, "original_task")


@dataclass(frozen=True, slots=True)
class ListedPrompt:
    """A prompt of a task file's list.

    Attributes:
        name: its name, which follows the task's.
        original_task: whether it is a prompt of the original task; true by default.
        file: the task file with this prompt as its own.
        notes: the prompt for the record.
    """

    name: str
    original_task: bool
    file: TaskFile
    notes: Mapping[str, Any]


def list_faults(file: TaskFile) -> list[Fault]:
    """Faults of the list itself; the contents of its prompts are checked with the resulting task files."""
    listed = file.data.get("prompts")
    if not isinstance(listed, list):
        return []
    if not listed:
        return [Fault(file.where("prompts"), "is empty", "a list of prompts, or the path of a templates.yaml")]
    faults = [fault for number, entry in enumerate(listed) for fault in _entry_faults(file, number, entry)]
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in listed]
    for number, name in enumerate(names):
        if isinstance(name, str) and name in names[:number]:
            faults.append(
                Fault(file.where("prompts", number, "name"), f'"{name}" is the name of two prompts', "two names")
            )
    return faults


def _entry_faults(file: TaskFile, number: int, entry: Any) -> Iterator[Fault]:
    above = ("prompts", number)
    if not isinstance(entry, dict):
        yield Fault(file.where(*above), f"is {show(entry)}", "a prompt: {name: …, text: …}")
        return
    for key in entry:
        if key not in _KEYS:
            found = f'unknown key "{key}"{did_you_mean(str(key), _KEYS)}'
            yield Fault(file.where(*above, key), found, "one of " + ", ".join(_KEYS))
    name = entry.get("name")
    if not isinstance(name, str) or not name.replace("-", "").replace(".", "").isidentifier():
        found = f"is {show(name)}" if name is not None else "is missing"
        expected = "letters, digits and underscores, such as short_question"
        yield Fault(file.where(*above, "name"), found, expected)
    elif is_style(name):
        yield Fault(file.where(*above, "name"), f'"{name}" is the name of a prompt style', "another name")
    for path, reference in references(entry):
        yield Fault(file.where(*above, *path), f"names Python code ({reference})", "a column or a template")
    if entry.get("text") is None:
        yield Fault(file.where(*above, "text"), "is missing", "the prompt: a column or a template")
    if not isinstance(entry.get("original_task", True), bool):
        yield Fault(file.where(*above, "original_task"), f"is {show(entry['original_task'])}", "true or false")


def listed_prompts(file: TaskFile) -> list[ListedPrompt]:
    """The prompts of a list without faults; empty if the file has no list."""
    listed = file.data.get("prompts")
    return [_prompt(file, number, entry) for number, entry in enumerate(listed)] if isinstance(listed, list) else []


def _prompt(file: TaskFile, number: int, entry: Mapping[str, Any]) -> ListedPrompt:
    said = {_STANDS_FOR[key]: entry[key] for key in _STANDS_FOR if key in entry}
    places = {
        (_STANDS_FOR[keys[0]], *keys[1:]): place
        for keys, place in file.below("prompts", number).items()
        if keys[0] in _STANDS_FOR
    }
    if "choices" in entry and "output_type" not in file.data:
        said["output_type"] = "multiple_choice"
    name = f"{file.data.get('task')}@{entry['name']}"
    changed = file.changed({**said, "task": name, "prompts": None}, places)
    kept = {key: value for key, value in changed.data.items() if key not in ("prompts", "task_alias")}
    alias = file.data.get("task_alias")
    if alias is not None:
        kept["task_alias"] = f"{alias}@{entry['name']}"
    # The location of the full name is that of the prompt's name.
    own = file.places.get(("prompts", number, "name"))
    all_places = {**changed.places, **({("task",): own} if own is not None else {})}
    notes = {"task": file.data.get("task"), "name": entry["name"]}
    original = bool(entry.get("original_task", True))
    return ListedPrompt(entry["name"], original, TaskFile(file.path, kept, all_places, file.repeated), notes)
