"""A task of the lm-eval dialect in another prompt style: the same documents and examples, worded differently.

Takes a definition and a style, gives the definition with prompts in this style. The question comes from the file's key
`format`, or is inferred from the prompt that its own templates render.
"""

from __future__ import annotations

import re
from dataclasses import replace

from assay.core.errors import DataError, Fault, TaskFileError
from assay.core.formats import Answer, MultipleChoice
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.tasks.lm_eval.build.fields import Derived, Row
from assay.tasks.lm_eval.build.instances import INVALID_GOLD, ROTATION, ReorderedRow
from assay.tasks.lm_eval.build.questions import QuestionReader
from assay.tasks.lm_eval.file.definition import DEFAULT_METRICS, Rendering, TaskDefinition
from assay.tasks.lm_eval.file.format_defaults import as_written, separated_description
from assay.tasks.lm_eval.file.format_key import CHOICE, CLASSES, SPAN, format_kind
from assay.tasks.styles import STYLES, Style, StyledQuestion, apply_style
from assay.tasks.templates import Delimiters

_CHOICE, _GENERATED = "multiple_choice", "generate_until"
# Default prompt for classifying a text, or a pair, by ranking continuations, if a file has no prompt.
_RANKED = Style(
    "ranked",
    "{% if context %}{{context}}\n{% endif %}{{question}}\nAnswer:",
    "{{choice}}",
    description="text, pair, and the names of the classes as answers",
)
_ROTATION_METRICS = ("rotation_agreement", "rotation_all", "rotation_vote")


def in_style(definition: TaskDefinition, style: Style | None) -> TaskDefinition:
    """A definition in a style, or with its file's own prompt; one that only states a format gets a default prompt."""
    if style is not None:
        return restyle(definition, style)
    if definition.has_prompt:
        return definition
    kind = format_kind(definition.format)
    if kind not in (CHOICE, CLASSES):
        return as_written(definition)
    plain = restyle(definition, STYLES["cloze"] if kind == CHOICE else _RANKED)
    return replace(plain, variant=definition.variant)


def has_choices(definition: TaskDefinition) -> bool:
    """Whether a task's documents have choices, which a style can list."""
    stated = definition.format
    return definition.rendering.choice is not None if stated is None else format_kind(stated) in (CHOICE, CLASSES)


def restyle(definition: TaskDefinition, style: Style) -> TaskDefinition:
    """The same task in a style."""
    stated = definition.format
    if style.spans and format_kind(stated) == SPAN and stated is not None:
        return as_written(replace(definition, variant=replace(definition.variant, style=style.name)), style)
    if not has_choices(definition):
        why = "has no choices (doc_to_choice)" if stated is None else f"is of the format {format_kind(stated)}"
        raise TaskFileError(
            Fault(
                str(definition.file.path),
                f'the task "{definition.name}" {why}, so no prompt style fits it',
                "a multiple-choice task",
                "Leave out the task, or give its file a key format: (question, choices, answer)",
            )
        )
    examples = definition.fewshot
    return replace(
        definition,
        variant=replace(definition.variant, style=style.name),
        output_type=_GENERATED if style.generates else _CHOICE,
        description=separated_description(definition),
        rendering=_rendering(definition, definition.rendering, style, ()),
        fewshot=replace(examples, rendering=_rendering(definition, examples.rendering, style, ("fewshot_config",))),
        generation={"until": list(style.stop), "max_gen_toks": style.max_tokens, "do_sample": False},
        repeats=1,
        scoring=_scoring(definition.scoring, definition.output_type, style),
        rotates=style.rotates,
        example_limit=style.limit,
        questions=QuestionReader(definition, definition.rendering, ()).question,
    )


def _rendering(definition: TaskDefinition, own: Rendering, style: Style, above: tuple[str, ...]) -> Rendering:
    # Examples with their own templates still begin like the question.
    asked = definition.rendering
    is_other = (own.text, own.choice) != (asked.text, asked.choice)
    is_bare = style.is_bare or style.names_parts
    document_questions = QuestionReader(definition, asked, (), is_bare) if is_other else None
    questions = QuestionReader(definition, own, above, is_bare)
    styled = _Styled(questions, document_questions, style, f"task {definition.name}")
    # An example shows one right answer, but a document may have several.
    target = Derived(styled.first_answer if above else styled.answer)
    is_own = style.example_delimiter is None
    delimiters = Delimiters(style.delimiter, own.delimiters.example if is_own else str(style.example_delimiter))
    return Rendering(Derived(styled.prompt), target, Derived(styled.answers), None, delimiters)


