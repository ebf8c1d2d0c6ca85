"""`lm_eval.api.task` and `lm_eval.api.instance`: the classes that Python tasks inherit from, and their requests.

A subclass overrides individual methods; everything else follows its configuration, as in a task file.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assay.core.errors import DataError, Fault
from assay.data.copy_source import load_with_copies
from assay.data.sources import SourceSpec, load_all
from assay.tasks.fewshot import DEFAULT, FIRST, SamplerSettings, make_sampler
from assay.tasks.fewshot_overlap import CheckedSampler, LeakPolicy, is_same, other_indices
from assay.tasks.lm_eval.build.fields import choices_reader, optional_reader, target_reader, text_reader
from assay.tasks.lm_eval.build.generation_settings import effective_settings
from assay.tasks.prompt_parts import Delimiters, as_messages, as_text, system_pieces, turn

Row = Mapping[str, Any]

_DEFAULTS: dict[str, Any] = {
    "task": None,
    "dataset_path": None,
    "dataset_name": None,
    "dataset_kwargs": None,
    "training_split": None,
    "validation_split": None,
    "test_split": None,
    "fewshot_split": None,
    "process_docs": None,
    "doc_to_text": None,
    "doc_to_target": None,
    "doc_to_choice": None,
    "description": "",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "num_fewshot": None,
    "metric_list": None,
    "output_type": "generate_until",
    "generation_kwargs": None,
    "repeats": 1,
    "filter_list": None,
    "gen_prefix": None,
    "metadata": None,
}


@dataclass
class Instance:
    """One request of a document. Not frozen: task code may modify it."""

    request_type: str
    doc: Any
    arguments: Any
    idx: int
    metadata: tuple[Any, ...] = (None, None, None)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments, always as a tuple."""
        return self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)

    @property
    def task_name(self) -> Any:
        return self.metadata[0]

    @property
    def doc_id(self) -> Any:
        return self.metadata[1]

    @property
    def repeats(self) -> Any:
        return self.metadata[2]


# Folder of the task file whose class is being instantiated, against which relative data files are resolved; folder of
# local copies of datasets.
_FOLDERS: ContextVar[tuple[Path | None, Path | None]] = ContextVar("folders", default=(None, None))


@contextmanager
def beside(folder: Path, copies: Path | None = None) -> Iterator[None]:
    """Within the block, task classes find relative data files in a folder first, and datasets among local copies."""
    token = _FOLDERS.set((folder, copies))
    try:
        yield
    finally:
        _FOLDERS.reset(token)


class TaskConfig(SimpleNamespace):
    """A task's settings as attributes, with lm-eval's defaults; also readable as items."""

    def __init__(self, **settings: Any) -> None:
        merged = {**_DEFAULTS, **settings}
        if merged["output_type"] == "generate_until":
            own = effective_settings(merged["generation_kwargs"], {}, merged["fewshot_delimiter"])
            merged["generation_kwargs"] = own
        super().__init__(**merged)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, or the default if it is not set."""
        return getattr(self, name, default)

    def to_dict(self) -> dict[str, Any]:
        """The settings that are set."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _load(task: Task, options: Row) -> Any:
    """The dataset of a task object: split → rows."""
    (folder, copies), where = _FOLDERS.get(), f"task class {type(task).__name__}"
    name = str(task.config.get("task") or "")
    spec = SourceSpec(task.DATASET_PATH or "", task.DATASET_NAME, dict(options), folder, where, name)
    return load_all(spec) if copies is None else load_with_copies(spec, copies)


