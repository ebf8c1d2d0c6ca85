"""Cloze questions whose choices fill in an entity (ReCoRD, Zhang et al. 2018): the predicted entity against all answers.

The choices are the sorted distinct entities of the column `entities`; right answers are in the column `answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault
from assay.scoring.scorers.multiple_choice import ChoiceView, predicted_choice
from assay.scoring.scorers.row_values import row_value
from assay.stats.squad_tokens import normalised, word_f1


def entity_em(view: ChoiceView, options: Mapping[str, Any], document: Document) -> float:
    """Whether the predicted entity equals an answer, by SQuAD's normalisation."""
    return _best(view, document, lambda entity, answer: float(entity == answer))


def entity_f1(view: ChoiceView, options: Mapping[str, Any], document: Document) -> float:
    """Token F1 of the predicted entity with the closest answer."""
    return _best(view, document, word_f1)


def _best(view: ChoiceView, document: Document, compare: Callable[[str, str], float]) -> float:
    entities = sorted(set(row_value(document, "entities")))
    if len(entities) != len(view.choices):
        found = f"{len(view.choices)} choices, but {len(entities)} different entities"
        raise DataError(Fault(f"task {document.task}, document {document.id}", found, "one choice per sorted entity"))
    predicted = normalised(entities[predicted_choice(view)])
    return max((compare(predicted, normalised(answer)) for answer in row_value(document, "answers")), default=0.0)
