"""Adapter from a Python task class, written for lm-eval, to the `Task` protocol.

Takes the class and its file, satisfies the `Task` protocol. The class is instantiated, and loads its data, on demand.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.core.documents import Document
from assay.core.errors import AssayError, DataError, Fault, TaskFileError, UserError
from assay.core.protocols import FewShotExample
from assay.core.requests import (
    Generation,
    Instance,
    Loglikelihood,
    Message,
    Prompt,
    Request,
    RollingLoglikelihood,
)
from assay.core.specs import MetricSpec, Scoring, TaskCard, TaskOptions
from assay.data.needs import DatasetNeed
from assay.data.sources import SourceSpec, rows_of
from assay.lm_eval_shim.metric_functions import AGGREGATIONS
from assay.lm_eval_shim.task_classes import ConfigurableTask, Task, beside
from assay.tasks.fewshot import BALANCED
from assay.tasks.lm_eval.build.fields import called
from assay.tasks.lm_eval.build.generation_settings import generation_settings
from assay.tasks.lm_eval.build.instances import right_answer
from assay.tasks.lm_eval.file.definition import define, plain_config, version_of
from assay.tasks.lm_eval.file.yaml_reader import TaskFile


class _Conversation(str):
    """Chat messages as a string, where task code expects the output of a chat template."""

    messages: tuple[Message, ...]


def _converse(messages: Sequence[Mapping[str, str]], **settings: Any) -> _Conversation:
    text = _Conversation("\n".join(message["content"] for message in messages))
    text.messages = tuple(Message(message["role"], message["content"]) for message in messages)
    return text


def make_class_task(own: Any, file: TaskFile, options: TaskOptions) -> ClassTask:
    """The task that a file with `class:` defines."""
    where = file.where("class")
    if not isinstance(own, type):
        raise TaskFileError(Fault(where, f"is a {type(own).__name__}", "a class"))
    return ClassTask(own, file, options)


class ClassTask:
    """A Python task class within one run."""

    def __init__(self, own: type, file: TaskFile, options: TaskOptions) -> None:
        self._class = own
        self._file = file
        self._options = options
        self._contexts: list[Any] = []

    @cached_property
    def card(self) -> TaskCard:
        data = self._file.data
        version = getattr(self._class, "VERSION", None)
        own_version = version_of(data) if version is None else version
        config = {**plain_config(data), "num_fewshot": self._num_fewshot}
        if self._num_fewshot and self._options.fewshot_sampler is not None:
            config["fewshot_sampler"] = self._options.fewshot_sampler
        name = str(data["task"])
        return TaskCard(
            name=name,
            version=own_version,
            alias=str(data.get("task_alias", name)),
            kind="class",
            num_fewshot=self._num_fewshot,
            config=config,
            source=str(self._file.path),
        )

    @property
    def _num_fewshot(self) -> int:
        return self._options.shots(self._file.data.get("num_fewshot"))

    @cached_property
    def scoring(self) -> Scoring:
        if self._options.predict_only:
            return Scoring("generate_until", (MetricSpec("bypass"),))
        task = self._task
        if isinstance(task, ConfigurableTask) and type(task).process_results is ConfigurableTask.process_results:
            return define(TaskFile(self._file.path, {"task": "class", **task.config.to_dict()}, {})).scoring
        directions = dict(task.higher_is_better())
        metrics = tuple(
            MetricSpec(name, AGGREGATIONS.get(function, function), directions.get(name))
            for name, function in task.aggregation().items()
        )
        return Scoring("generate_until", metrics, process=task.process_results)

    def documents(self) -> Sequence[Document]:
        return self._documents

    @cached_property
    def _task(self) -> Task:
        """The task object, constructed as in lm-eval."""
        where = self._file.where("class")
        settings = inspect.signature(self._class).parameters
        config = {key: value for key, value in self._file.data.items() if key not in ("class", "tag")}
        copies = None if self._options.data is None else Path(self._options.data)
        with beside(self._file.path.parent, copies):
            task = called(self._class, where)(**({"config": config} if "config" in settings else {}))
        if not isinstance(task, Task):
            raise TaskFileError(
                Fault(where, f"{self._class.__name__} is not a task", "a subclass of lm_eval.api.task.ConfigurableTask")
            )
        task.config.task = self._file.data["task"]
        task.config.num_fewshot = self._num_fewshot
        task.allows_self_example = self._options.allows_self_example
        if task.config.generation_kwargs is not None:
            task.config.generation_kwargs = {**task.config.generation_kwargs, **self._options.generation}
        if self._num_fewshot:
            self._name_sampler(task)
            task.set_fewshot_seed(self._options.fewshot_seed)
        return task

    def _name_sampler(self, task: Task) -> None:
        """Sets the sampler of the run; a class that chooses its examples itself is an error."""
        name = self._options.fewshot_sampler
        if name is None:
            return
        own = type(task).fewshot_context
        if not isinstance(task, ConfigurableTask) or own is not ConfigurableTask.fewshot_context:
            found = f"{self._class.__name__} chooses its few-shot examples itself, so no sampler can be set for it"
            raise UserError(Fault(self._file.where("class"), found, next="Leave out the task, or --fewshot_sampler"))
        is_answered = (
            task.config.doc_to_target is not None or type(task).doc_to_target is not ConfigurableTask.doc_to_target
        )
        if name == BALANCED and not is_answered:
            found = f"{self._class.__name__} states no right answer, which the balanced sampler needs"
            raise UserError(Fault(self._file.where("class"), found, "doc_to_target", "Choose another sampler"))
        task.sampler_name = name

    def dataset_needs(self) -> Sequence[DatasetNeed]:
        """See `NeedsDatasets`: the dataset that the class names, with all splits."""
        data = self._file.data
        path = data.get("dataset_path") or getattr(self._class, "DATASET_PATH", None)
        name = data.get("dataset_name") or getattr(self._class, "DATASET_NAME", None)
        if not isinstance(path, str) or not path:
            return ()
        options, where = data.get("dataset_kwargs") or {}, self._file.where("class")
        return (DatasetNeed(SourceSpec(path, name, options, self._file.path.parent, where, str(data["task"]))),)

    @cached_property
    def _documents(self) -> list[Document]:
        rows = rows_of(called(lambda: self._task.eval_docs, self._file.where("class"))())
        if not rows:
            raise DataError(Fault(self._file.where("class"), "has no documents", "at least one"))
        return [Document(str(self._file.data["task"]), position, row) for position, row in enumerate(rows)]

    def examples(self, document: Document) -> Sequence[FewShotExample]:
        """The few-shot examples of a document, if the class leaves their choice to us."""
        task = self._task
        if not self._num_fewshot or not isinstance(task, ConfigurableTask):
            return ()
        return [FewShotExample("few-shot documents", position, row) for position, row in task.examples(document.id)]

    def build(self, document: Document) -> Instance:
        try:
            return self._build_instance(document)
        except AssayError:
            raise
        except Exception as error:  # third-party code may raise anything
            where = f"{self._file.where('class')}, document {document.id}"
            raise DataError(Fault(where, f"its class failed: {type(error).__name__}: {error}")) from error

    def _build_instance(self, document: Document) -> Instance:
        task, row = self._task, dict(document.fields)
        context = self._context(document)
        made = task.construct_requests(
            doc=row,
            ctx=context,
            metadata=(task.config.task, document.id, task.config.repeats),
            apply_chat_template=self._options.chat.apply,
            chat_template=_converse if self._options.chat.apply else None,
        )
        requests = tuple(self._request(item) for item in (made if isinstance(made, list) else [made]))
        target = task.doc_to_target(row)
        choices = _choices(task, row)
        gold = right_answer(str(task.OUTPUT_TYPE), target, choices, isinstance(target, list))
        # lm-eval requests the choices again without a prompt if a metric needs mutual information.
        nulls = ("",) if choices and len(requests) == 2 * len(choices) else ()
        notes = task.example_notes(document.id) if isinstance(task, ConfigurableTask) and self._num_fewshot else ()
        return Instance(
            document.task,
            document.id,
            requests,
            choices=choices,
            target=target,
            gold=gold,
            nulls=nulls,
            notes=notes,
        )

    def _context(self, document: Document) -> Any:
        """The prompt. Few-shot examples are drawn in document order, so earlier prompts are built first."""
        if not self._num_fewshot:
            return self._make_context(document)
        while len(self._contexts) <= document.id:
            self._contexts.append(self._make_context(self._documents[len(self._contexts)]))
        return self._contexts[document.id]

    def _make_context(self, document: Document) -> Any:
        task, chat, row = self._task, self._options.chat, dict(document.fields)
        if isinstance(task, ConfigurableTask):
            task.position = document.id
        return task.fewshot_context(
            row,
            num_fewshot=self._num_fewshot,
            system_instruction=chat.system,
            apply_chat_template=chat.apply,
            fewshot_as_multiturn=chat.multiturn,
            chat_template=_converse if chat.apply else None,
            gen_prefix=task.doc_to_prefix(row),
        )

    def _request(self, made: Any) -> Request:
        arguments = made.args
        where = f"{self._file.where('class')}, {made.request_type}"
        if made.request_type == "loglikelihood":
            return Loglikelihood(_prompt(arguments[0]), arguments[1])
        if made.request_type == "loglikelihood_rolling":
            return RollingLoglikelihood(arguments[0])
        if made.request_type == "generate_until":
            settings = generation_settings(arguments[1], self._options.sampling_seed, where)
            return Generation(_prompt(arguments[0]), settings.stop, settings.max_tokens, settings.sampling)
        raise DataError(Fault(where, "is not a request type", "loglikelihood, loglikelihood_rolling, generate_until"))


def _prompt(context: Any) -> Prompt:
    return context.messages if isinstance(context, _Conversation) else str(context)


def _choices(task: Task, row: Mapping[str, Any]) -> tuple[str, ...]:
    if isinstance(task, ConfigurableTask) and task.config.doc_to_choice is not None:
        return tuple(task.doc_to_choice(row))
    return ()
