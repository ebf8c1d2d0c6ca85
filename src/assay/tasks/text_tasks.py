"""The user's own texts as perplexity tasks: `text:PATH` is one task per domain, and a group over several of them.

Takes a corpus (see `assay.data.corpora`), gives tasks that request the likelihood of each whole document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.documents import Document
from assay.core.requests import LONGEST_WINDOWS, Instance, RollingLoglikelihood, Windows
from assay.core.specs import GroupSpec, MetricSpec, Scoring, TaskCard, TaskOptions, TextOptions
from assay.data.corpora import CorpusText, read_corpus

MARK = "text:"
KIND = "loglikelihood_rolling"
METRICS = (
    "token_perplexity",
    "word_perplexity",
    "byte_perplexity",
    "bits_per_byte",
    "nats_per_token",
    "document_perplexity",
    "document_perplexity_median",
)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class TextTask:
    """The documents of one domain, each scored as a whole. Satisfies the `Task` protocol.

    Attributes:
        empty: number of empty documents, which are left out.
    """

    name: str
    domain: str
    path: Path
    texts: Sequence[CorpusText]
    options: TaskOptions
    alias: str
    empty: int = 0

    @property
    def card(self) -> TaskCard:
        options = self.options.texts
        config: dict[str, Any] = {
            "task": self.name,
            "output_type": KIND,
            "dataset_path": str(self.path),
            "domain": self.domain,
            "text_column": options.text_column,
            "domain_column": options.domain_column,
        }
        if self._windows != LONGEST_WINDOWS:
            config["perplexity"] = {"window": options.window, "stride": options.stride}
        return TaskCard(
            name=self.name,
            version=_VERSION,
            alias=self.alias,
            kind=KIND,
            num_fewshot=0,
            config=config,
            source=str(self.path),
        )

    @property
    def _windows(self) -> Windows:
        return LONGEST_WINDOWS.changed(self.options.texts.window, self.options.texts.stride)

    @property
    def scoring(self) -> Scoring:
        names = ("bypass",) if self.options.predict_only else METRICS
        return Scoring(KIND, tuple(map(MetricSpec, names)))

    def documents(self) -> Sequence[Document]:
        return [
            Document(self.name, place, {"text": text.text, "source": text.source})
            for place, text in enumerate(self.texts)
        ]

    def build(self, document: Document) -> Instance:
        text = document.fields["text"]
        request = RollingLoglikelihood(text, windows=self._windows)
        return Instance(self.name, document.id, (request,), target=text, gold=text)


@dataclass(frozen=True, slots=True)
class TextCorpus:
    """The tasks of `text:PATH`, the group over several of them, and notices about documents that were left out."""

    tasks: tuple[TextTask, ...]
    group: GroupSpec | None
    notices: tuple[str, ...] = ()


def open_corpus(name: str, options: TaskOptions) -> TextCorpus:
    """The tasks of a name `text:PATH`.

    Raises:
        DataError: with file and line, if there is nothing to read or something cannot be read.
    """
    path = _located(name, options.texts)
    corpus = read_corpus(path, Path(name.removeprefix(MARK)), options.texts, f"--tasks {MARK}{path}")
    is_single = len(corpus.domains) == 1
    tasks = tuple(
        TextTask(
            name=name if is_single else f"{name}:{domain}",
            domain=domain,
            path=path,
            texts=texts,
            options=options,
            alias=name if is_single else domain,
            empty=corpus.empty.total() if is_single else corpus.empty[domain],
        )
        for domain, texts in sorted(corpus.domains.items())
    )
    members = tuple(task.name for task in tasks)
    group = None if is_single else GroupSpec(name, name, members, version=_VERSION, is_pooled=True)
    empty = corpus.empty.total()
    notices = (f"{name}: documents without any text were left out ({empty})",) if empty else ()
    return TextCorpus(tasks, group, notices)


def _located(name: str, options: TextOptions) -> Path:
    path = Path(name.removeprefix(MARK)).expanduser()
    return Path(options.folder) / path if options.folder is not None and not path.exists() else path
