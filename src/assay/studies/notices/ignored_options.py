"""Options of a run that have no effect on some of its tasks.

In: tasks with their results and the specification. Out: one notice per option and reason, which names the tasks.
Facts that the requests show are read from them, so that they hold for tasks of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.protocols import Task
from assay.core.requests import Demonstrated, Generation, Instance, Prompt, Request
from assay.core.results import TaskResult
from assay.core.specs import RunSpec, TaskOptions, TextOptions
from assay.run.resolve import RescoredTask, WindowedTask
from assay.tasks.head_requests import HeadTask
from assay.tasks.lm_eval.variants.scoring_overrides import ALL
from assay.tasks.text_tasks import KIND, TextTask

_MOST_NAMES = 5
_OF_CLASS = "class"
# Reasons apply to one task or several, so they name none.
_OWN_PROMPTS = "a Python task makes its own prompts"


def ignored_notices(tasks: Sequence[Task], results: Sequence[TaskResult], spec: RunSpec) -> list[str]:
    """A line for every option that some tasks do not follow, and why."""
    options = spec.options
    found: dict[tuple[str, str], dict[str, None]] = {}
    for task, result in zip(tasks, results, strict=True):
        first = result.answered[0].instance if result.answered else None
        for line in _ignored_by_task(task, first, options):
            found.setdefault(line, {})[task.card.base] = None
    lines = [f"{flag} has no effect on {_listed(list(names))}: {why}" for (flag, why), names in found.items()]
    return lines + list(_ignored_by_all(tasks, spec))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_MOST_NAMES])} and {more} more"


def _ignored_by_task(task: Task, first: Instance | None, options: TaskOptions) -> Iterator[tuple[str, str]]:
    yield from _example_options(task, options)
    if first is not None:
        yield from _prompt_options(task, first, options)
    wanted = {entry["metric"] for entry in options.scoring.get("metric_list", ())}
    is_kept = wanted.isdisjoint({ALL, *(spec.name for spec in task.scoring.metrics)})
    if wanted and is_kept and not options.predict_only:
        yield "--metrics", "none of these metrics fits, so the usual ones are reported"


def _example_options(task: Task, options: TaskOptions) -> Iterator[tuple[str, str]]:
    asked, why = options.num_fewshot or 0, _no_examples(task)
    if asked and not task.card.num_fewshot and why is None:
        why = "num_fewshot: 0 in a task file wins over the run's number, as in lm-eval"
    if asked and why is not None and not isinstance(task, HeadTask):  # which has its own notice
        yield f"--num_fewshot {asked}", why
    if options.fewshot_sampler is not None and (why is not None or not task.card.num_fewshot):
        yield "--fewshot_sampler", why or "no examples are shown"


def _no_examples(task: Task) -> str | None:
    """Why a task of this kind ignores the run's few-shot settings; None if it follows them."""
    if task.card.kind == KIND:
        return "whole texts are read without examples"
    return None if _is_from_task_file(task) else _OWN_PROMPTS


def _is_from_task_file(task: Task) -> bool:
    """Whether a task takes examples, conversations and generation settings from the run: task files' tasks do."""
    while isinstance(task, (RescoredTask, WindowedTask, HeadTask)):
        task = task.task
    return task.card.variant is not None or task.card.kind == _OF_CLASS


def _prompt_options(task: Task, first: Instance, options: TaskOptions) -> Iterator[tuple[str, str]]:
    prompts = [request.prompt for request in first.requests if hasattr(request, "prompt")]
    why = _OWN_PROMPTS
    if not prompts:
        is_head = isinstance(task, HeadTask)
        why = ("a head reads the fields" if is_head else "whole texts are read") + ", without a prompt"
    system = options.chat.system
    if system and not any(system.strip() in text for prompt in prompts for text in _texts(prompt)):
        yield "--system_instruction", why
    if options.chat.apply and all(isinstance(prompt, (str, Demonstrated)) for prompt in prompts):
        yield "--apply_chat_template", why
    if options.generation and not _is_from_task_file(task):
        yield "--gen_kwargs", "a Python task has generation settings of its own"
    elif options.generation and not any(map(_is_generated, first.requests)):
        yield "--gen_kwargs", "no text is generated"


def _is_generated(request: Request) -> bool:
    return isinstance(request, Generation)


def _texts(prompt: Prompt) -> list[str]:
    if isinstance(prompt, str):
        return [prompt]
    return [prompt.opening] if isinstance(prompt, Demonstrated) else [message.text for message in prompt]


def _ignored_by_all(tasks: Sequence[Task], spec: RunSpec) -> Iterator[str]:
    """Options for kinds of tasks that the run does not have."""
    options, texts, default = spec.options, spec.options.texts, TextOptions()
    cards = [(task.card.variant, task.card.config) for task in tasks]
    is_of_columns = (texts.text_column, texts.domain_column) != (default.text_column, default.domain_column)
    if is_of_columns and not any(isinstance(task, TextTask) for task in tasks):
        yield "--text_column and --domain_column have no effect: no task of this run is text:PATH"
    if options.original_task and not any(variant is not None and variant.prompt is not None for variant, _ in cards):
        yield "--original_task has no effect: no task of this run has several prompts"
    # A run passes the model's settings to such tasks too.
    given = options.metadata.keys() - spec.model_args.keys()
    if given and not any(variant is not None and "custom_dataset" in config for variant, config in cards):
        yield "--metadata has no effect: no task of this run makes its own data (custom_dataset)"