def _scoring(own: Scoring, output_type: str, style: Style) -> Scoring:
    """Scoring in a style. A generated letter is read in two ways: strictly, as in HELM, and by letter extraction."""
    if style.generates:
        shape = "rotated_answer" if style.rotates else _GENERATED
        names = ("exact_match", *(_ROTATION_METRICS if style.rotates else ()))
        return Scoring(shape, tuple(map(MetricSpec, names)), _reading(style))
    is_plain = own.process is None and output_type == _CHOICE
    listed = [spec for spec in own.metrics if spec.function is None] if is_plain else []
    if style.rotates:
        return Scoring("rotated_choice", tuple(map(MetricSpec, ("acc", "acc_norm", *_ROTATION_METRICS))))
    names = style.metrics or (() if listed else DEFAULT_METRICS[_CHOICE])
    further = [spec for spec in listed if spec.name not in names]
    return Scoring(_CHOICE, (*map(MetricSpec, names), *further), PLAIN_PIPELINES)


def _reading(style: Style) -> tuple[PipelineSpec, ...]:
    """Pipelines that accept a label and nothing else, and any answer that names a label."""
    labels = list(style.possible_labels)
    pattern = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    alone = {"name": "label_alone", "regex": rf"\A\s*({pattern})\s*\Z", "group": 1}
    return (
        PipelineSpec("strict", (FilterSpec("extract", {"patterns": [alone]}), FilterSpec("take_first"))),
        PipelineSpec(
            "extract", (FilterSpec("extract", {"using": "letter", "labels": labels}), FilterSpec("take_first"))
        ),
    )


def _shown_index(place: int, reordered: ReorderedRow | None) -> int:
    if reordered is not None and place in reordered.order:
        return reordered.order.index(place)
    return place if place >= 0 else INVALID_GOLD


class _Styled:
    """The fields of a rendering in a style. The last row's question is cached: three fields are read from it.

    Args:
        questions: reads the question of a row.
        document_questions: reads it with the templates of the task's documents; None if they are the same.
        style: the style.
        where: the task, for errors.
    """

    def __init__(
        self, questions: QuestionReader, document_questions: QuestionReader | None, style: Style, where: str
    ) -> None:
        self._questions = questions
        self._document_questions = document_questions
        self._style = style
        self._names_parts = style.names_parts
        self._where = where
        self._last: tuple[Row | None, StyledQuestion | None] = (None, None)

    def prompt(self, row: Row) -> str:
        return self._apply_style(row).prompt

    def answers(self, row: Row) -> list[str]:
        return list(self._apply_style(row).answers)

    def answer(self, row: Row) -> Answer:
        """Indices of right choices in displayed order. A negative one is a missing label, not an index from the end."""
        answer, reordered = self._questions(row).answer, row.get(ROTATION)
        if isinstance(answer, tuple):
            return tuple(_shown_index(place, reordered) for place in answer)
        return _shown_index(answer, reordered)

    def first_answer(self, row: Row) -> int:
        """The index of the answer that an example shows."""
        answer = self._questions(row).answer
        first = next(iter(answer), INVALID_GOLD) if isinstance(answer, tuple) else answer
        if first < 0:
            found = f"a few-shot example has no right answer among its {len(self._apply_style(row).answers)} choices"
            raise DataError(Fault(self._where, found, "labelled examples", "Use another split for the examples"))
        return first

    def _apply_style(self, row: Row) -> StyledQuestion:
        last, found = self._last
        if last is not row or found is None:
            question = self._questions(row)
            reordered = row.get(ROTATION)
            order = reordered.order if reordered is not None else range(len(question.choices))
            part_names = self._questions.part_names(row) if self._names_parts else None
            found = apply_style(self._headed(question, row), self._style, order, self._where, part_names)
            self._last = (row, found)
        return found

    def _headed(self, question: MultipleChoice, row: Row) -> MultipleChoice:
        """A question with the prefix word, such as "Question:", of the task's documents."""
        if self._document_questions is None:
            return question
        try:
            found = self._document_questions(row)
        except DataError:
            return question  # an example that only its own templates can render
        return replace(question, headed=found.headed, headed_list=found.headed_list)
