"""A task in several prompts: those of a PromptSource file, or those that its own file lists.

Takes a definition, gives one definition per prompt. A template with answer choices becomes a multiple-choice task, one
without becomes a generation task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from assay.core.errors import DataError, Fault, UserError
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring, TaskOptions
from assay.core.task_variants import TaskVariant
from assay.tasks.lm_eval.build.fields import Row
from assay.tasks.lm_eval.build.instances import INVALID_GOLD
from assay.tasks.lm_eval.file.definition import DEFAULT_METRICS, Rendering, TaskDefinition
from assay.tasks.lm_eval.file.prompt_list import ListedPrompt, listed_prompts
from assay.tasks.lm_eval.file.yaml_reader import TaskFile
from assay.tasks.promptsource import PromptTemplate, RenderedPrompt, SkippedRow, find_templates, read_templates
from assay.tasks.unknown_names import unknown_wording

# Value in place of a path, for the prompts that a task file names itself.
ALL_PROMPTS = "all"
_CHOICE, _GENERATED = "multiple_choice", "generate_until"
# A generated answer is compared without the space that separates it from the prompt, and ignoring case, as Catwalk
# finds the right choice.
_WRITTEN = Scoring(
    _GENERATED,
    (MetricSpec("exact_match", options={"ignore_case": True, "ignore_punctuation": True}),),
    (PipelineSpec("strip", (FilterSpec("remove_whitespace"), FilterSpec("take_first"))),),
)
_Named = TypeVar("_Named", ListedPrompt, PromptTemplate)


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The prompts that the user requests.

    Attributes:
        place: PromptSource's file or folder; None for the task file's own key.
        is_original: whether to use only the prompts of the original task.
        name: name of a single prompt, as it follows the task's; None for all.
        task: the task's name, for errors.
    """

    place: str | None = None
    is_original: bool = False
    name: str | None = None
    task: str = ""

    @classmethod
    def of(cls, options: TaskOptions, name: str | None, task: str = "") -> PromptOptions:
        place = options.prompts if options.prompts != ALL_PROMPTS else None
        return cls(place, options.original_task, name, task)


def in_prompts(
    file: TaskFile, prompt_options: PromptOptions, define: Callable[[TaskFile], TaskDefinition]
) -> list[TaskDefinition]:
    """A task in every requested prompt.

    Args:
        file: the task, whose key `prompts` names them.
        prompt_options: which prompts to use.
        define: creates the definition of a file.
    """
    if prompt_options.place is None and isinstance(file.data["prompts"], list):
        chosen = _chosen(listed_prompts(file), prompt_options, file.where("prompts"))
        return [_with_listed(define(prompt.file), file, prompt) for prompt in chosen]
    definition = define(file)
    path = templates_path(file, prompt_options.place)
    return [
        _with_template(definition, template) for template in _chosen(read_templates(path), prompt_options, str(path))
    ]


def templates_path(file: TaskFile, place: str | None = None) -> Path:
    """The template file of a task.

    Args:
        file: the task.
        place: the run's file or folder; None for the task file's own key.
    """
    if place is not None:
        folder, where = Path(), f"--prompts, task {file.data.get('task')}"
    else:
        said = file.places.get(("prompts",))
        folder, where = (said.file if said is not None else file.path).parent, file.where("prompts")
    path = folder / Path(place or str(file.data["prompts"])).expanduser()
    return find_templates(path, str(file.data.get("dataset_path", "")), file.data.get("dataset_name"), where)


def _chosen(prompts: Sequence[_Named], prompt_options: PromptOptions, where: str) -> list[_Named]:
    kept = [prompt for prompt in prompts if prompt.original_task or not prompt_options.is_original]
    if not kept:
        found = f"none of its {len(prompts)} prompts is marked original_task"
        raise UserError(Fault(where, found, "at least one", "Leave out --original_task"))
    if prompt_options.name is None:
        return kept
    named = [prompt for prompt in kept if _label(prompt) == prompt_options.name]
    if not named:
        raise unknown_wording(prompt_options.task, prompt_options.name, list(map(_label, kept)), where)
    return named


def _label(prompt: ListedPrompt | PromptTemplate) -> str:
    return prompt.name if isinstance(prompt, ListedPrompt) else prompt.label


