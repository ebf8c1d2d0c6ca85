"""Prompt styles: how a multiple-choice question is worded, and which text of each choice is scored.

A style is data: a template of the prompt, a template of the answer. The built-in ones are those that benchmarks and
papers use; a YAML file with the same keys defines a custom one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault, UserError, did_you_mean
from assay.core.formats import MultipleChoice
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.tasks.templates import check_syntax, render, undefined_names

# MMLU has no word before a question, and neither has ARC in its form (Biderman et al. 2024, appendix B.2). Only a task
# whose own prompt lists its choices after "Question:" keeps that word.
_QUESTION_TEMPLATE = (
    "{% if context %}{{context}}\n{% endif %}"
    "{% if question %}{% if headed_list %}Question: {% endif %}{{question}}\n{% endif %}"
)
_OPTIONS_TEMPLATE = (
    _QUESTION_TEMPLATE + "{% for option in options %}{{option.label}}. {{option.text}}\n{% endfor %}Answer:"
)
_QUESTION_NAMES = ("question", "context", "choices", "completes", "headed", "headed_list")
_NAMES = (*_QUESTION_NAMES, "labels", "options", "task", "parts", "are_classes")
_ANSWER_NAMES = (*_NAMES, "choice", "label")
_SPAN_NAMES = ("question", "context")


@dataclass(frozen=True, slots=True)
class Style:
    """A prompt style: the wording of a question.

    Attributes:
        name: short name.
        prompt: template over the question's attributes, over labels and options (label and text); also over the task's
            name, the question's parts (name and text) and are_classes, whether the choices are classes.
        answer: template of one choice as it is scored, also over choice and label.
        delimiter: text between prompt and answer.
        labels: names of the options: `letters`, `lower`, `numbers`, `own` (the document's), or the names themselves.
        generates: whether the model generates the answer, instead of scoring every choice.
        max_tokens: maximum tokens to generate.
        stop: stop sequences.
        rotates: whether every question is evaluated in all rotations of its choices.
        spans: template over question and context, for questions answered by a span of a text; empty for a style
            that does not support them.
        description: its source, in half a line.
        example_delimiter: text after an example; None for the task's own.
        limit: maximum tokens of an example, or of the question with its longest answer (`Demonstrated`); None for none.
        metrics: metrics to report first, before the task's own.
        is_bare: whether a text to classify is shown without the question of the task's own prompt.
    """

    name: str
    prompt: str
    answer: str
    delimiter: str = " "
    labels: str | tuple[str, ...] = "letters"
    generates: bool = False
    max_tokens: int = 16
    stop: tuple[str, ...] = ("\n\n",)
    rotates: bool = False
    spans: str = ""
    description: str = ""
    example_delimiter: str | None = None
    limit: int | None = None
    metrics: tuple[str, ...] = ()
    is_bare: bool = False

    @property
    def shows_options(self) -> bool:
        """Whether the prompt shows the choices, so that their order can matter."""
        return not {"options", "choices"}.isdisjoint(undefined_names(self.prompt, ()))

    @property
    def shows_labels(self) -> bool:
        """Whether the labels of the choices are in the prompt, or are the answers."""
        return "label" in self.prompt + self.answer

    @property
    def names_parts(self) -> bool:
        """Whether the prompt shows the names of task and parts."""
        return not {"task", "parts", "are_classes"}.isdisjoint(undefined_names(self.prompt, ()))

    @property
    def possible_labels(self) -> tuple[str, ...]:
        """Labels that an answer may name; all common ones if they are the document's own."""
        if self.labels == "own":
            return (*_SEQUENCES["letters"], *_SEQUENCES["numbers"][:9])
        return tuple(_SEQUENCES[self.labels][:26]) if isinstance(self.labels, str) else self.labels


STYLES: dict[str, Style] = {
    "cloze": Style(
        "cloze",
        # "Question: …\nAnswer:" is GPT-3's form (Brown et al. 2020), and that of lm-eval's ARC. A task whose own
        # prompt lacks the word, such as MMLU, lacks it in every style.
        "{% if context %}{{context}}\n{% endif %}{% if headed and not completes %}Question: {% endif %}"
        "{{question}}{% if not completes %}\nAnswer:{% endif %}",
        "{{choice}}",
        description="the choices are not shown, their texts are scored (GPT-3; Brown et al. 2020)",
    ),
    "letters": Style(
        "letters",
        _OPTIONS_TEMPLATE,
        "{{label}}",
        description="the choices are listed, their letters are scored (MMLU; Hendrycks et al. 2021)",
    ),
    "hybrid": Style(
        "hybrid",
        _OPTIONS_TEMPLATE,
        "{{choice}}",
        description="the choices are listed, their texts are scored (Biderman et al. 2024, section 5.2)",
    ),
    "letter+text": Style(
        "letter+text",
        _QUESTION_TEMPLATE + "{% for option in options %}({{option.label}}) {{option.text}}\n{% endfor %}Answer:",
        "({{label}}) {{choice}}",
        description="letter and text are scored together (Pimentel et al. 2024, box B1)",
    ),
    "generate": Style(
        "generate",
        _OPTIONS_TEMPLATE,
        "{{label}}",
        generates=True,
        description="the choices are listed, the model writes a letter (HELM; Liang et al. 2023)",
    ),
    "metaicl": Style(
        "metaicl",
        "{% if context %}{{context}}\n{% endif %}{{question}}",
        "{{choice}}",
        delimiter="\n",
        description="bare inputs and outputs, each example cut to 256 tokens (MetaICL; Min et al. 2022)",
        example_delimiter="\n\n\n",
        limit=256,
        metrics=("acc_tokens", "acc"),
        is_bare=True,
    ),
    "t5": Style(
        "t5",
        "{{task}}{% for part in parts %} {{part.name}}: {{part.text|trim}}{% endfor %}"
        "{% if not are_classes %}"
        "{% for choice in choices %} choice{{loop.index}}: {{choice}}{% endfor %}{% endif %}",
        "{{choice}}",
        # T5 was trained without few-shot examples. For decoders a newline separates the last choice from the answer;
        # T5's vocabulary has none, so T5 reads a space, as Catwalk joins the examples of its ranked T5
        # (tasks/eleuther.py).
        delimiter="\n",
        spans="question: {{question}} context: {{context}}",
        description="task and parts by their names, the choices' texts are scored (T5; Raffel et al. 2020)",
    ),
}
# The task's own prompt.
OWN = "own"

_SEQUENCES: dict[str, Sequence[str]] = {
    "letters": string.ascii_uppercase,
    "lower": string.ascii_lowercase,
    "numbers": tuple(map(str, range(1, 1000))),
}


# A style's file, whose path may contain colons, and the changes after it.
_FILE = re.compile(r"(.+?\.ya?ml)((?::.*)?)\Z", re.DOTALL)


def is_style(text: str) -> bool:
    """Whether a text names a known style, whatever its changes."""
    file = _FILE.match(text)
    return Path(file[1]).expanduser().is_file() if file else text.split(":")[0] in (*STYLES, OWN)


def find_style(text: str) -> Style:
    """The style that a text names: `letters`, `hybrid:rotated`, `letters:numbers`, `letters:labels=I|II`, `my.yaml`."""
    file = _FILE.match(text)
    name, *changes = [file[1], *file[2].split(":")[1:]] if file else text.split(":")
    style = _read_style(Path(name)) if file else STYLES.get(name)
    if style is None:
        expected = "one of " + ", ".join((*STYLES, OWN)) + ", or a YAML file"
        raise UserError(Fault(f'style "{text}"', f'unknown style "{name}"{did_you_mean(name, STYLES)}', expected))
    for change in changes:
        style = _changed(style, change, text)
    if style.rotates and not style.shows_options:
        found = "its prompt does not list the choices, so rotating them changes nothing"
        raise UserError(Fault(f'style "{text}"', found, "a style that lists the choices"))
    return replace(style, name=text)


def _changed(style: Style, change: str, text: str) -> Style:
    if change == "rotated":
        return replace(style, rotates=True)
    if change in (*_SEQUENCES, "own"):
        return replace(style, labels=change)
    if change.startswith("labels="):
        labels = tuple(change.removeprefix("labels=").split("|"))
        if all(labels) and len(set(labels)) == len(labels):
            return replace(style, labels=labels)
    if change.startswith("limit=") and (number := change.removeprefix("limit=")).isdecimal() and int(number) > 0:
        return replace(style, limit=int(number))
    words = ", ".join(("rotated", *_SEQUENCES, "own", "labels=I|II|III", "limit=256"))
    raise UserError(Fault(f'style "{text}"', f'unknown change "{change}"', f"one of {words}"))


def _read_style(path: Path) -> Style:
    """A custom style from a file."""
    file = read_task_file(path.expanduser())
    return style_of(path.stem, file.data, file.where)


def style_of(name: str, data: Mapping[str, Any], where: Callable[..., str]) -> Style:
    """The style that a mapping describes.

    Args:
        name: its name.
        data: the mapping.
        where: key → its location in a file, for errors.
    """
    faults = [fault for key in data for fault in _key_faults(key, data[key], where)]
    for key, names in (("prompt", _NAMES), ("answer", _ANSWER_NAMES), ("spans", _SPAN_NAMES)):
        text = data.get(key)
        if text is None and key == "spans":
            continue
        if text is None:
            faults.append(Fault(where(key), "is missing", "a template"))
        elif isinstance(text, str):
            faults += _template_faults(text, names, where(key))
    if not faults and {"choice", "label"}.isdisjoint(undefined_names(data["answer"], ())):
        faults.append(Fault(where("answer"), "is the same for every choice", "a template with choice or label"))
    if faults:
        raise UserError(*faults)
    settings: dict[str, Any] = {key: value for key, value in data.items() if value is not None}
    settings.update({key: tuple(value) for key, value in settings.items() if isinstance(value, list)})
    return Style(name=name, **settings)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def _are_labels(value: Any) -> bool:
    """Whether a value is the name of a label sequence, or a list of different texts."""
    if isinstance(value, str):
        return value in (*_SEQUENCES, "own")
    return _are_texts(value) and len(set(value)) == len(value) > 0


_NUMBER: tuple[str, Callable[[Any], bool]] = (
    "a whole number, 1 or more",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value > 0,
)
_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "prompt": ("a template", lambda value: isinstance(value, str)),
    "answer": ("a template", lambda value: isinstance(value, str)),
    "delimiter": ("text", lambda value: isinstance(value, str)),
    "labels": ("letters, lower, numbers, own, or a list of different texts", _are_labels),
    "generates": ("true or false", lambda value: isinstance(value, bool)),
    "max_tokens": _NUMBER,
    "limit": _NUMBER,
    "example_delimiter": ("text", lambda value: isinstance(value, str)),
    "stop": ("a list of texts", _are_texts),
    "spans": ("a template", lambda value: isinstance(value, str)),
    "description": ("text", lambda value: isinstance(value, str)),
}


