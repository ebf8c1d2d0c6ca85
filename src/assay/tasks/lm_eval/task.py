"""A task of the lm-eval dialect: loads its data once and builds its documents.

Takes a definition and the run's options, satisfies the `Task` protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault, UserError
from assay.core.formats import Question
from assay.core.plural import verb
from assay.core.protocols import DataRead, FewShotExample
from assay.core.requests import LONGEST_WINDOWS, Instance, Loglikelihood
from assay.core.specs import LM_EVAL, MetricSpec, Scoring, TaskCard, TaskOptions, TextOptions, named_sampler
from assay.core.training import TrainingExample
from assay.data.needs import DatasetNeed
from assay.data.sources import (
    CustomDatasetSource,
    HubSource,
    Source,
    check_splits,
    official_rows,
    open_source,
    origin_of,
    processed_rows,
    split_rows,
    split_size,
)
from assay.tasks.fewshot import BALANCED, FIRST, SamplerSettings
from assay.tasks.fewshot_overlap import CheckedSampler, LeakPolicy
from assay.tasks.head_requests import head_request_kind
from assay.tasks.lm_eval.build.fewshot_sampler import listed_notice, sampler_of, shares_split, with_sampler
from assay.tasks.lm_eval.build.fields import called
from assay.tasks.lm_eval.build.generation_settings import GenerationSettings, effective_settings, generation_settings
from assay.tasks.lm_eval.build.instances import InstanceBuilder, listed_order
from assay.tasks.lm_eval.build.kept_rows import kept_rows
from assay.tasks.lm_eval.build.questions import question_reader
from assay.tasks.lm_eval.build.random_state import seeded
from assay.tasks.lm_eval.build.training_examples import head_example, language_model_example, separate_skipped
from assay.tasks.lm_eval.file.card import card_of
from assay.tasks.lm_eval.file.definition import TaskDefinition, plain_config
from assay.tasks.lm_eval.file.value_checks import listed_choices
from assay.tasks.lm_eval.file.yaml_reader import CARD, KeyPath
from assay.tasks.text_tasks import KIND

Row = Mapping[str, Any]
Process = Callable[..., Any]
TRAINING, EVALUATED = "training", "evaluated"


class LmEvalTask:
    """One task file in one run."""

    def __init__(self, definition: TaskDefinition, options: TaskOptions, source: Source | None = None) -> None:
        if definition.output_type == KIND and options.texts != TextOptions():
            windows = definition.windows.changed(options.texts.window, options.texts.stride)
            definition = replace(definition, windows=windows)
        if definition.example_limit is not None and options.chat.apply:
            found = f"the style {definition.style} cuts examples to {definition.example_limit} tokens in plain text"
            advice = "Leave out --apply_chat_template, or the style"
            raise UserError(Fault(f"task {definition.name}", found, "a plain prompt", advice))
        if options.fewshot_sampler is not None or not definition.fewshot.is_like_lm_eval:
            definition = with_sampler(definition, options)
        self.definition = definition
        self.options = options
        self._given_source = source
        self._read_splits: dict[tuple[str, Process | None], list[dict[str, Any]]] = {}
        self._data_read = DataRead({}, {}, {})
        self._left_out: tuple[tuple[int, str], ...] = ()
        self._skip_notices: dict[str, list[str]] = {}

    def share_rows_with(self, other: LmEvalTask) -> LmEvalTask:
        """This task, sharing the cached rows of another task on the same dataset, so that they are read once."""
        self._read_splits, self._data_read = other._read_splits, other._data_read
        return self

    @cached_property
    def card(self) -> TaskCard:
        definition = self.definition
        config = plain_config({key: value for key, value in definition.file.data.items() if key not in ("tag", CARD)})
        config["num_fewshot"] = self.num_fewshot
        sampler = definition.fewshot.sampler
        if self.num_fewshot and isinstance(sampler, str) and sampler != named_sampler(config):
            config["fewshot_sampler"] = sampler
        if self.num_fewshot and definition.fewshot.listed:
            config["fewshot_rows"] = [dict(row) for row in definition.fewshot.listed[: self.num_fewshot]]
        if definition.style is not None:
            config["style"] = definition.style
        if definition.example_limit is not None:
            config["example_limit"] = definition.example_limit
        if definition.prompt is not None:
            config["prompt"] = dict(definition.prompt)
        if definition.variant.levels:
            config["variant"] = {"task": definition.variant.base, **definition.variant.levels}
        if definition.windows != LONGEST_WINDOWS:
            config["perplexity"] = {"window": definition.windows.length, "stride": definition.windows.stride}
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
            variant=definition.variant,
            facts=card_of(definition.file.data),
        )

    @property
    def scoring(self) -> Scoring:
        """How outputs are scored; with `predict_only` they are filtered and recorded, as in lm-eval."""
        if not self.options.predict_only:
            return like_lm_eval(self.definition.scoring) if self._is_like_lm_eval else self.definition.scoring
        return Scoring(self.definition.output_type, (MetricSpec("bypass"),), self.definition.scoring.pipelines)

    @property
    def num_fewshot(self) -> int:
        """Examples per prompt."""
        return self.options.shots(self.definition.fewshot_count)

    @property
    def _is_like_lm_eval(self) -> bool:
        return self.options.like == LM_EVAL

    def documents(self) -> Sequence[Document]:
        return self._documents

    def skipped_rows(self) -> Sequence[tuple[int, str]]:
        """See `SkipsRows`."""
        self.documents()
        return self._left_out

    def choice_order(self, instance: Instance) -> Sequence[int]:
        """See `ReordersChoices`."""
        return listed_order(len(instance.choices), self.definition.variant.order, instance.task)

    def written_choices(self) -> Sequence[Any]:
        """The choices that the task file lists, even if a style reads them."""
        definition = self.definition
        is_read = definition.style is not None and definition.format is None
        return listed_choices(definition.file.data.get("doc_to_choice") if is_read else definition.rendering.choice)

    def where_choices(self) -> str:
        return self.definition.file.where("doc_to_choice")

    def where_answer(self) -> str:
        return self.definition.file.where("doc_to_target" if self.definition.format is None else "format")

    def with_scoring(self, scoring: Scoring) -> LmEvalTask:
        """See `Rescorable`."""
        return LmEvalTask(replace(self.definition, scoring=scoring), self.options)

    def notices(self) -> list[str]:
        """Notices about documents, few-shot examples and training examples that are left out."""
        messages = [line for lines in self._skip_notices.values() for line in lines]
        if self.num_fewshot and self.definition.fewshot.listed:
            lack = listed_notice(self.definition.fewshot, self._all_examples(), self.num_fewshot)
            messages += [f"{self.definition.name}: {lack}"] if lack else []
        if self.definition.skip_reason is None:
            return messages
        return [*left_out_notices(self.definition.name, self.skipped_rows(), len(self._documents)), *messages]

    def build(self, document: Document) -> Instance:
        return self._instance_builder.build(document)

    def question(self, document: Document) -> Question | None:
        """The document as a question of its format; None if none can be found in it."""
        try:
            return None if self._question_reader is None else self._question_reader(document.fields)
        except DataError:
            return None

    @cached_property
    def _question_reader(self) -> Callable[[Row], Question] | None:
        return question_reader(self.definition)

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        """See `ProvidesTrainingExamples`; `notices` reports the documents that yield none."""
        if part == EVALUATED:
            return [
                training_example
                for training_example in self._examples_or_reasons(self._documents, kinds)
                if isinstance(training_example, TrainingExample)
            ]
        key = self._training_split_key(part)
        if key is None and part == TRAINING:
            raise self._no_training_split_error()
        rows = [] if key is None else self._training_rows(getattr(self.definition, key), key)
        documents = [Document(self.definition.name, place, row) for place, row in enumerate(rows)]
        where = f"{self.definition.name}: {part}"
        found, self._skip_notices[part] = separate_skipped(self._examples_or_reasons(documents, kinds), where)
        if documents and not found:
            reasons = "; ".join(self._skip_notices[part])
            raise DataError(Fault(f"task {self.definition.name}", reasons, "documents with a right answer"))
        return found

    def _training_split_key(self, part: str) -> str | None:
        """The key of the split that training examples come from; never the evaluated one, nor one for both parts."""
        keys: dict[str | None, str] = {}
        for key in ("training_split", "validation_split"):
            keys.setdefault(getattr(self.definition, key), key)
        free = [key for split, key in keys.items() if split not in (None, self.definition.evaluated_split)]
        return next(iter(free if part == TRAINING else free[1:]), None)

    def _no_training_split_error(self) -> DataError:
        definition = self.definition
        found = f'names no training split besides "{definition.evaluated_split}", which is evaluated'
        splits = [split for split in self._source.splits() if split != definition.evaluated_split]
        expected = f"one of: {', '.join(splits)}" if splits else "a dataset with a split for training"
        advice = "Add training_split: to the task file" if splits else "Add a training split to the dataset"
        return DataError(Fault(definition.file.where("training_split"), found, expected, advice))

    def _training_rows(self, split: str, key: str) -> Sequence[Row]:
        if self.definition.process is None:
            return self._rows(split, None, key)
        with seeded(self.options.python_seed, self.options.numpy_seed):
            return self._rows(split, self.definition.process, key)

    def _examples_or_reasons(
        self, documents: Sequence[Document], kinds: frozenset[str]
    ) -> Iterator[TrainingExample | str]:
        if not documents:
            return
        make_example = (
            self._language_example_maker(documents)
            if Loglikelihood.kind in kinds
            else self._head_example_maker(documents, kinds)
        )
        skip_reason = self.definition.skip_reason or (lambda row: None)
        for document in documents:
            yield skip_reason(document.fields) or make_example(document)

    def _language_example_maker(self, documents: Sequence[Document]) -> Callable[[Document], TrainingExample | str]:
        builder = self._make_instance_builder(documents[0].fields, [], None)
        may_lack = bool((self.definition.format or {}).get("may_lack", False))
        return lambda document: language_model_example(builder.build(document), builder.delimiter, may_lack)

    def _head_example_maker(
        self, documents: Sequence[Document], kinds: frozenset[str]
    ) -> Callable[[Document], TrainingExample | str]:
        asked = (self.question(document) for document in documents)
        first = next((question for question in asked if question is not None), None)
        kind = None if first is None else head_request_kind(first, kinds)
        if kind is None:
            found = f"has no question that a model trained on {', '.join(sorted(kinds))} requests can learn"
            advice = "State one with a key format: (docs/formats.md)"
            raise DataError(Fault(f"task {self.definition.name}", found, "a format that fits the model's head", advice))
        return lambda document: head_example(self.question(document), kind)

    def examples(self, document: Document) -> Sequence[FewShotExample]:
        """The examples before a document, in prompt order."""
        origin = self._pool_origin()
        return [FewShotExample(origin, place, row) for place, row in self._instance_builder.examples(document.id)]

    @cached_property
    def _source(self) -> Source:
        definition = self.definition
        if self._given_source is not None:
            return self._given_source
        if definition.custom_dataset is not None:
            return self._custom_source(definition.custom_dataset)
        sees_code = definition.process is not None or definition.fewshot.process is not None
        if self.options.data is None:
            return open_source(definition.source, sees_code or self._is_like_lm_eval)
        from assay.data.copy_source import open_with_copies  # most runs have no folder of copies

        return open_with_copies(definition.source, Path(self.options.data), sees_code or self._is_like_lm_eval)

    def open_data(self) -> None:
        """See `ReadsDataset`. A dataset of the Hub is loaded from its cache if there is no network, else not at all."""
        if self.definition.custom_dataset is not None:
            return
        if isinstance(self._source, HubSource) and self._source.is_fetched:
            from assay.data.load_faults import why_offline

            if not why_offline():
                return
        check_splits(self._source, self.splits_read())

    def splits_read(self) -> dict[str, str]:
        """The splits that an evaluation reads: split → the key that names it, for errors."""
        definition = self.definition
        key = "test_split" if definition.test_split else "validation_split"
        pool = self._pool_split if self.num_fewshot else None
        named = [(definition.evaluated_split, (key,)), *([pool] if pool is not None else [])]
        return {split: definition.file.where(*keys) for split, keys in reversed(named)}

    def data_read(self) -> DataRead:
        """See `ReadsDataset`."""
        stated = {**self._data_read.official, **self.card.facts.get("rows", {})}
        return replace(self._data_read, official=stated)

    def dataset_needs(self) -> Sequence[DatasetNeed]:
        """See `NeedsDatasets`."""
        definition = self.definition
        if definition.custom_dataset is not None or self._given_source is not None:
            return ()
        splits = (definition.evaluated_split, definition.fewshot.split, definition.training_split)
        named = tuple(dict.fromkeys(split for split in (*splits, definition.validation_split) if split))
        return (DatasetNeed(definition.source, named, self.card.facts.get("rows", {})),)

    def _custom_source(self, make: Process) -> Source:
        """The dataset that task code creates from the metadata of the task and the run."""
        where = self.definition.file.where("custom_dataset")
        notes = {
            **self.definition.metadata,
            **self.options.metadata,
            "config_source": str(self.definition.file.path),
            **self.definition.source.options,
        }
        with seeded(self.options.python_seed, self.options.numpy_seed):
            made = called(make, where)(**notes)
        if not isinstance(made, Mapping):
            raise DataError(Fault(where, f"its function returned a {type(made).__name__}", "a mapping of splits"))
        return CustomDatasetSource(made)

    @cached_property
    def _documents(self) -> list[Document]:
        key = "test_split" if self.definition.test_split else "validation_split"
        split, process = self.definition.evaluated_split, self.definition.process
        rows = self._rows(split, None, key) if process is None else self._made_rows(split, process, key)
        skip_reason, kept = self.definition.skip_reason, rows
        if skip_reason is not None:
            reasons = [skip_reason(row) for row in rows]
            kept = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
            self._left_out = tuple((place, reason) for place, reason in enumerate(reasons) if reason is not None)
        return [Document(self.definition.name, place, row) for place, row in enumerate(kept)]

    def _made_rows(self, split: str, process: Process, key: str) -> list[dict[str, Any]]:
        with seeded(self.options.python_seed, self.options.numpy_seed) as chance:
            rows = self._rows(split, process, key)
            if chance.was_used:
                # lm-eval builds the pool of examples first. If documents are drawn at random, the order matters.
                chance.start()
                self._read_splits.clear()
                self._pool()
                rows = self._rows(split, process, key)
        return rows

    def _rows(self, split: str, process: Process | None, *key: str) -> list[dict[str, Any]]:
        """The rows of a split; a split used for both documents and examples is read once."""
        if (split, process) not in self._read_splits:
            where = self.definition.file.where(*key)
            if process is None:
                rows = split_rows(self._source, split, where)
            else:
                named = called(process, self.definition.file.where("process_docs"))
                rows = processed_rows(self._source, split, named, where, may_cache=not self.definition.may_draw)
            if self.definition.kept:
                rows = kept_rows(rows, self.definition.kept, self.definition.file.where("keep_docs"))
            self._read_splits[split, process] = rows
            if split not in self._data_read.sizes:
                self._data_read.sizes[split] = len(rows) if process is None else split_size(self._source, split)
                self._data_read.origin.update(origin_of(self._source))
                self._data_read.official.update(official_rows(self._source))
        return self._read_splits[split, process]

    @cached_property
    def _generation_kwargs(self) -> dict[str, Any]:
        delimiter = self.definition.rendering.delimiters.example
        return effective_settings(self.definition.generation, self.options.generation, delimiter)

    @cached_property
    def _instance_builder(self) -> InstanceBuilder:
        skip_reason = self.definition.skip_reason
        pool = self._all_examples() if self.num_fewshot else []
        if skip_reason is not None:
            pool = [row for row in pool if skip_reason(row) is None]
        return self._make_instance_builder(
            self._documents[0].fields, pool, self._sampler(pool) if self.num_fewshot else None
        )

    def _make_instance_builder(
        self, first: Row, pool: Sequence[Row], sampler: CheckedSampler | None
    ) -> InstanceBuilder:
        definition = self.definition
        settings: GenerationSettings | None = None
        if definition.output_type == "generate_until":
            where = definition.file.where("generation_kwargs")
            settings = generation_settings(self._generation_kwargs, self.options.sampling_seed, where)
        return InstanceBuilder(definition, first, pool, sampler, self.options.chat, settings)

    def _all_examples(self) -> list[Row]:
        if self.definition.process is None and self.definition.fewshot.process is None:
            return list(self._pool())
        with seeded(self.options.python_seed, self.options.numpy_seed):
            return list(self._pool())

    @property
    def _pool_split(self) -> tuple[str, KeyPath] | None:
        """The split that examples are drawn from, and the key that names it; the order of preference is lm-eval's."""
        definition = self.definition
        if definition.fewshot.split is not None:
            inner = ("fewshot_config", "split")
            return definition.fewshot.split, inner if inner in definition.file.places else ("fewshot_split",)
        if definition.fewshot.samples is not None:
            return None
        keys = ("training_split", "validation_split", "test_split")
        named = [(split, (key,)) for key in keys if (split := getattr(definition, key)) is not None]
        return named[0] if named else None

    def _pool(self) -> Sequence[Row]:
        """Rows that examples are drawn from."""
        fewshot, found = self.definition.fewshot, self._pool_split
        if found is not None:
            split, keys = found
            return self._rows(split, self.definition.process if fewshot.split is None else fewshot.process, *keys)
        if callable(fewshot.samples):
            return list(called(fewshot.samples, self.definition.file.where("fewshot_config", "samples"))())
        return fewshot.samples or []

    def _pool_origin(self) -> str:
        """Origin of the pool's rows."""
        found = self._pool_split
        return "fewshot_config.samples" if found is None else f"split {found[0]}"

    def _sampler(self, pool: list[Row]) -> CheckedSampler:
        # lm-eval excludes a document from its own examples if the two splits have the same name, and None
        # equals None: a task with neither draws one more example. Equal prompts need the same draws; documents that
        # are still drawn as their own examples are replaced afterwards.
        fewshot = self.definition.fewshot
        # Balanced examples are drawn again without the document, whatever its split, so that they stay balanced.
        is_excluding = fewshot.excludes or fewshot.split == self.definition.test_split or fewshot.sampler == BALANCED
        excluded: Callable[[int], Row] | None = self._row if is_excluding else None
        where = self.definition.file.where("num_fewshot")
        seed = self.options.fewshot_seed if fewshot.seed is None else fewshot.seed
        # lm-eval draws for the chosen documents only.
        chosen = (self.options.samples or {}).get(self.definition.variant.base) if self._is_like_lm_eval else None
        order = sorted(set(chosen)) if chosen is not None else None
        drawing = SamplerSettings(self.num_fewshot, seed, excluded, where, self._row, order)
        is_own_split, is_made_alike = shares_split(self.definition, fewshot), fewshot.process is self.definition.process
        by_index = is_own_split and not is_made_alike and len(pool) == len(self._documents)
        leak_policy = LeakPolicy(not self.options.allows_self_example, is_own_split, fewshot.sampler == FIRST, by_index)
        return CheckedSampler(sampler_of(self.definition, pool, drawing), pool, drawing, leak_policy)

    def _row(self, place: int) -> Row:
        return self._documents[place].fields


def left_out_notices(task: str, left_out: Sequence[tuple[int, str]], kept: int) -> list[str]:
    """A line for every reason: the number of documents left out, the total, and the first of them."""
    found: dict[str, list[int]] = {}
    for place, reason in left_out:
        found.setdefault(reason, []).append(place)
    total = kept + len(left_out)
    return [
        f"{task}: {len(places)} of {total} documents {verb(len(places), 'is', 'are')} left out: {reason} "
        f"(first: document {places[0]})"
        for reason, places in found.items()
    ]


def like_lm_eval(scoring: Scoring) -> Scoring:
    """The same scoring with lm-eval's bug: an empty list of regexes makes `exact_match` compare whole lists."""
    return replace(scoring, metrics=tuple(map(_with_lm_eval_bug, scoring.metrics)))


def _with_lm_eval_bug(metric: MetricSpec) -> MetricSpec:
    options = metric.options
    changes = ("ignore_case", "ignore_punctuation", "ignore_numbers")
    if metric.name != "exact_match" or options.get("regexes_to_ignore") != [] or any(map(options.get, changes)):
        return metric
    return replace(metric, options={**options, "compares_lists": True})
