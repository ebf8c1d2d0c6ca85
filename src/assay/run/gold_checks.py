"""Right answers that are none of the choices: an error before anything is asked where no document can be right.

Takes posed tasks, raises for those whose every document counts as wrong; gives notices of labels read in a way that
may not be meant. `--like lm-eval` scores such tasks 0, as lm-eval does, and `--predict_only` scores nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.recorded_values import BYPASS
from assay.core.requests import Instance
from assay.core.results import TaskResult
from assay.core.specs import LM_EVAL, RunSpec, Scoring
from assay.run.build import BuiltTask
from assay.tasks.lm_eval.build.instances import INVALID_GOLD
from assay.tasks.lm_eval.file.definition import TaskDefinition
from assay.tasks.lm_eval.file.value_checks import listed_choices, template_choices
from assay.tasks.lm_eval.task import LmEvalTask

# Shapes whose scorers look for the place of the right choice, and that of a choice's label that is written.
_SHAPES = ("multiple_choice", "rotated_choice", "label_scores", "generate_until")
_WORKAROUND = "assay run --predict_only records the answers alone; --like lm-eval scores 0, as lm-eval does"
_LONGEST = 200
# A choice that is one column's name in braces.
_COLUMN = re.compile(r"\s*\{\{\s*([\w.]+)\s*\}\}\s*")


def has_invalid_gold(instance: Instance) -> bool:
    """Whether a multiple-choice question's right answer is none of its choices (an unlabelled split, say)."""
    size = len(instance.choices)
    golds = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
    places = [gold for gold in golds if isinstance(gold, int)]
    if places or not golds:
        return not any(0 <= index < size for index in places)
    # The right label of a generated answer is a text; where there is none, the target is still a place.
    return type(instance.target) is int and not -size <= instance.target < size


def check_golds(built: Sequence[BuiltTask], spec: RunSpec) -> None:
    """Refuses tasks in which no document can be answered rightly, with the first example of each."""
    if spec.options.like == LM_EVAL:
        return
    faults = [fault for item in built if _reads_golds(item.task.scoring) for fault in _faults(item)]
    if faults:
        raise DataError(*faults)


def _reads_golds(scoring: Scoring) -> bool:
    is_scored = any(metric.name != BYPASS for metric in scoring.metrics)
    return scoring.scorer in _SHAPES and scoring.process is None and is_scored


def _faults(built: BuiltTask) -> Iterator[Fault]:
    task = built.task
    choices = _written_choices(task.definition) if isinstance(task, LmEvalTask) else []
    if isinstance(task, LmEvalTask) and (found := template_choices(choices)):
        where, message = task.definition.file.where("doc_to_choice"), f"lists the choice {found[0]!r}, a template"
        yield Fault(where, f"{message} that is not filled in", "the choices as one template", _as_template(choices))
    elif built.instances and _has_no_valid_target(built):
        where = f"task {task.card.name}"
        if isinstance(task, LmEvalTask):
            keys = ("doc_to_target",) if task.definition.format is None else ("format",)
            where = f"{task.definition.file.where(*keys)}, {where}"
        message = "no document has a right answer among its choices, so every model scores 0"
        found_text = f"{message}: {_example(built)} and the choices {_shown(list(built.instances[0].choices))}"
        expected = "the text of a choice, or its place counted from 0"
        yield Fault(where, found_text, expected, _advice(task, built.instances[0]))


def _written_choices(definition: TaskDefinition) -> list[Any]:
    """The choices that the task file lists, also where a style reads them."""
    is_read = definition.style is not None and definition.format is None
    return listed_choices(definition.file.data.get("doc_to_choice") if is_read else definition.rendering.choice)


def _example(built: BuiltTask) -> str:
    """The first document with its target; with its fields where a style or a format found no place."""
    first, document = built.instances[0], built.documents[0]
    if first.target == INVALID_GOLD:
        return f"document {first.document_id} is {_shown(dict(document.fields))}"
    return f"document {first.document_id} has the target {_shown(first.target)}"


def _as_template(choices: Sequence[Any]) -> str:
    """Tells how a list of templates and texts is written as one template."""
    names = [_COLUMN.fullmatch(choice) if isinstance(choice, str) else None for choice in choices]
    inner = [found[1] if found else repr(choice) for found, choice in zip(names, choices, strict=True)]
    example = "a, b" if any("{" in part for part in inner) else ", ".join(inner)
    message = f'A list is taken as it is. Write doc_to_choice: "{{{{[{example}]}}}}"'
    return f"{message}. --like lm-eval scores the braces, as lm-eval does"


def _has_no_valid_target(built: BuiltTask) -> bool:
    """Whether no document of the split can be right; a limit does not decide it."""
    if not all(instance.choices and has_invalid_gold(instance) for instance in built.instances):
        return False
    asked = {instance.document_id for instance in built.instances}
    others = (document for document in built.task.documents() if document.id not in asked)
    return all(has_invalid_gold(built.task.build(document)) for document in others)


def _advice(task: Any, first: Instance) -> str:
    """What is the matter, as far as the first document tells."""
    target = first.target
    if _has_own_template(task.card.config) and _is_index(target) and str(target) in first.choices:
        name = "doc_to_target: COLUMN"
        return f"A template's digits are read as a place. For the text of a choice name the column alone ({name})"
    if target == INVALID_GOLD:
        return f"Is the split unlabelled, or are its labels other words than the choices? {_WORKAROUND}"
    is_unlabelled = target in (None, "", "-1") or (isinstance(target, (int, float)) and target < 0)
    if is_unlabelled:
        return f"Is the split unlabelled? Name another one. {_WORKAROUND}"
    return _WORKAROUND


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _has_own_template(config: Any) -> bool:
    """Whether targets are what the task's own template writes, so that digits become numbers."""
    written = config.get("doc_to_target")
    is_own = config.get("style") is None and config.get("prompt") is None
    return is_own and isinstance(written, str) and "{" in written


def _is_index(target: Any) -> bool:
    return isinstance(target, int) and not isinstance(target, bool)


def index_target_notices(result: TaskResult) -> Iterator[str]:
    """Targets of digits that are read as places although each is the text of a choice, too.

    Where one of them is not, such as a 0 among the choices 1 to 5, places are surely meant.
    """
    if not _has_own_template(result.card.config):
        return
    instances = [item.instance for item in result.answered if item.instance.choices]
    if not all(_is_index(item.target) and str(item.target) in item.choices for item in instances):
        return
    moved = [item for item in instances if str(item.target) not in item.choices[item.target : item.target + 1]]
    if moved:
        first = moved[0]
        read = _shown(first.choices[first.target]) if first.target < len(first.choices) else "no choice"
        message = f"the target is the text of a choice, but a template's digits are read as a place ({len(moved)} of"
        example = f"document {first.document_id}: {first.target} means {read}"
        yield f"{message} {len(instances)}; {example}); for the text, name the column alone in doc_to_target"
