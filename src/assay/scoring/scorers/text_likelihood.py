"""Likelihoods of single continuations and whole texts, per document, word, token and byte."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.documents import Document
from assay.core.requests import Instance
from assay.core.responses import GREEDY_UNKNOWN, Logprob
from assay.scoring.scorers.row_values import row_value
from assay.stats.means import perplexity_of

_WHITE_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class LikelihoodView:
    """A continuation or text and its log-likelihood."""

    logprob: Logprob
    text: str


def likelihood_view(instance: Instance, results: Sequence[Any]) -> LikelihoodView:
    """The view of one document."""
    return LikelihoodView(results[0], str(instance.target))


def log_probability(view: LikelihoodView, options: Mapping[str, Any]) -> float:
    """The log-likelihood itself, for perplexity over documents."""
    return view.logprob.total


def greedy(view: LikelihoodView, options: Mapping[str, Any]) -> float:
    """Whether greedy decoding would produce exactly this text; NaN if the model does not say."""
    return math.nan if GREEDY_UNKNOWN in view.logprob.notes else float(view.logprob.is_greedy)


def per_word(view: LikelihoodView, options: Mapping[str, Any], document: Document | None = None) -> tuple[float, int]:
    """(log-likelihood, words). White space at an end counts as an additional empty word, as in lm-eval."""
    return view.logprob.total, len(_WHITE_SPACE.split(_counted_text(view, options, document)))


def per_token(view: LikelihoodView, options: Mapping[str, Any]) -> tuple[float, int]:
    """(log-likelihood, scored tokens)."""
    return view.logprob.total, view.logprob.token_count


def token_perplexity(view: LikelihoodView, options: Mapping[str, Any]) -> float:
    """The document's own perplexity per token; NaN for a document without tokens."""
    count = view.logprob.token_count
    return perplexity_of(-view.logprob.total / count) if count else math.nan


def per_byte(view: LikelihoodView, options: Mapping[str, Any], document: Document | None = None) -> tuple[float, int]:
    """(log-likelihood, UTF-8 bytes)."""
    return view.logprob.total, len(_counted_text(view, options, document).encode("utf-8", "surrogatepass"))


def _counted_text(view: LikelihoodView, options: Mapping[str, Any], document: Document | None) -> str:
    """The scored text, or the column that the option `counted` names: WikiText counts words before detokenising."""
    column = options.get("counted")
    return view.text if column is None or document is None else str(row_value(document, column))
