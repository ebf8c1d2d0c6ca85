"""What columns are usually called: the names by which a scaffold recognises their roles, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.tasks.scaffold.file_columns import Column

QUESTIONS = (
    *("question", "query", "problem", "prompt", "stem", "ctx", "goal", "instruction", "task", "q", "sentence"),
    *("input", "text", "premise", "claim", "statement", "source"),
)
CONTEXTS = ("context", "passage", "article", "paragraph", "document", "story", "background", "support", "doc", "body")
CHOICES = ("choices", "options", "candidates", "endings", "alternatives", "answers", "continuations")
ANSWERS = (
    *("answer", "label", "gold", "target", "correct", "answer_key", "correct_answer", "correct_option", "solution"),
    *("answer_idx", "answer_index", "correct_index", "key", "gold_label", "cop", "ans", "answers", "a", "right"),
    *("answer_id", "label_idx", "expected", "truth", "y", "output"),
)
LABELS = (
    *("label", "class", "category", "gold_label", "sentiment", "label_text", "label_name", "intent", "emotion"),
    *("stance", "topic", "target", "verdict", "polarity", "y", "labels"),
)
TEXTS = (
    *("text", "sentence", "review", "content", "tweet", "comment", "message", "utterance", "document", "body"),
    *("query", "question", "input", "claim", "statement", "article", "title"),
)
# First and second text of a pair; a question comes after the text that it is about.
PAIRS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2")),
    *(("passage", "question"), ("context", "question"), ("evidence", "claim"), ("sentence_a", "sentence_b")),
    *(("paragraph", "question"), ("sentence_1", "sentence_2"), ("text_a", "text_b"), ("query", "passage")),
)
SOURCES = (
    *("source", "input", "src", "article", "document", "text", "question", "problem", "instruction", "prompt"),
    *("dialogue", "query", "sentence", "original", "context"),
)
TARGETS = (
    *("target", "output", "answer", "answers", "summary", "highlights", "translation", "tgt", "response"),
    *("completion", "reference", "references", "solution", "abstract", "simplified", "label", "expected", "gold"),
    *("a", "ans", "title"),
)
WHOLE_TEXTS = ("text", "content", "document", "article", "body", "story", "passage", "page", "line")
STARTS = ("answer_start", "answer_starts", "start", "starts", "answer_offset")
CORRECT = ("correct_answer", "correct", "best_answer", "right_answer")
WRONG = ("distractor", "incorrect_answer", "wrong_answer", "incorrect", "wrong", "distractors", "incorrect_answers")
# Columns that describe a row but are not part of its question.
ABOUT = (
    *("id", "idx", "index", "uid", "uuid", "guid", "qid", "pid", "docid", "doc_id", "question_id", "row", "number"),
    *("url", "link", "split", "hash", "date", "time", "timestamp", "author", "licence", "license", "version"),
    *("difficulty", "level", "subject", "domain", "language", "lang", "explanation", "rationale", "hint", "metadata"),
    *("meta", "tags", "dataset", "source_id", "unnamed_0"),
)
LANGUAGES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
ABOUT_WORDS = frozenset(ABOUT)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"\W+")
_UNKNOWN = 1000


def plain_name(name: str) -> str:
    """A column's own name in lower case with underscores: `answerKey` and `Answer Key` are `answer_key`."""
    own = name.rpartition(".")[2] or name
    return _NO_WORD.sub("_", _CAPITAL.sub("_", own).lower()).strip("_")


def rank(column: Column, names: Sequence[str]) -> int:
    """How well a column's name fits a role: its place among the role's names, lower is better."""
    name = plain_name(column.name)
    if name in names:
        return names.index(name)
    words = set(name.split("_"))
    if words & {"id", "idx", "url"} and "answer" not in words:
        return _UNKNOWN
    return next((100 + place for place, known in enumerate(names) if known in words), _UNKNOWN)


def is_named(column: Column, names: Sequence[str]) -> bool:
    """Whether a column's name fits a role."""
    return rank(column, names) < _UNKNOWN


def is_about(column: Column) -> bool:
    """Whether a column describes the row, such as an id."""
    return not ABOUT_WORDS.isdisjoint(map(plain_name, column.name.split(".")))


def best(columns: Sequence[Column], names: Sequence[str], needs_name: bool = False) -> Column | None:
    """The column whose name fits a role best; among unknown names the one with the longest text."""
    known = [column for column in columns if is_named(column, names)]
    if known:
        return min(known, key=lambda column: rank(column, names))
    others = [] if needs_name else [column for column in columns if not is_about(column)]
    return max(others, key=lambda column: column.mean_length, default=None)