def _with_listed(definition: TaskDefinition, file: TaskFile, prompt: ListedPrompt) -> TaskDefinition:
    """The task in one prompt of its file's list, which the definition already uses."""
    name, alias = file.data["task"], file.data.get("task_alias")
    variant = TaskVariant(name, prompt=prompt.name)
    return replace(definition, variant=variant, own_alias=name if alias is None else alias, prompt=prompt.notes)


def _with_template(definition: TaskDefinition, template: PromptTemplate) -> TaskDefinition:
    """The task in one template, which reads the dataset's unprocessed rows, for which it was written."""
    reader = _TemplateReader(template)
    has_choices = template.answer_choices is not None
    output_type = _CHOICE if has_choices else _GENERATED
    rendering = Rendering(
        _Field(reader.prompt),
        _Field(reader.place if has_choices else reader.target),
        _Field(reader.choices) if has_choices else None,
        None,
        definition.rendering.delimiters,
    )
    examples = replace(rendering, target=_Field(reader.shown), delimiters=definition.fewshot.rendering.delimiters)
    return replace(
        definition,
        variant=replace(definition.variant, prompt=template.label),
        output_type=output_type,
        rendering=rendering,
        description=None,
        fewshot=replace(definition.fewshot, rendering=examples, process=None, label=None),
        generation=definition.generation if definition.output_type == output_type else None,
        repeats=1,
        scoring=_scoring(definition, output_type),
        process=None,
        prompt=_notes(definition.name, template),
        skip_reason=reader.skip_reason,
    )


def _notes(task: str, template: PromptTemplate) -> Mapping[str, Any]:
    """The template for the record."""
    return {
        "task": task,
        "name": template.label,
        "promptsource_name": template.name,
        "promptsource_id": template.id,
        "jinja": template.text,
        "answer_choices": template.answer_choices,
        "original_task": template.original_task,
        "choices_in_prompt": template.choices_in_prompt,
        "metrics": list(template.metrics),
        "languages": list(template.languages),
        "reference": template.reference,
    }


def _scoring(definition: TaskDefinition, output_type: str) -> Scoring:
    """The task's own scoring if it states metrics, has the same output type and uses no code; else the default."""
    own = definition.scoring
    is_plain = own.process is None and all(spec.function is None for spec in own.metrics)
    says = definition.file.data.get("metric_list") is not None
    if is_plain and says and definition.output_type == output_type:
        return own
    return _WRITTEN if output_type == _GENERATED else Scoring(_CHOICE, tuple(map(MetricSpec, DEFAULT_METRICS[_CHOICE])))


class _Field:
    """A function of a row that does not change the row."""

    is_pure = True

    def __init__(self, read: Callable[[Row], Any]) -> None:
        self._read = read

    def __call__(self, row: Row) -> Any:
        return self._read(row)


class _TemplateReader:
    """The fields of a template. The last rendered row is cached: three fields are read from it."""

    def __init__(self, template: PromptTemplate) -> None:
        self._template = template
        self._last: tuple[Row | None, RenderedPrompt | SkippedRow] = (None, SkippedRow(""))

    def prompt(self, row: Row) -> str:
        return self._found(row).prompt

    def target(self, row: Row) -> str:
        return self._found(row).target

    def shown(self, row: Row) -> str:
        """The answer that an example shows: the right choice as it is scored, as in Catwalk; else the target."""
        found = self._found(row)
        return found.target if found.place is None or not found.choices else found.choices[found.place]

    def choices(self, row: Row) -> list[str]:
        return list(self._found(row).choices or ())

    def place(self, row: Row) -> int:
        place = self._found(row).place
        return INVALID_GOLD if place is None else place

    def skip_reason(self, row: Row) -> str | None:
        """Reason why the template skips a row; None if it does not."""
        found = self._rendered(row)
        if not isinstance(found, SkippedRow):
            return None
        return f"the prompt fails: {found.reason}" if found.fails else found.reason

    def _found(self, row: Row) -> RenderedPrompt:
        found = self._rendered(row)
        if isinstance(found, SkippedRow):
            raise DataError(Fault(self._template.where, f"gives no prompt for a document: {found.reason}"))
        return found

    def _rendered(self, row: Row) -> RenderedPrompt | SkippedRow:
        last, found = self._last
        if last is not row:
            found = self._template.render_row(row)
            self._last = (row, found)
        return found