def _key_faults(key: Any, value: Any, where: Callable[..., str]) -> list[Fault]:
    if key not in _KEYS:
        found = f'unknown key "{key}"{did_you_mean(str(key), _KEYS)}'
        return [Fault(where(key), found, "one of " + ", ".join(_KEYS))]
    expected, accepts = _KEYS[key]
    return [] if value is None or accepts(value) else [Fault(where(key), f"is {value!r}", expected)]


def _template_faults(text: str, names: Sequence[str], where: str) -> list[Fault]:
    problem = check_syntax(text)
    if problem:
        return [Fault(where, problem)]
    unknown = undefined_names(text, names)
    return [Fault(where, f'unknown name "{name}"{did_you_mean(name, names)}', ", ".join(names)) for name in unknown]


@dataclass(frozen=True, slots=True)
class StyledQuestion:
    """A question in a style: the prompt, each choice as it is scored, and the labels."""

    prompt: str
    answers: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartNames:
    """Names of a question and its parts, for styles that show them.

    Attributes:
        task: the task's name.
        parts: name and text of each part.
        are_classes: whether the choices are classes, the same for every document.
    """

    task: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    are_classes: bool = False


_NO_PART_NAMES = PartNames()


def apply_style(
    question: MultipleChoice, style: Style, order: Sequence[int], where: str, part_names: PartNames | None = None
) -> StyledQuestion:
    """A question in a style.

    Args:
        question: the question.
        style: the style.
        order: indices of the choices, in displayed order.
        where: the task, for errors.
        part_names: names of task and parts; None if the style does not show them.
    """
    named = part_names or _NO_PART_NAMES
    texts = _without_blank(question.choices, style)
    choices = [texts[place] for place in order]
    labels = _names(question, style, where)
    fields: dict[str, Any] = {
        **{name: getattr(question, name) for name in _QUESTION_NAMES},
        "choices": choices,
        "labels": labels,
        "options": [{"label": label, "text": text} for label, text in zip(labels, choices, strict=True)],
        "task": named.task,
        "parts": [{"name": name, "text": text} for name, text in named.parts],
        "are_classes": named.are_classes,
    }
    prompt = render(style.prompt, fields, f"{where}, style {style.name}, prompt")
    return StyledQuestion(prompt, tuple(_answers(style, fields, where)), tuple(labels))


