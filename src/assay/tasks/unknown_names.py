"""Errors for names that are not in the catalog: data files, folders, lm-eval's tasks and its `list`.

Takes the name and the catalog; gives an error with advice that can be pasted.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UnknownName, UserError, closest, did_you_mean, suggestion, unknown_name
from assay.core.plural import plural
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval_package import INSTALL, PACKAGE, PREFIX, names_code, package_catalog, package_tasks
from assay.tasks.profiles.parse import profile_names
from assay.tasks.styles import OWN, STYLES

_WHERE = "--tasks"
# Names that make lm-eval print a list instead of running a task.
LISTINGS = {"list": "tasks", "list_subtasks": "tasks", "list_groups": "groups", "list_tags": "tags"}
# Extensions of data files → their kind in a task file.
DATA_KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
# Column names by their usual content, the most specific first.
_QUESTIONS = ("question", "prompt", "query", "instruction", "input", "sentence", "text", "q", "problem", "source")
_ANSWERS = ("answer", "target", "label", "gold", "output", "completion", "response", "solution", "expected", "a")
_CHOICES = ("choices", "options", "endings", "candidates")
_LETTERS = ("A", "B", "C", "D", "E")
# Usual locations of a clone of lm-eval.
_CLONES = ("lm-evaluation-harness/lm_eval/tasks", "lm_eval/tasks")
_HEADER_CHARACTERS = 1_000_000
# Benchmarks that are scored by running the code that a model writes.
_RUN_CODE = ("humaneval", "mbpp", "livecodebench", "bigcodebench")
# Usual names of benchmarks → their names in the library.
_OTHER_NAMES = {
    "csqa": "commonsense_qa",
    "natural_questions": "nq_open",
    "naturalquestions": "nq_open",
    "nq": "nq_open",
    "obqa": "openbookqa",
    "siqa": "social_iqa",
    "web_questions": "webqs",
    "winograd": "wsc273",
}
_MOST_SUGGESTED = 3
# Maximum number of matches of a pattern whose files are searched for code.
_MOST_CHECKED = 20


def unknown_task(name: str, catalog: Catalog, near_names: Sequence[str]) -> UnknownName:
    """The error for a name that no file defines.

    Args:
        name: the name.
        catalog: the known tasks.
        near_names: candidates for a suggestion.
    """
    path = Path(name).expanduser()
    if path.is_file() and path.suffix.lower() in DATA_KINDS:
        return UnknownName(_data_file(path))
    if name in LISTINGS:
        return UnknownName(Fault(_WHERE, f'"{name}" is not a task', next=f"Run: assay ls {LISTINGS[name]}"))
    prefix, slash, rest = name.partition("/")
    if slash and f"{prefix.lower().replace('-', '_')}/" == PREFIX:  # lm-eval/NAME: the name of the other package
        found = f'unknown task "{name}" (did you mean "{PREFIX}{rest}"?)'
        return UnknownName(Fault(_WHERE, found, next=f"See: assay ls tasks {PREFIX}"))
    if any(mark in name for mark in "/."):
        return unknown_name("task", name, near_names, _WHERE)
    own = [fault for fault in catalog.broken if _file_name(fault) == name]
    if own:  # its file is there and cannot be read
        return UnknownName(*own)
    if _runs_code(name, catalog):
        found = f'no task "{name}": it is scored by running the code that a model writes, which needs a sandbox'
        return UnknownName(Fault(_WHERE, found, next="Assay has none yet. For other tasks: assay ls tasks"))
    near = suggestion(_near(name, near_names, catalog))
    advice = _lm_eval_advice(name, catalog, bool(near)) or "See: assay ls tasks"
    found = f'unknown task "{name}"{near}'
    if catalog.broken and not near:  # one of these files may define it
        found += f", and {plural(len(catalog.broken), 'task file')} cannot be read: {catalog.broken[0]}"
    return UnknownName(Fault(_WHERE, found, next=advice))


def _file_name(fault: Fault) -> str:
    """The name without extension of the file that a fault is in: `tasks/x.yaml:2` → x."""
    return Path(fault.where.split("  ")[0].rpartition(":")[0] or fault.where).stem


def _runs_code(name: str, catalog: Catalog) -> bool:
    """Whether a name is that of a benchmark of code, of which no task is known."""
    family = next((family for family in _RUN_CODE if name.lower().startswith(family)), None)
    return family is not None and not any(known.lower().startswith(family) for known in catalog.entries)


def _near(name: str, near_names: Sequence[str], catalog: Catalog) -> list[str]:
    """Names that are meant by another usual name, contain it as whole words (groups first), or are spelt alike."""
    other = _OTHER_NAMES.get(name.lower().replace("-", "_"), "")
    if other in near_names:
        return [other]
    words = _between_marks(name)
    containing = [known for known in near_names if words in _between_marks(known)]
    entries = catalog.entries
    containing.sort(key=lambda known: (known not in entries or entries[known].kind != "group", len(known), known))
    return containing[:_MOST_SUGGESTED] or closest(name, near_names)


def _between_marks(name: str) -> str:
    return f"_{name.lower().replace('-', '_')}_"


def unknown_package_task(name: str, near_names: Sequence[str]) -> UnknownName:
    """The error for a name `lm_eval/…` that the installed lm-eval does not have.

    Args:
        name: the name, with its prefix.
        near_names: lm-eval's own names.
    """
    near = did_you_mean(name, [PREFIX + other for other in near_names])
    found = f'the installed lm-eval has no task "{name.removeprefix(PREFIX)}"{near}'
    return UnknownName(Fault(f"{_WHERE} {name}", found, next=f"See: assay ls tasks {PREFIX}"))


def search_advice(words: Sequence[str], catalog: Catalog) -> str:
    """What to do when a search finds no task: names of other kinds, near names, and what lm-eval has."""
    lowered = [word.lower() for word in words]
    others = [entry for entry in catalog.entries.values() if all(word in entry.name.lower() for word in lowered)]
    kinds = dict.fromkeys(f"{entry.kind}s" for entry in others if entry.kind in ("group", "tag"))
    found = [f"See: assay ls {kind} {shlex.join(words)}" for kind in kinds]
    if not found:
        near = dict.fromkeys(name for word in words for name in closest(word, catalog.entries))
        found = [f"Similar names: {', '.join(near)}"] if near else []
    folder = package_tasks()
    if folder is None:
        found.append(f"For lm-eval's own tasks: {INSTALL}, then: assay ls tasks {PREFIX} {shlex.join(words)}")
    elif not _is_known(folder, catalog.include_path):
        theirs = package_catalog(catalog.cache_folder, words[0]).entries
        count = sum(all(word in name.lower() for word in lowered) for name in theirs)
        if count:
            found.append(f"The installed lm-eval has {count:,}: assay ls tasks {PREFIX} {shlex.join(words)}")
    return ". ".join(found) or "See: assay ls tasks"


class UnknownWording(UserError):
    """A text after the @ that a task does not know; the tasks of a group share one."""

    def without_task(self) -> tuple[str, ...]:
        """The faults without the task's name."""
        return tuple(fault.found.partition("@")[2] for fault in self.faults)