class Task:
    """Base class of Python tasks. The methods that define a task must be overridden."""

    VERSION: Any = None
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: str | None = None
    # Whether a document that is drawn as its own example is shown as one, as in lm-eval; set by the caller.
    allows_self_example = False

    def __init__(
        self, data_dir: Any = None, cache_dir: Any = None, download_mode: Any = None, config: Row | None = None
    ) -> None:
        self._config = TaskConfig(**(config or {}))
        self.fewshot_rnd: random.Random | None = None
        self.download()

    def download(self, *arguments: Any, **settings: Any) -> None:
        """Loads the dataset into `self.dataset`: split → rows."""
        self.dataset = _load(self, {})

    @property
    def config(self) -> TaskConfig:
        return self._config

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Changes a setting, or adds to one that is a mapping."""
        self._config[key] = {**(self._config.get(key) or {}), **value} if update else value

    def get_config(self, key: str) -> Any:
        return self._config.get(key)

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        """Seeds the random generator of few-shot draws."""
        self.fewshot_rnd = random.Random(seed)

    # Documents

    def has_training_docs(self) -> bool:
        return False

    def has_validation_docs(self) -> bool:
        return False

    def has_test_docs(self) -> bool:
        return False

    def training_docs(self) -> Iterable[Any]:
        return []

    def validation_docs(self) -> Iterable[Any]:
        return []

    def test_docs(self) -> Iterable[Any]:
        return []

    @property
    def eval_docs(self) -> Iterable[Any]:
        """The evaluated documents: the test documents, else the validation documents."""
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise DataError(Fault(f"task class {type(self).__name__}", "has neither test nor validation documents"))

    def fewshot_docs(self) -> Iterable[Any]:
        """The documents that few-shot examples are drawn from."""
        if self.has_training_docs():
            return self.training_docs()
        return self.validation_docs() if self.has_validation_docs() else self.test_docs()

    def _process_doc(self, doc: Any) -> Any:
        return doc

    # Prompts and scores

    def doc_to_text(self, doc: Any) -> Any:
        raise NotImplementedError

    def doc_to_target(self, doc: Any) -> Any:
        raise NotImplementedError

    def doc_to_prefix(self, doc: Any) -> Any:
        return ""

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def process_results(self, doc: Any, results: Any) -> Mapping[str, Any]:
        raise NotImplementedError

    def aggregation(self) -> Mapping[str, Callable[..., Any]]:
        raise NotImplementedError

    def higher_is_better(self) -> Mapping[str, bool]:
        return {}

    @classmethod
    def count_bytes(cls, doc: str) -> int:
        return len(doc.encode("utf-8"))

    @classmethod
    def count_words(cls, doc: str) -> int:
        return len(re.split(r"\s+", doc))

    def fewshot_context(self, doc: Any, num_fewshot: int, **settings: Any) -> Any:
        """Examples as text and target, one blank line between them, then the document's text."""
        examples = ""
        if num_fewshot:
            pool, chance = list(self.fewshot_docs()), self.fewshot_rnd or random.Random()
            if self.has_training_docs():
                drawn = self._without(doc, pool, chance.sample(range(len(pool)), num_fewshot))
            else:
                drawn = [row for row in chance.sample(pool, num_fewshot + 1) if row != doc][:num_fewshot]
            examples = "".join(f"{self.doc_to_text(row)}{self.doc_to_target(row)}\n\n" for row in drawn)
        return f"{settings.get('description') or ''}{examples}{self.doc_to_text(doc)}"

    def _without(self, doc: Any, pool: Sequence[Any], drawn: Sequence[int]) -> list[Any]:
        """The examples at these positions; the next rows of the pool replace the document itself."""
        kept = [position for position in drawn if self.allows_self_example or not is_same(pool[position], doc)]
        others = other_indices(pool, drawn, doc, len(drawn) - len(kept), None)
        return [pool[position] for position in (drawn if others is None else (*kept, *others))]


