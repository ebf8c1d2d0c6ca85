"""From a task file to its tasks: check, define, then expand by a list of transforms.

A transform takes a definition and gives one or more: the task in a style, in a profile's variants, with other metrics,
at every level of what the run varies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.protocols import Task
from assay.core.specs import TaskOptions
from assay.tasks.lm_eval.file.definition import TaskDefinition, define
from assay.tasks.lm_eval.file.python_code import CodeLoader, Shim, bind
from assay.tasks.lm_eval.file.schema import KnownNames, task_faults
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, KeyPath, TaskFile, references
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.axes import varied
from assay.tasks.lm_eval.variants.prompt_variants import ALL_PROMPTS, PromptOptions, in_prompts
from assay.tasks.lm_eval.variants.scoring_overrides import rescored
from assay.tasks.lm_eval.variants.style_variants import in_style
from assay.tasks.profiles.apply import ProfileOverrides
from assay.tasks.profiles.expand import ProfileApplier
from assay.tasks.styles import find_style
from assay.tasks.task_tree import Wording

Transform = Callable[[TaskDefinition], list[TaskDefinition]]
# Code that a task file names and that may not run: the file, the key, the reference.
Refused = tuple[TaskFile, KeyPath, FunctionReference]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What a run says about all task files.

    Attributes:
        options: what the run changes about tasks.
        names: metrics, filters and aggregations that there are.
        code: imports the Python code that task files name.
        profile: applies the run's profile, if it names one.
    """

    options: TaskOptions
    names: KnownNames
    code: CodeLoader
    profile: ProfileApplier


@dataclass(frozen=True, slots=True)
class FileTasks:
    """The tasks of a file, or why there are none."""

    tasks: tuple[Task, ...] = ()
    errors: tuple[UserError, ...] = ()
    refused: tuple[Refused, ...] = ()


def file_tasks(file: TaskFile, wording: Wording, settings: FileSettings) -> FileTasks:
    """The tasks that a run makes of a task file: one, or one per prompt, profile variant and level of an axis."""
    try:
        file = _with_prompts(file, settings.options)
        named = [(file, keys, reference) for keys, reference in references(file.data)]
        refused = tuple(item for item in named if not settings.code.consent.covers(item[2].folder))
        bound = bind(file, settings.code) if named and not refused else file.data
        faults = _check(file, settings)
        if faults or refused:
            return FileTasks(errors=(TaskFileError(*faults),) if faults else (), refused=refused)
        make_task = settings.code.shim.make_task
        if file.data.get("class") is not None and make_task is not None:
            return FileTasks((make_task(bound["class"], file, settings.options),))
        definitions = _define(file, bound, wording, settings)
        definitions = expand(definitions, transforms(wording, settings))
        tasks = [LmEvalTask(definition, settings.options) for definition in definitions]
        return FileTasks(tuple(task.share_rows_with(tasks[0]) for task in tasks))
    except UserError as error:
        return FileTasks(errors=(error,))


def expand(definitions: Sequence[TaskDefinition], transforms: Sequence[Transform]) -> list[TaskDefinition]:
    """Some definitions after all transforms, in order."""
    found = list(definitions)
    for transform in transforms:
        found = [changed for definition in found for changed in transform(definition)]
    return found


def transforms(wording: Wording, settings: FileSettings) -> list[Transform]:
    """The transforms of a run, in order. A profile has a style and metrics of its own, under the user's."""
    options, metrics = settings.options, settings.names.metrics
    overrides = ProfileOverrides(options, wording.is_chosen, wording.style)
    worded: list[Transform] = [
        lambda definition: [in_style(definition, wording.style)],
        lambda definition: [rescored(definition, options.scoring, metrics)],
    ]
    if settings.profile.is_named:
        worded = [partial(settings.profile.variants, overrides=overrides)]
    return [*worded, partial(varied, options=options)]


def _with_prompts(file: TaskFile, options: TaskOptions) -> TaskFile:
    """A task file with the run's prompts in place of its own."""
    if options.prompts == ALL_PROMPTS and file.data.get("prompts") is None:
        found = f'the task "{file.data.get("task")}" names no prompts (a key prompts: in its file)'
        raise UserError(Fault("--prompts all", found, "prompts of its own", "Name a templates.yaml: --prompts PATH"))
    if options.prompts in (None, ALL_PROMPTS):
        return file
    return file.changed({"prompts": options.prompts}, {})


def _check(file: TaskFile, settings: FileSettings) -> list[Fault]:
    names = settings.names
    return task_faults(file, replace(names, filters=names.filters | set(settings.code.shim.filters)))


def _define(file: TaskFile, bound: Mapping[str, Any], wording: Wording, settings: FileSettings) -> list[TaskDefinition]:
    """The definition of a file; one per prompt where it has several."""

    def defined(task: TaskFile) -> TaskDefinition:
        changed = {key: value for key, value in task.data.items() if file.data.get(key) is not value}
        named = {key: value for key, value in bound.items() if key in task.data}
        data = _with_table_names({**named, **changed}, settings.code.shim)
        return define(task, data, settings.code.may_draw())

    definitions = in_prompts(file, PromptOptions.of(settings.options, wording.prompt), defined)
    if definitions is not None:
        _check_one_wording(file, wording, settings.profile)
        return definitions
    if wording.prompt is not None:
        find_style(wording.prompt)  # raises: the task has no prompts, so the name behind the @ must be a style
    return [defined(file)]


def _check_one_wording(file: TaskFile, wording: Wording, profile: ProfileApplier) -> None:
    """Refuses prompts together with a style or profile, which word the question too."""
    other = "a prompt style" if wording.style is not None else "a profile" if profile.has_rules else ""
    if other:
        found = f"its prompts and {other} both say how a question is put"
        raise UserError(Fault(f"task {file.data['task']}", found, "one of the two", f"Leave {other} or prompts out"))


def _with_table_names(data: Mapping[str, Any], shim: Shim) -> Mapping[str, Any]:
    """A task file's mapping in which filters that code has registered are themselves, and our aggregations names."""
    changed = dict(data)
    if shim.filters and isinstance(data.get("filter_list"), list):
        changed["filter_list"] = [
            {**pipeline, "filter": [_replaced(step, "function", shim.filters) for step in pipeline["filter"]]}
            for pipeline in data["filter_list"]
        ]
    if isinstance(data.get("metric_list"), list):
        changed["metric_list"] = [_replaced(entry, "aggregation", shim.aggregations) for entry in data["metric_list"]]
    return changed


def _replaced(entry: Mapping[str, Any], key: str, table: Mapping[Any, Any]) -> dict[str, Any]:
    value = entry.get(key)
    is_in_table = isinstance(value, Hashable) and value in table
    return {**entry, key: table[value]} if is_in_table else dict(entry)