def unknown_wording(task: str, text: str, prompts: Sequence[str] = (), where: str = _WHERE) -> UnknownWording:
    """The error for a text after the @ that is neither a style, nor a profile, nor one of the task's prompts.

    Args:
        task: the task's name.
        text: the text after the @.
        prompts: labels of the task's prompts; empty if it has none.
        where: the place of the fault.
    """
    profiles = profile_names()
    own = f"a prompt of the task ({', '.join(prompts)})" if prompts else "the task's file lists no prompts"
    hint = did_you_mean(text, (*prompts, *STYLES, *profiles))
    found = f'"{task}@{text}": unknown {"prompt, " if prompts else ""}style or profile "{text}"{hint}'
    expected = f"a style ({', '.join((*STYLES, OWN))}), a profile ({', '.join(profiles)}); {own}"
    advice = "See: assay ls styles, assay ls profiles. A profile file of your own: --like FILE"
    return UnknownWording(Fault(where, found, expected, advice))


def _lm_eval_advice(name: str, catalog: Catalog, is_near: bool) -> str:
    """Whether lm-eval has a name, and how to use it; empty if there is nothing to say."""
    folder = package_tasks()
    if folder is not None and not _is_known(folder, catalog.include_path):
        return _package_advice(name, package_catalog(catalog.cache_folder, name), is_near)
    clone = lm_eval_clone(catalog.include_path) if folder is None else None
    if clone is not None:
        return _clone_advice(name, clone, catalog.cache_folder, is_near)
    if is_near or folder is not None or any(mark in name for mark in "*?["):
        return ""
    return f"See: assay ls tasks. For lm-eval's own tasks: {INSTALL}, then --tasks {PREFIX}{name}"


def _package_advice(name: str, theirs: Catalog, is_near: bool) -> str:
    """Advice on a name that the installed lm-eval may have."""
    found = theirs.select(name)
    if found:
        has_code = any(names_code(item, theirs) for item in found[:_MOST_CHECKED])
        trust = f" --trust_package {PACKAGE}, because its file names Python code" if has_code else ""
        return f"The installed lm-eval has it: --tasks {shlex.quote(PREFIX + name)}{trust}"
    near = "" if is_near else did_you_mean(name, [PREFIX + other for other in theirs.entries])
    return f"The installed lm-eval has a similar name{near}" if near else ""