def _without_blank(choices: tuple[str, ...], style: Style) -> tuple[str, ...]:
    """The choices, without the leading space that all have (COPA) if a style lists them or puts them on a new line.

    Otherwise the space remains: a task with two spaces between prompt and choice has them in `cloze`, too.
    """
    if not all(choice.startswith(" ") for choice in choices):
        return choices
    is_other = style.shows_options or style.delimiter.endswith("\n")
    return tuple(choice.removeprefix(" ") for choice in choices) if is_other else choices


def _answers(style: Style, fields: Mapping[str, Any], where: str) -> list[str]:
    if style.answer == "{{label}}":
        return list(fields["labels"])
    if style.answer == "{{choice}}":
        return list(fields["choices"])
    place = f"{where}, style {style.name}, answer"
    return [
        render(style.answer, {**fields, "choice": option["text"], "label": option["label"]}, place)
        for option in fields["options"]
    ]


def has_labels_for(question: MultipleChoice, style: Style) -> bool:
    """Whether a style has a label for every choice of a question, or needs none."""
    return not style.shows_labels or len(_labels(question, style)) >= len(question.choices)


def _labels(question: MultipleChoice, style: Style) -> Sequence[str]:
    if style.labels == "own":
        return question.labels
    return _SEQUENCES[style.labels] if isinstance(style.labels, str) else style.labels


def _names(question: MultipleChoice, style: Style, where: str) -> Sequence[str]:
    """As many labels as there are choices; empty ones for a style that does not show them."""
    size, labels = len(question.choices), list(_labels(question, style))
    if not has_labels_for(question, style):
        found = f"style {style.name} has {len(labels)} labels for a question of {size} choices"
        is_own = style.labels == "own"
        hint = "labels in the task's format" if is_own else f"labels such as numbers, as in {style.name}:numbers"
        raise DataError(Fault(where, found, hint))
    return (labels + [""] * size)[:size]