class ConfigurableTask(Task):
    """A task with a configuration. What a subclass does not override works as in a task file."""

    VERSION = "Yaml"
    CONFIG: TaskConfig | None = None

    def __init__(
        self, data_dir: Any = None, cache_dir: Any = None, download_mode: Any = None, config: Row | None = None
    ) -> None:
        settings = {**(self.CONFIG.to_dict() if self.CONFIG is not None else {}), **(config or {})}
        self._config = TaskConfig(**settings)
        metadata = self._config.metadata
        if isinstance(metadata, Mapping) and "version" in metadata:
            self.VERSION = metadata["version"]
        self.OUTPUT_TYPE = self._config.output_type
        self.DATASET_PATH = self._config.dataset_path or self.DATASET_PATH
        self.DATASET_NAME = self._config.dataset_name or self.DATASET_NAME
        self.fewshot_rnd = None
        self.position = 0  # of the document that is being evaluated; set by the caller
        self.sampler_name = DEFAULT  # which examples are drawn; set by the caller
        self._sampler: CheckedSampler | None = None
        self._pool: list[Any] | None = None
        self._evaluated: list[Any] | None = None
        self.download(self._config.dataset_kwargs)

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self.dataset = _load(self, dataset_kwargs or {})

    def has_training_docs(self) -> bool:
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self.config.test_split is not None

    def _docs(self, split: str) -> Any:
        rows = self.dataset[split]
        return rows if self.config.process_docs is None else self.config.process_docs(rows)

    def training_docs(self) -> Any:
        return self._docs(self.config.training_split)

    def validation_docs(self) -> Any:
        return self._docs(self.config.validation_split)

    def test_docs(self) -> Any:
        return self._docs(self.config.test_split)

    def fewshot_docs(self) -> Iterable[Any]:
        split = self.config.fewshot_split
        return self._docs(split) if split is not None else super().fewshot_docs()

    # Fields of a document

    def _where(self, key: str) -> str:
        return f"task class {type(self).__name__}, {key}"

    def doc_to_text(self, doc: Row, doc_to_text: Any = None) -> Any:
        value = self.config.doc_to_text if doc_to_text is None else doc_to_text
        return text_reader(value or "", list(doc), self.config.doc_to_choice is not None, self._where("doc_to_text"))(
            doc
        )

    def doc_to_target(self, doc: Row, doc_to_target: Any = None) -> Any:
        value = self.config.doc_to_target if doc_to_target is None else doc_to_target
        has_choices = self.config.doc_to_choice is not None
        return target_reader(value, list(doc), has_choices, self._where("doc_to_target"))(doc)

    def doc_to_choice(self, doc: Row, doc_to_choice: Any = None) -> Any:
        value = self.config.doc_to_choice if doc_to_choice is None else doc_to_choice
        return choices_reader(value, list(doc), self._where("doc_to_choice"))(doc)

    def doc_to_prefix(self, doc: Row) -> str | None:
        return optional_reader(self.config.gen_prefix, self._where("gen_prefix"))(doc) or None

    # Prompts and requests

    def set_fewshot_seed(self, seed: int | None = None) -> None:
        super().set_fewshot_seed(seed)
        self._pool = list(self.fewshot_docs())
        # lm-eval's rule: see `LmEvalTask`. A document is excluded from its own examples if both splits are the same.
        is_excluding = self.config.fewshot_split == self.config.test_split
        splits = (self.config.fewshot_split, *map(self.config.get, ("training_split", "validation_split")))
        evaluated = self.config.test_split or self.config.validation_split
        is_own_split = next((split for split in splits if split), self.config.test_split) == evaluated
        if self.sampler_name != DEFAULT:
            is_excluding = is_own_split
        excluded = self._document if is_excluding else None
        where, count = self._where("few-shot examples"), self.config.num_fewshot or 0
        drawing = SamplerSettings(count, seed, excluded, where, self._document)
        sampler = make_sampler(self.sampler_name, self._pool, drawing, self._shown_answer)
        leak_policy = LeakPolicy(not self.allows_self_example, is_own_split, self.sampler_name == FIRST)
        self._sampler = CheckedSampler(sampler, self._pool, drawing, leak_policy)

    def _document(self, position: int) -> Any:
        if self._evaluated is None:
            self._evaluated = list(self.eval_docs)
        return self._evaluated[position]

    def fewshot_context(
        self,
        doc: Row,
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        gen_prefix: str | None = None,
        **settings: Any,
    ) -> Any:
        """The whole prompt of a document: text, or the output of the chat template."""
        description = optional_reader(self.config.description, self._where("description"))(doc)
        pieces = list(system_pieces(system_instruction or "", description, self.config.fewshot_delimiter))
        delimiters = Delimiters(self.config.target_delimiter, self.config.fewshot_delimiter)
        for _, row in self.examples(self.position) if num_fewshot else ():
            answer = self._shown_answer(row)
            pieces += turn(self.doc_to_text(row), answer or None, self.doc_to_prefix(row) or None, delimiters)
        pieces += turn(self.doc_to_text(doc), None, gen_prefix or None, Delimiters(delimiters.target, ""))
        if apply_chat_template and chat_template is not None:
            messages = as_messages(pieces, fewshot_as_multiturn)
            return chat_template([{"role": message.role, "content": message.text} for message in messages])
        return as_text(pieces)

    def examples(self, position: int) -> Sequence[tuple[int, Any]]:
        """The few-shot examples of the document at a position: (position in the pool, row)."""
        if self._sampler is None or self._pool is None:
            return ()
        return [(found, self._pool[found]) for found in self._sampler.places(position)]

    def example_notes(self, position: int) -> tuple[str, ...]:
        """Notes on irregular few-shot examples of the document at a position."""
        is_ours = type(self).fewshot_context is ConfigurableTask.fewshot_context
        return self._sampler.notes(position) if is_ours and self._sampler is not None else ()

    def _shown_answer(self, row: Row) -> str:
        answer = self.doc_to_target(row)
        if isinstance(answer, int) and self.config.doc_to_choice is not None:
            answer = self.doc_to_choice(row)[answer]
        return str(answer[0] if isinstance(answer, list) and answer else answer)

    def construct_requests(self, doc: Row, ctx: Any, **kwargs: Any) -> Any:
        """The requests of a document, by the configured output type."""
        in_chat = kwargs.pop("apply_chat_template", False)
        kwargs.pop("chat_template", None)
        kind = self.OUTPUT_TYPE or "generate_until"
        if kind == "multiple_choice":
            delimiter = "" if in_chat else self.config.target_delimiter
            return [
                Instance("loglikelihood", doc, (ctx, f"{delimiter}{choice}"), position, **kwargs)
                for position, choice in enumerate(self.doc_to_choice(doc))
            ]
        if kind == "generate_until":
            return Instance(kind, doc, (ctx, dict(self.config.generation_kwargs)), 0, **kwargs)
        target = self.doc_to_target(doc)
        return Instance(kind, doc, (ctx, target) if kind == "loglikelihood" else (target,), 0, **kwargs)

    def should_decontaminate(self) -> bool:
        return False
