"""A task of the lm-eval dialect: loads its data once and poses its documents.

Takes a definition and the run's options, satisfies the `Task` protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from assay.core.documents import Document
from assay.core.requests import Instance
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring, TaskCard, TaskOptions
from assay.tasks.fewshot import FirstSampler, RandomSampler, Sampler
from assay.tasks.harness.definition import TaskDefinition, plain_config
from assay.tasks.harness.generation import GenerationSettings, effective_settings, generation_settings
from assay.tasks.harness.pose import Poser
from assay.tasks.sources import Source, open_source, split_rows

Row = Mapping[str, Any]


class HarnessTask:
    """One task file in one run."""

    def __init__(self, definition: TaskDefinition, options: TaskOptions, source: Source | None = None) -> None:
        self.definition = definition
        self.options = options
        self._given_source = source
        self._read_splits: dict[str, list[dict[str, Any]]] = {}

    @cached_property
    def card(self) -> TaskCard:
        definition = self.definition
        config = plain_config({key: value for key, value in definition.file.data.items() if key != "tag"})
        config["num_fewshot"] = self.num_fewshot
        if definition.output_type == "generate_until":
            config["generation_kwargs"] = plain_config(self._generation_kwargs)
        return TaskCard(
            name=definition.name,
            version=definition.version,
            alias=definition.alias,
            kind=definition.output_type,
            num_fewshot=self.num_fewshot,
            config=config,
            source=str(definition.file.path),
        )

    @property
    def scoring(self) -> Scoring:
        """How outputs are scored; with `predict_only` they are only recorded."""
        if not self.options.predict_only:
            return self.definition.scoring
        pipeline = PipelineSpec("none", (FilterSpec("take_first"),))
        return Scoring(self.definition.output_type, (MetricSpec("bypass"),), (pipeline,))

    @property
    def num_fewshot(self) -> int:
        """Examples per prompt. The run's number wins, except over a task that says 0."""
        own, asked = self.definition.fewshot_count, self.options.num_fewshot
        return own or 0 if asked is None or own == 0 else asked

    def documents(self) -> Sequence[Document]:
        return self._documents

    def pose(self, document: Document) -> Instance:
        return self._poser.pose(document)

    @cached_property
    def _source(self) -> Source:
        return self._given_source or open_source(self.definition.source)

    @cached_property
    def _documents(self) -> list[Document]:
        key = "test_split" if self.definition.test_split else "validation_split"
        rows = self._rows(self.definition.evaluated_split, key)
        return [Document(self.definition.name, place, row) for place, row in enumerate(rows)]

    def _rows(self, split: str, *key: str) -> list[dict[str, Any]]:
        """The rows of a split; one that serves for documents and examples alike is read once."""
        if split not in self._read_splits:
            self._read_splits[split] = split_rows(self._source, split, self.definition.file.where(*key))
        return self._read_splits[split]

    @cached_property
    def _generation_kwargs(self) -> dict[str, Any]:
        delimiter = self.definition.rendering.delimiters.example
        return effective_settings(self.definition.generation, self.options.generation, delimiter)

    @cached_property
    def _poser(self) -> Poser:
        definition = self.definition
        settings: GenerationSettings | None = None
        if definition.output_type == "generate_until":
            where = definition.file.where("generation_kwargs")
            settings = generation_settings(self._generation_kwargs, self.options.sampling_seed, where)
        pool = self._pool() if self.num_fewshot else []
        sampler = self._sampler(pool) if self.num_fewshot else None
        return Poser(definition, self._documents[0].fields, pool, sampler, self.options.chat, settings)

    def _pool(self) -> Sequence[Row]:
        """Rows that examples may come from; the order of the sources is lm-eval's."""
        definition = self.definition
        if definition.fewshot.split is not None:
            inner = ("fewshot_config", "split")
            place = inner if inner in definition.file.places else ("fewshot_split",)
            return self._rows(definition.fewshot.split, *place)
        if definition.fewshot.samples is not None:
            return definition.fewshot.samples
        for key in ("training_split", "validation_split", "test_split"):
            split = getattr(definition, key)
            if split is not None:
                return self._rows(split, key)
        return []

    def _sampler(self, pool: Sequence[Row]) -> Sampler:
        # lm-eval keeps a document out of its own examples when the two splits have the same name, and None
        # equals None: a task with neither draws one more example. Equal prompts need the same rule.
        is_excluding = self.definition.fewshot.split == self.definition.test_split
        excluded: Callable[[int], Row] | None = self._row if is_excluding else None
        where = self.definition.file.where("num_fewshot")
        if self.definition.fewshot.sampler == "first_n":
            return FirstSampler(pool, self.num_fewshot, excluded, where)
        return RandomSampler(pool, self.num_fewshot, self.options.fewshot_seed, excluded, where)

    def _row(self, place: int) -> Row:
        return self._documents[place].fields
