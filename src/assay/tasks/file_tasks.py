"""From a task file to its tasks: check, define, then expand by the transforms of the run.

A transform maps a definition to one or more: the task in a style, with other metrics, at every level of what
the run varies. A profile's variants come first; each has its own style and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.protocols import Task
from assay.core.specs import TaskOptions, VariationAxes
from assay.tasks.lm_eval.file.definition import TaskDefinition, define
from assay.tasks.lm_eval.file.python_code import CodeLoader, Shim, bind
from assay.tasks.lm_eval.file.schema import KnownNames, task_faults
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, KeyPath, TaskFile, references
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.axes import varied
from assay.tasks.lm_eval.variants.prompt_variants import ALL_PROMPTS, PromptOptions, in_prompts
from assay.tasks.lm_eval.variants.scoring_overrides import rescored
from assay.tasks.lm_eval.variants.style_variants import in_style
from assay.tasks.profiles.apply import Profiled, ProfileOverrides
from assay.tasks.profiles.expand import task_variants
from assay.tasks.profiles.parse import Profile
from assay.tasks.styles import Style
from assay.tasks.task_tree import Wording
from assay.tasks.unknown_names import unknown_wording

Transform = Callable[[TaskDefinition], list[TaskDefinition]]
# Code that a task file names and that may not run: the file, the key, the reference.
Refused = tuple[TaskFile, KeyPath, FunctionReference]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Settings of a run that apply to all task files.

    Attributes:
        options: changes that the run makes to tasks.
        names: known metrics, filters and aggregations.
        code: imports the Python code that task files name.
        profile: the conventions of the tool that the run follows; None for those of the task files.
        named: name → profile, of those that single items name after an @.
    """

    options: TaskOptions
    names: KnownNames
    code: CodeLoader
    profile: Profile | None = None
    named: Mapping[str, Profile] = field(default_factory=dict)

    def followed(self, wording: Wording) -> Profile | None:
        """The profile that tasks with this wording follow."""
        return self.profile if wording.profile is None else self.named[wording.profile]

    def options_of(self, wording: Wording) -> TaskOptions:
        """The options of tasks with this wording, which `--like` with their profile would have."""
        return self.options if wording.profile is None else replace(self.options, like=wording.profile)


@dataclass(frozen=True, slots=True)
class FileTasks:
    """The tasks of a file, or the reasons why it has none.

    Attributes:
        tasks: its tasks.
        errors: its faults.
        refused: Python code that it names and that may not run.
        profiled: its definitions in the profile that they follow, before the run's own variation.
    """

    tasks: tuple[Task, ...] = ()
    errors: tuple[UserError, ...] = ()
    refused: tuple[Refused, ...] = ()
    profiled: tuple[Profiled, ...] = ()


def file_tasks(file: TaskFile, wording: Wording, settings: FileSettings) -> FileTasks:
    """The tasks that a run creates from a task file: one, or one per prompt, profile variant and level of an axis."""
    try:
        file = _with_prompts(file, settings.options)
        named = [(file, keys, reference) for keys, reference in references(file.data)]
        refused = tuple(item for item in named if not settings.code.consent.covers(item[2].folder))
        bound = bind(file, settings.code) if named and not refused else file.data
        faults = _check(file, settings)
        if faults or refused:
            return FileTasks(errors=(TaskFileError(*faults),) if faults else (), refused=refused)
        make_task, options = settings.code.shim.make_task, settings.options_of(wording)
        if file.data.get("class") is not None and make_task is not None:
            return FileTasks((make_task(bound["class"], file, options),))
        definitions = _define(file, bound, wording, settings)
        profiled = _in_profile(definitions, wording, settings)
        definitions = [item.definition for item in profiled] or definitions
        definitions = expand(definitions, transforms(wording, settings))
        tasks = [LmEvalTask(definition, options) for definition in definitions]
        return FileTasks(tuple(task.share_rows_with(tasks[0]) for task in tasks), profiled=profiled)
    except UserError as error:
        return FileTasks(errors=(error,))


def expand(definitions: Sequence[TaskDefinition], transforms: Sequence[Transform]) -> list[TaskDefinition]:
    """Definitions after all transforms, applied in order."""
    found = list(definitions)
    for transform in transforms:
        found = [changed for definition in found for changed in transform(definition)]
    return found


def transforms(wording: Wording, settings: FileSettings) -> list[Transform]:
    """The transforms of a run, in order. A profile has already set a task's style and metrics."""
    options, metrics = settings.options, settings.names.metrics
    found: list[Transform] = []
    is_free = settings.followed(wording) is None
    if is_free:
        found.append(lambda definition: [_with_style(definition, wording.style)])
    if is_free and options.scoring:
        found.append(lambda definition: [rescored(definition, options.scoring, metrics)])
    if options.axes != VariationAxes():
        found.append(partial(varied, options=options))
    return found


