"""Generation tasks that only state a format: the default prompts, settings and metrics of that format."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.formats import Question, RatedText, SpanQuestion, TextToText
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.tasks.lm_eval.build.fields import Derived, Row
from assay.tasks.lm_eval.build.questions import QuestionReader
from assay.tasks.lm_eval.file.definition import Rendering, TaskDefinition
from assay.tasks.lm_eval.file.format_key import NUMBER, NUMBER_METRICS, SPAN, SPAN_METRICS, format_kind
from assay.tasks.styles import Style
from assay.tasks.templates import render, with_separator

# Answer that the prompt requests if the text contains none; metrics treat it as no answer.
UNANSWERABLE = "unanswerable"
_INSTRUCTION = f'If the text does not answer the question, say "{UNANSWERABLE}".\n'
# Settings of the kinds whose answer is one line.
_SETTINGS = {
    SPAN: {"until": ["\n"], "max_gen_toks": 50, "do_sample": False},
    NUMBER: {"until": ["\n"], "max_gen_toks": 16, "do_sample": False},
}
_STRIPPED = (PipelineSpec("stripped", (FilterSpec("remove_whitespace"), FilterSpec("take_first"))),)
_A_NUMBER = {"regex_pattern": r"(-?\d+(?:\.\d+)?)"}
_FIRST_NUMBER = (PipelineSpec("number", (FilterSpec("regex", _A_NUMBER), FilterSpec("take_first"))),)


def as_written(definition: TaskDefinition, style: Style | None = None) -> TaskDefinition:
    """The task with the prompts of its format, or of a style for questions answered by a span of a text."""
    kind = format_kind(definition.format)
    questions = QuestionReader(definition, definition.rendering, ())
    fewshot = definition.fewshot
    shown = QuestionReader(definition, fewshot.rendering, ("fewshot_config",))
    settings = _SETTINGS.get(kind) if definition.generation is None else definition.generation
    return replace(
        definition,
        output_type="generate_until",
        description=separated_description(definition),
        rendering=_rendering(definition.rendering, questions, _right_answers, style),
        fewshot=replace(fewshot, rendering=_rendering(fewshot.rendering, shown, _shown_answer, style)),
        generation=settings,
        scoring=_scoring(definition, kind),
        questions=questions.question,
    )


def separated_description(definition: TaskDefinition) -> str | None:
    """The description before prompts that are not the file's, separated from them by the example delimiter."""
    own = definition.description
    return None if own is None else with_separator(own, definition.rendering.delimiters.example)


def _rendering(
    own: Rendering, questions: QuestionReader, answer: Callable[[Question], Any], style: Style | None
) -> Rendering:
    def text(row: Row) -> str:
        question = questions.question(row)
        return _prompt(question) if style is None else _styled_prompt(question, style)

    def target(row: Row) -> Any:
        return answer(questions.question(row))

    # A generated answer ends at its line end, so it begins on the prompt's line, whatever delimiter a style has.
    made = replace(own, text=Derived(text), target=Derived(target), choice=None)
    return made if style is None else replace(made, prefix=None)


def _styled_prompt(question: Question, style: Style) -> str:
    assert isinstance(question, SpanQuestion), "a style puts no other format that is written"
    parts = {"question": question.question, "context": question.context}
    return render(style.spans, parts, f"style {style.name}, spans")


def _prompt(question: Question) -> str:
    if isinstance(question, SpanQuestion):
        instruction = _INSTRUCTION if question.may_lack else ""
        return f"{question.context}\n\nQuestion: {question.question}\n{instruction}Answer:"
    if isinstance(question, RatedText):
        return "\n".join((question.text, *([] if question.pair is None else [question.pair]), "Answer:"))
    assert isinstance(question, TextToText), "no other format is written"
    return question.source


def _right_answers(question: Question) -> list[str]:
    if isinstance(question, RatedText):
        return [] if math.isnan(question.value) else [f"{question.value:g}"]
    return list(question.answers if isinstance(question, SpanQuestion) else _targets(question))


def _shown_answer(question: Question) -> str:
    """The answer that an example shows."""
    found = _right_answers(question)
    if found:
        return found[0]
    if isinstance(question, SpanQuestion) and question.may_lack:
        return UNANSWERABLE
    raise DataError(Fault("a few-shot example", "has no right answer", "answered examples", "Use another split"))


def _targets(question: Question) -> tuple[str, ...]:
    assert isinstance(question, TextToText), "no other format is written"
    return question.targets


def _scoring(definition: TaskDefinition, kind: str) -> Scoring:
    """The file's own metrics; else SQuAD's for spans, correlations for numbers, and exact match for others."""
    own, data = definition.scoring, definition.file.data
    metrics, pipelines = own.metrics, own.pipelines
    if kind == NUMBER and not data.get("metric_list"):
        metrics = tuple(map(MetricSpec, NUMBER_METRICS))
    if kind == SPAN and not data.get("metric_list"):
        may_lack = (definition.format or {}).get("may_lack", False)
        options = {"no_answer": UNANSWERABLE} if may_lack else {}
        metrics = tuple(MetricSpec(name, options=options) for name in SPAN_METRICS)
    if not data.get("filter_list"):
        pipelines = {SPAN: PLAIN_PIPELINES, NUMBER: _FIRST_NUMBER}.get(kind, _STRIPPED)
    return replace(own, metrics=metrics, pipelines=pipelines)
