"""The format that fits the columns of a data file, with its doubts; a user's corrections come first.

In: a table and what the user says. Out: a guess. If nothing fits, an error says what was seen and what decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.plural import plural
from assay.tasks.scaffold.choices import guess_choices
from assay.tasks.scaffold.classes import guess_classes
from assay.tasks.scaffold.file_columns import INTEGER, NUMBER, SPANS, TEXT, TEXTS, Column, is_empty
from assay.tasks.scaffold.names import (
    ANSWERS,
    CONTEXTS,
    LANGUAGES,
    QUESTIONS,
    SOURCES,
    STARTS,
    TARGETS,
    WHOLE_TEXTS,
    best,
    is_about,
    is_named,
    plain_name,
    rank,
)
from assay.tasks.scaffold.values import KEYS, KINDS, Guess, Part, Table, Wishes, no_guess

# A smaller share of answers that occur in their texts means that they are written, not extracted.
_LEAST_SPANS = 0.9
_FEW = 5
_QUESTION_WORDS = ("question", "query", "problem", "q", "stem", "prompt")
_PLAIN_TARGETS = ("answer", "answers", "a", "ans", "solution", "gold", "expected", "label")
_OPTIONS = "--kind KIND, and the columns: --question, --choices, --answer, --text, --source, --target"


def guess_format(table: Table, wishes: Wishes) -> Guess:
    """The format of a file.

    Args:
        table: its rows and columns.
        wishes: what the user says about it.
    """
    _check_wishes(wishes)
    kinds = _possible_kinds(wishes)
    for kind in kinds:
        found = _GUESSES[kind](table, wishes)
        if found is not None:
            few = f"only {plural(len(table.rows), 'row')}: the guess rests on little, and intervals will be wide"
            return found if len(table.rows) >= _FEW else replace(found, doubts=(*found.doubts, few))
    meant = f"nothing that {' or '.join(kinds)} needs" if len(kinds) < len(KINDS) else "no question, class or text"
    raise no_guess(table, f"shows {meant}", _wanted(kinds))


def _check_wishes(wishes: Wishes) -> None:
    given = [key for key in wishes.given() if key != "kind"]
    if wishes.kind is not None and wishes.kind not in KINDS:
        hint = did_you_mean(wishes.kind, KINDS)
        raise UserError(Fault("--kind", f'is "{wishes.kind}"{hint}', "one of " + ", ".join(KINDS)))
    kinds = [wishes.kind] if wishes.kind else [kind for kind in KINDS if set(given) <= set(KEYS[kind])]
    foreign = [key for key in given if kinds and key not in KEYS[kinds[0]]]
    if foreign:
        own = ", ".join(f"--{key}" for key in KEYS[kinds[0]])
        raise UserError(*(Fault(f"--{key}", f"does not apply to --kind {wishes.kind}", own) for key in foreign))
    if not kinds:
        found = f"{' and '.join(f'--{key}' for key in given)} belong to different kinds"
        expected = "; ".join(f"{kind}: {' '.join(f'--{key}' for key in keys)}" for kind, keys in KEYS.items())
        raise UserError(Fault("assay task new", found, expected))


def _possible_kinds(wishes: Wishes) -> tuple[str, ...]:
    """The kinds that have every key the user gave, the most specific first."""
    given = {key for key in wishes.given() if key != "kind"}
    return (wishes.kind,) if wishes.kind else tuple(kind for kind in _GUESSES if given <= set(KEYS[kind]))


def _wanted(kinds: Sequence[str]) -> str:
    if len(kinds) == 1:
        return " ".join(f"--{key} COL" for key in KEYS[kinds[0]] if key not in ("context", "pair", "labels"))
    return _OPTIONS


# Spans of a text


def guess_spans(table: Table, wishes: Wishes) -> Guess | None:
    """A question whose answer is a span of a text."""
    texts = [column for column in table.columns if column.kind == TEXT and not is_about(column)]
    question = _given(table, wishes.question, "--question") or best(texts, QUESTIONS, needs_name=True)
    rest = [column for column in texts if column is not question]
    context = _given(table, wishes.context, "--context") or best(rest, CONTEXTS, needs_name=True)
    if question is None or context is None:
        return None
    used = (question, context)
    answers = [_given(table, wishes.answer, "--answer")] if wishes.answer else _answer_columns(table, used)
    for answer in answers:
        if answer is None or answer.kind not in (TEXT, TEXTS, SPANS, INTEGER, NUMBER):
            continue
        share = _share_of_spans(context, answer)
        if wishes.kind == "span_qa" or (share >= _LEAST_SPANS and not _are_few(answer)):
            return _span_guess(table, question, context, answer, share)
    return None


def _answer_columns(table: Table, used: Sequence[Column]) -> list[Column]:
    named = [column for column in table.others(used) if is_named(column, ANSWERS)]
    return sorted(named, key=lambda column: (column.kind != SPANS, rank(column, ANSWERS)))


def _are_few(answer: Column) -> bool:
    """Whether the answers are so few that they are classes, such as yes and no."""
    return answer.kind == TEXT and len(answer.filled) >= 8 and answer.distinct <= max(2, len(answer.filled) // 5)


def _share_of_spans(context: Column, answer: Column) -> float:
    found = [
        all(str(text) in str(passage) for text in _accepted(value))
        for passage, value in zip(context.values, answer.values, strict=True)
        if not is_empty(value)
    ]
    return sum(found) / len(found) if found else 0.0


def _accepted(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.get("text") or ())
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _span_guess(table: Table, question: Column, context: Column, answer: Column, share: float) -> Guess:
    lacking = any(not _accepted(value) or is_empty(value) for value in answer.values)
    starts = next((c for c in table.others((answer,)) if _are_starts(c, context, answer)), None)
    parts = [Part("question", question.as_text), Part("context", context.as_text)]
    value = answer.as_text if answer.kind in (TEXT, INTEGER, NUMBER) else answer.as_value
    parts.append(Part("answers", value, "as they occur in the context"))
    parts += [] if starts is None else [Part("starts", starts.as_value, "where they begin")]
    parts += [Part("may_lack", True, "some questions have no answer")] if lacking else []
    wrong = f"{1 - share:.0%} of the answers do not occur in {context.name}: --kind text_to_text accepts any answer"
    doubts = (wrong,) if share < 1 else ()
    used = (question, context, answer, *((starts,) if starts is not None else ()))
    return Guess("span_qa", tuple(parts), used, doubts, chance=None if lacking else 0.0)


def _are_starts(column: Column, context: Column, answer: Column) -> bool:
    if answer.kind != TEXT or column.kind != INTEGER or not is_named(column, STARTS):
        return False
    triples = zip(context.values, answer.values, column.values, strict=True)
    return all(
        type(start) is int and str(passage).startswith(str(text), start) for passage, text, start in triples if text
    )


# Text to text


def guess_rewriting(table: Table, wishes: Wishes) -> Guess | None:
    """A text to be turned into another: questions with free answers, translations, summaries."""
    free = [c for c in table.columns if c.kind in (TEXT, INTEGER, NUMBER, TEXTS) and not is_about(c)]
    source = _given(table, wishes.source, "--source")
    target = _given(table, wishes.target, "--target")
    languages = [column for column in free if plain_name(column.name) in LANGUAGES]
    if source is None and target is None and len(languages) == 2:
        source, target = languages
    if target is None:
        target = best([column for column in free if column is not source], TARGETS, needs_name=True)
    others = [column for column in free if column is not target and column.kind != TEXTS]
    source = source or best(others, SOURCES, needs_name=True) or best([c for c in others if c.kind == TEXT], SOURCES)
    if target is None and source is not None and wishes.kind == "text_to_text":
        target = next((column for column in free if column is not source and column.kind == TEXT), None)
    if source is None or target is None:
        return None
    return _rewriting_guess(table, wishes, source, target, languages)


def _rewriting_guess(
    table: Table, wishes: Wishes, source: Column, target: Column, languages: Sequence[Column]
) -> Guess:
    rest = [c for c in table.others((source, target)) if c.kind == TEXT]
    context = _given(table, wishes.context, "--context")
    is_question = plain_name(source.name) in _QUESTION_WORDS
    if context is None and is_question and not wishes.source:
        context = best(rest, CONTEXTS, needs_name=True)
    prompt = source.template or _prompt(source, target, context)
    value = target.as_value if target.kind == TEXTS else target.as_text
    meaning = "accepted texts, any of which counts" if target.kind == TEXTS else "the right text"
    parts = (Part("source", prompt, "the whole prompt"), Part("target", value, meaning))
    doubts = []
    if len(languages) == 2 and not (wishes.source or wishes.target):
        doubts.append(f"it translates into {target.name}: for the other direction say --target {source.name}")
    if target.mean_length > 200:
        doubts.append("exact_match compares whole texts; for texts this long add a metric such as rougeL or chrf")
    used = (source, *((context,) if context is not None else ()), target)
    are_named = (bool(wishes.source) or is_named(source, SOURCES)) and (
        bool(wishes.target) or is_named(target, TARGETS)
    )
    return Guess("text_to_text", parts, used, tuple(doubts), are_named, chance=0.0)


def _prompt(source: Column, target: Column, context: Column | None) -> str:
    """A prompt that ends with a cue for what is wanted."""
    before = "" if context is None else context.as_template + "\n\n"
    own, wanted = plain_name(source.name), plain_name(target.name)
    if own in LANGUAGES and wanted in LANGUAGES:
        return f"{LANGUAGES[own]}: {source.as_template}\n{LANGUAGES[wanted]}:"
    if own in _QUESTION_WORDS:
        return f"{before}Question: {source.as_template}\nAnswer:"
    cue = "Answer" if wanted in _PLAIN_TARGETS else wanted.replace("_", " ").capitalize() or "Output"
    return f"{before}{source.as_template}\n{cue}:"


# Whole texts


def guess_texts(table: Table, wishes: Wishes) -> Guess | None:
    """Texts whose perplexity is measured: a single column of text."""
    texts = [column for column in table.columns if column.kind == TEXT and not is_about(column)]
    text = _given(table, wishes.text, "--text")
    if text is None and (wishes.kind == "perplexity" or len(texts) == 1):
        text = best(texts, WHOLE_TEXTS)
    if text is None:
        return None
    part = Part("doc_to_target", text.as_template, "the text whose perplexity is measured")
    return Guess("perplexity", (part,), (text,), are_named=bool(wishes.text) or is_named(text, WHOLE_TEXTS))


def _given(table: Table, text: str | None, flag: str) -> Column | None:
    return table.named(text, flag) if text else None


_GUESSES: dict[str, Callable[[Table, Wishes], Guess | None]] = {
    "multiple_choice": guess_choices,
    "span_qa": guess_spans,
    "classification": guess_classes,
    "text_to_text": guess_rewriting,
    "perplexity": guess_texts,
}