def _with_style(definition: TaskDefinition, style: Style | None) -> TaskDefinition:
    """The definition in the run's style, or with the default prompt of its format if its file has none."""
    return definition if style is None and definition.has_prompt else in_style(definition, style)


def _in_profile(
    definitions: Sequence[TaskDefinition], wording: Wording, settings: FileSettings
) -> tuple[Profiled, ...]:
    """The definitions in the variants of the profile that they follow; empty if they follow none."""
    profile = settings.followed(wording)
    if profile is None:
        return ()
    overrides = ProfileOverrides(settings.options_of(wording), wording.is_chosen, wording.style)
    found = [
        item
        for definition in definitions
        for item in task_variants(definition, profile, overrides, settings.names.metrics)
    ]
    found = _only_variant(found, wording.variant, profile)
    return tuple(
        found if profile.has_rules or wording.profile is None else [_labelled(item, profile) for item in found]
    )


def _only_variant(items: Sequence[Profiled], variant: str, profile: Profile) -> list[Profiled]:
    """The variant that an item names, `TASK@olmes-mcf`; everything if it names none. Tasks without a rule stay."""
    found = [item for item in items if variant in ("", item.variant) or not item.label]
    if items and not found:
        names = [item.variant for item in items if item.variant]
        said = f'"{items[0].own}@{profile.name}-{variant}": the profile "{profile.name}" has no variant "{variant}"'
        expected = ", ".join(f"@{profile.name}-{name}" for name in names) or f"@{profile.name}"
        raise UserError(Fault("--tasks", f"{said} for this task", expected, "See: assay ls profiles"))
    return found


def _labelled(item: Profiled, profile: Profile) -> Profiled:
    """A task of a profile without rules, named after it: only its scoring changes, and only for this task."""
    variant = item.definition.variant
    if variant.style is None and variant.prompt is None:
        named = replace(variant, profile=profile.name)
    elif variant.prompt is None:
        named = replace(variant, style=f"{profile.name}+{variant.style}")
    else:
        named = replace(variant, prompt=f"{profile.name}+{variant.prompt}")
    return replace(item, definition=replace(item.definition, variant=named))


def _with_prompts(file: TaskFile, options: TaskOptions) -> TaskFile:
    """A task file with the run's prompts in place of its own."""
    if options.prompts == ALL_PROMPTS and file.data.get("prompts") is None:
        found = f'the file of the task "{file.data.get("task")}" has no key prompts'
        raise UserError(
            Fault("--prompts all", found, "a task file that lists prompts", "Name a templates.yaml: --prompts PATH")
        )
    if options.prompts in (None, ALL_PROMPTS):
        return file
    return file.changed({"prompts": options.prompts}, {})


def _check(file: TaskFile, settings: FileSettings) -> list[Fault]:
    names = settings.names
    return task_faults(file, replace(names, filters=names.filters | set(settings.code.shim.filters)))


def _define(file: TaskFile, bound: Mapping[str, Any], wording: Wording, settings: FileSettings) -> list[TaskDefinition]:
    """The definition of a file; one per prompt if it has several."""

    def defined(task: TaskFile) -> TaskDefinition:
        changed = {key: value for key, value in task.data.items() if file.data.get(key) is not value}
        named = {key: value for key, value in bound.items() if key in task.data}
        data = _with_table_names({**named, **changed}, settings.code.shim)
        return define(task, data, settings.code.may_draw())

    if file.data.get("prompts") is not None:
        definitions = in_prompts(
            file, PromptOptions.of(settings.options, wording.prompt, str(file.data["task"])), defined
        )
        _check_one_wording(file, wording, settings.followed(wording))
        return definitions
    if wording.prompt is not None:
        raise unknown_wording(str(file.data["task"]), wording.prompt)
    return [defined(file)]


def _check_one_wording(file: TaskFile, wording: Wording, profile: Profile | None) -> None:
    """Rejects prompts together with a style or profile, which also determine the wording."""
    has_rules = profile is not None and profile.has_rules
    other = "a prompt style" if wording.style is not None else "a profile" if has_rules else ""
    if other:
        found = f"its prompts and {other} both word the question"
        raise UserError(
            Fault(f"task {file.data['task']}", found, "one of the two", f"Leave out the prompts or {other}")
        )


def _with_table_names(data: Mapping[str, Any], shim: Shim) -> Mapping[str, Any]:
    """A task file's mapping with registered filters instead of their names, and names instead of our aggregations."""
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