def _clone_advice(name: str, folder: Path, cache_folder: Path | None, is_near: bool) -> str:
    """Advice on a name that a clone of lm-eval may have."""
    theirs = _clone_catalog(folder, cache_folder)
    add = f"Add: --include_path {shlex.quote(str(folder))}"
    if theirs.select(name):
        return f"lm-eval's task files have it. {add}"
    near = "" if is_near else did_you_mean(name, theirs.entries)
    return f"lm-eval's task files have a similar name{near}. {add}" if near else ""


@lru_cache(maxsize=1)
def _clone_catalog(folder: Path, cache_folder: Path | None) -> Catalog:
    return Catalog([folder], cache_folder, is_extension=False)


def empty_folder(folder: Path) -> UnknownName:
    """The error for a folder without task files."""
    data = sorted(path for path in folder.iterdir() if path.suffix.lower() in DATA_KINDS and path.is_file())
    if data:
        return UnknownName(_data_file(data[0]))
    found, expected = f'no task file (*.yaml) in the folder "{folder}"', "a folder with task files"
    deeper = next(folder.rglob("*.yaml"), None)
    place = shlex.quote(str(folder))
    advice = f"For those in the folders below: --include_path {place} --tasks NAME; see: assay ls tasks --include_path"
    return UnknownName(Fault(_WHERE, found, expected, "" if deeper is None else f"{advice} {place}"))


def lm_eval_clone(known: Sequence[Path]) -> Path | None:
    """The task folder of a clone of lm-eval in a usual place, unless it is already known."""
    clones = (root / clone for root in (Path.cwd(), Path.home()) for clone in _CLONES)
    found = next((folder for folder in clones if folder.is_dir()), None)
    return None if found is None or _is_known(found, known) else found


def _is_known(folder: Path, known: Sequence[Path]) -> bool:
    return any(other.resolve() == folder.resolve() for other in known if other.exists())


def _data_file(path: Path) -> Fault:
    target = path.with_suffix(".yaml")
    lines = "\n".join(f"    {line}" for line in task_lines(path, _columns(path)))
    found, expected = f'"{path}" is a data file', "a task, or a task file that describes how to use the data"
    advice = f"Save these lines as {target}, correct what does not fit, then: --tasks {shlex.quote(str(target))}"
    return Fault(_WHERE, found, expected, f"{advice}\n{lines}")


def task_lines(path: Path, columns: Iterable[str]) -> list[str]:
    """A small task file for a data file, with the columns that look like questions and answers filled in."""
    names = [name for name in columns if name.isidentifier()]
    question = _picked(names, _QUESTIONS) or next(iter(names), "QUESTION")
    answer = _picked(names, _ANSWERS) or next((name for name in reversed(names) if name != question), "ANSWER")
    kind = DATA_KINDS[path.suffix.lower()]
    head = [
        f"task: {path.stem}",
        f"dataset_path: {kind}",
        f"dataset_kwargs: {{data_files: {{test: {json.dumps(path.name)}}}}}",
        "test_split: test",
    ]
    letters = [letter for letter in _LETTERS if letter in names]
    choices = _picked(names, _CHOICES)
    if choices is None and len(letters) < 2:
        return [
            *head,
            "output_type: generate_until",
            *_question_lines(question, ""),
            f'doc_to_target: "{{{{{answer}}}}}"',
            'generation_kwargs: {until: ["\\n"]}',
            "metric_list: [{metric: exact_match}]",
        ]
    listed = "".join(f"\\n{letter}. {{{{{letter}}}}}" for letter in letters) if choices is None else ""
    shown = f'"{{{{{choices}}}}}"' if choices is not None else json.dumps(letters)
    return [
        *head,
        "output_type: multiple_choice",
        *_question_lines(question, listed),
        f"doc_to_choice: {shown}",
        f"doc_to_target: {answer}",
        "metric_list: [{metric: acc}]",
    ]


def _question_lines(question: str, listed: str) -> list[str]:
    return [f'doc_to_text: "{{{{{question}}}}}{listed}\\nAnswer:"']


def _picked(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[name] for name in wanted if name in lowered), None)


def _columns(path: Path) -> list[str]:
    """The columns of a data file, from its first line alone; empty if they cannot be read from it."""
    if path.suffix.lower() == ".parquet":
        return _parquet_columns(path)
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
            start = stream.read(_HEADER_CHARACTERS)
    except OSError:
        return []
    if DATA_KINDS[path.suffix.lower()] == "csv":
        return next(csv.reader(start.splitlines(), delimiter="\t" if path.suffix.lower() == ".tsv" else ","), [])
    try:
        first, _ = json.JSONDecoder().raw_decode(start.lstrip(" \t\r\n["))
    except (ValueError, RecursionError):
        return []
    return list(first) if isinstance(first, Mapping) else []


def _parquet_columns(path: Path) -> list[str]:
    try:
        from pyarrow import parquet
    except ImportError:
        return []
    try:
        names: list[Any] = parquet.read_schema(path).names
    except (OSError, ValueError):
        return []
    return list(map(str, names))
