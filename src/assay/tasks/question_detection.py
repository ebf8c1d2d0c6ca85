"""Detection of the question in a prompt, for task files that do not state its parts.

They are found in the prompt that its templates render: the text before the listed options, between "Question:" and
"Answer:", and so on. A part that cannot be found is an error, never a guess.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterator, Sequence

from assay.core.errors import DataError, Fault
from assay.core.formats import Answer, LabelledText, MultipleChoice, Question

# Words before a question and before its answer, also in the languages of well-known benchmarks.
_ASK = r"(?:Question|Q|Problem|Pregunta|Pergunta|Domanda|Frage|Вопрос|问题|問題|質問|질문)[ \t]*[:：]"
_REPLY = "Respuesta|Resposta|Risposta|Réponse|Antwort|Ответ|答案|回答|答え|정답|답변"
_HEAD = re.compile(rf"\A\s*(?:{_ASK} ?)+", re.IGNORECASE)
_INNER_HEAD = re.compile(rf"\r?\n[ \t]*(?:{_ASK} ?)+", re.IGNORECASE)
_TAILS = (
    re.compile(
        r"(?:\A|\r?\n)[ \t]*(?:(?:The )?(?:(?:best|correct|final|right) )?answer(?: is)?|Ans|A|"
        rf"{_REPLY})[ \t]*[:：]\s*\Z",
        re.IGNORECASE,
    ),
    # Within a line only as a separate word: in "Give your answer:" it belongs to the sentence.
    re.compile(rf"[ \t](?:Answer|{_REPLY})[:：]\s*\Z|(?<=[.?!])[ \t]A:\s*\Z"),
)
_LIST_HEAD = re.compile(r"(?:\A|\r?\n)[ \t]*(?:Answer )?(?:choices|options)[ \t]*[:：]\s*\Z", re.IGNORECASE)

_LETTERS = (string.ascii_uppercase, string.ascii_lowercase)
_NUMBERS = tuple(map(str, range(1, 100)))
_CLOSING = r"[)\].:）．：、]"
# Marks before an option whose text is known: a dash, a letter, a number.
_MARK = rf"(?:[-*•–]|[(\[（]?\w{{1,3}}{_CLOSING})"
# Positions of the marks of a list, for its first option and for the others: each on its own line; anywhere, in
# brackets; all on one line.
_LINE, _WORD = r"(?:\A|\r?\n)[ \t]*", r"(?:\A|\s)"
_PLACES = ((_LINE, _LINE), (rf"{_WORD}(?=\()", rf"{_WORD}(?=\()"), (_LINE, r"[ \t]"))

# Two texts of the same kind, each with its number.
_TWO = re.compile(r"\A\s*(\w+) ?1: ?(.*?)\s*\r?\n[ \t]*\1 ?2: ?(.*?)\s*\Z", re.DOTALL)

_ADVICE = "State the question with a key format: (question, choices, answer) in the task file"


def infer(prompt: str, choices: Sequence[str], answer: Answer, where: str) -> MultipleChoice:
    """The question in a prompt.

    Args:
        prompt: the text before the answer, without examples.
        choices: scored continuations: the answers' texts, or the labels of answers that the prompt lists.
        answer: index of the right choice.
        where: the task, for errors.
    """
    body, is_closed = _without_tail(prompt)
    before, texts, is_listed = _found(body, prompt, choices, answer, where)
    if not is_listed and not is_closed:
        return MultipleChoice(prompt, texts, answer, completes=True)
    context, question = _parts(before)
    headed = len(question) < len(before)
    asked = question.strip("\r\n")
    return MultipleChoice(asked, texts, answer, context, headed=headed, headed_list=headed and is_listed)


def infer_classes(
    prompt: str, labels: Sequence[str], answer: Answer, where: str, has_fixed_question: bool = False
) -> Question:
    """The text, or the pair of texts, in a prompt whose choices are the same for all documents.

    Choices that only name options listed in the prompt, such as A to D, are not classes: the result is a question.

    Args:
        prompt: the text before the answer, without examples.
        labels: scored continuations.
        answer: index of the right one.
        where: the task, for errors.
        has_fixed_question: whether the words after the last "Question:" are the same for all documents and hence not
            part of the classified text.
    """
    if _labels(labels):
        found = infer(prompt, labels, answer, where)
        if found.choices != tuple(labels):
            return found
    body, _ = _without_tail(prompt)
    before, texts, _ = _by_texts(body, tuple(labels), where)
    context, question = _parts(before)
    if not context.strip():
        return LabelledText(question.strip(), texts, answer)
    if not has_fixed_question:
        return LabelledText(context.strip(), texts, answer, question.strip())
    two = _TWO.match(context)
    return LabelledText(*((two[2], texts, answer, two[3]) if two else (context.strip(), texts, answer)))


def has_fixed_question(template: str) -> bool:
    """Whether the words after the last "Question:" of a prompt's template are independent of the document."""
    context, question = _parts(_without_tail(template)[0])
    return bool(context.strip()) and "{" not in question


def asks_for_class(template: str, choices: Sequence[str]) -> bool:
    """Whether a prompt's template asks, between "Question:" and "Answer:", for one of these classes by its text."""
    body, is_closed = _without_tail(template)
    return is_closed and has_question_prefix(body) and not _labels(choices)


def has_question_prefix(prompt: str) -> bool:
    """Whether a prompt, or its template, has "Question:" before its question."""
    return _HEAD.match(prompt) is not None or _INNER_HEAD.search(prompt) is not None


def infer_from_prompts(prompts: Sequence[str], ending: str, answer: Answer) -> MultipleChoice:
    """The question of a document with one prompt per choice: the common prefix of the prompts, up to a word's end.

    Args:
        prompts: one per choice.
        ending: scored continuation of each.
        answer: index of the right one.
    """
    common = _common_beginning(prompts)
    # A word of which the prompts share only a part belongs to the choices.
    cut = len(common) if not common or common[-1].isspace() else _last_space(common)
    choices = tuple((prompt[cut:] + ending).strip() for prompt in prompts)
    return MultipleChoice(common[:cut].rstrip(), choices, answer, completes=True)


def _common_beginning(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    size = next((place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    return first[:size]


def _last_space(text: str) -> int:
    return next((place + 1 for place in range(len(text) - 1, -1, -1) if text[place].isspace()), 0)


_Found = tuple[str, tuple[str, ...], bool]


def _found(body: str, prompt: str, choices: Sequence[str], answer: Answer, where: str) -> _Found:
    """The text before the choices, their texts, and whether the prompt lists them."""
    labels = _labels(choices)
    found = _by_labels(body, labels, answer, where) if labels else None
    if found is not None:
        return found
    if labels and labels[0] not in _NUMBERS:
        raise _unlisted(prompt, choices, where)
    return _by_texts(body, tuple(choices), where)


def _unlisted(prompt: str, choices: Sequence[str], where: str) -> DataError:
    shown = prompt if len(prompt) <= 200 else "…" + prompt[-199:]
    found = f"the choices are labels ({', '.join(choices)}), but the prompt lists no such options: {shown!r}"
    return DataError(Fault(where, found, "lines such as A. …", _ADVICE))


def _labels(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices as labels (A, B, … or 1, 2, …) if they are only labels; empty for texts."""
    bare = tuple(choice.strip().strip("().[]") for choice in choices)
    for sequence in (*_LETTERS, _NUMBERS):
        if bare and bare == tuple(sequence[: len(bare)]):
            return bare
    return ()


def _unmarked(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices' texts, without the labels of choices such as "(A) blue"."""
    for sequence in (*_LETTERS, _NUMBERS):
        texts = []
        for label, choice in zip(sequence, choices, strict=False):
            mark = re.match(rf"\s*[(\[]?{label}{_CLOSING}[ \t]+(?=\S)", choice)
            if mark is None:
                break
            texts.append(choice[mark.end() :])
        if len(texts) == len(choices):
            return tuple(texts)
    return tuple(choices)


def _without_tail(prompt: str) -> tuple[str, bool]:
    """The prompt without a closing "Answer:", and whether it had one."""
    found = next(filter(None, (tail.search(prompt) for tail in _TAILS)), None)
    return (prompt[: found.start()], True) if found else (prompt, False)


def _by_labels(body: str, labels: Sequence[str], answer: Answer, where: str) -> _Found | None:
    """The options that a text lists under labels.

    A task with the same labels for all documents may have more labels than a document lists, or fewer.
    """
    problem = ""
    for wanted in _prefixes(labels):
        # Looks for further labels only if the list continues after the last one.
        if len(wanted) > len(labels) and not problem:
            continue
        for before, texts, odd in _lists(body, wanted):
            is_alone = len(wanted) == 1 < len(labels) and not _LIST_HEAD.search(before)
            if not odd and not is_alone:
                _check_answer(answer, len(wanted), where)
                _check_count(before, labels, where)
                return _LIST_HEAD.sub("", before), texts, True
            problem = problem or odd
    # Numbers without a list are the answers themselves.
    if problem and labels[0] not in _NUMBERS:
        expected = 'a list that ends the prompt, or comes before "Answer:"'
        raise DataError(Fault(where, problem, expected, _ADVICE))
    return None


def _prefixes(labels: Sequence[str]) -> Iterator[Sequence[str]]:
    """The labels; then more of their kind; then fewer."""
    yield labels
    whole = next(sequence for sequence in (*_LETTERS, _NUMBERS) if labels[0] == sequence[0])
    yield from (whole[:size] for size in range(len(labels) + 1, 27))
    yield from (labels[:size] for size in range(len(labels) - 1, 0, -1))


def _check_answer(answer: Answer, size: int, where: str) -> None:
    if any(place >= size for place in (answer if isinstance(answer, tuple) else (answer,))):
        found = f"the prompt lists {size} options, but the right answer is number {answer} (from 0)"
        raise DataError(Fault(where, found, "the right one among them", _ADVICE))


def _check_count(before: str, labels: Sequence[str], where: str) -> None:
    """Raises if numbers may be counts: after a numbered list they are its labels, unless the question is "how many"."""
    if labels[0] in _NUMBERS and "how many" in before.casefold():
        found = "the choices are numbers, which may be counts or the labels of the lines that the prompt lists"
        raise DataError(Fault(where, found, "one of the two", _ADVICE))


def _lists(body: str, labels: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Candidate lists of options at the end of a text: the text before it, the options, and a problem, if any."""
    for first, others in _PLACES:
        found = _marked(body, labels, first, others)
        if found is not None:
            yield (*found, _problem(found[1], others == _LINE))
    # Read from the left, marks within the options' own texts, as in "both (B) and (D)", do no harm.
    start = body.rstrip().rfind("\n") + 1
    marks = [rf"(?<!\S)\({re.escape(label)}\) ?(.*?)" for label in labels]
    line = re.search(r"\s".join(marks) + r"\s*\Z", body[start:])
    if line is not None:
        yield body[: start + line.start()].rstrip("\r\n"), line.groups(), _problem(line.groups(), False)


def _marked(body: str, labels: Sequence[str], first: str, others: str) -> tuple[str, tuple[str, ...]] | None:
    """The text before the marks of a list at the end of a text, and the texts between them. Read from the end."""
    end, texts = len(body), []
    for place, label in reversed(list(enumerate(labels))):
        # The 2. of 2.5 is not a mark.
        closing = _CLOSING + (r"(?=\s|\Z)" if label.isdigit() else "")
        mark = (others if place else first) + rf"[(\[（]?{re.escape(label)}{closing} ?"
        found = _last(re.compile(mark), body, end)
        if found is None:
            return None
        texts.append(body[found.end() : end].strip("\r\n"))
        end = found.start()
    return body[:end], tuple(reversed(texts))


def _problem(texts: Sequence[str], stand_on_lines: bool) -> str:
    """Sign that a list contains more, or less, than its options; empty for a valid one."""
    *others, last = (text.strip() for text in texts)
    if "\n" in last and not any("\n" in text for text in others):
        return f"the last option seems to hold what follows the list: {last!r}"
    if others and last.endswith((":", "：")) and not any(text.endswith((":", "：")) for text in others):
        return f"the last option seems to hold the words before the answer: {last!r}"
    if not stand_on_lines and not all((*others, last)):
        return f"the options are not distinct: {list(texts)!r}"
    return ""


def _by_texts(body: str, texts: tuple[str, ...], where: str) -> _Found:
    """The text before a list of known options at its end; all of it if they are not listed."""
    plain = _unmarked(texts)
    if _squeezed(body).endswith(_squeezed(plain[-1])):
        for pattern in (*_text_lists(texts), *_text_lists(plain)):
            found = re.search(pattern, body, re.IGNORECASE)
            if found is not None:
                return _LIST_HEAD.sub("", body[: found.start()]), plain, True
    listed = _marked(body, string.ascii_uppercase[: len(texts)], _LINE, _LINE) if 1 < len(texts) <= 26 else None
    if listed is not None and not _problem(listed[1], True):
        problem = f"the prompt ends with a list of {len(texts)} options, but the choices are different: {list(texts)!r}"
        raise DataError(Fault(where, problem, "the listed options, or their labels", _ADVICE))
    return body, texts, False


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()


def _text_lists(texts: Sequence[str]) -> Iterator[str]:
    """Patterns of a list of these options: on separate lines, with marks or without; and within a line."""
    escaped = [r"\s+".join(map(re.escape, text.split())) for text in texts]
    optional = "?" if len(texts) > 1 else ""
    yield _LINE + r"[ \t]*(?:\r?\n)+[ \t]*".join(rf"(?:{_MARK}[ \t]*){optional}{text}" for text in escaped) + r"\s*\Z"
    bracketed = r"\(\w{1,3}\)[ \t]*"
    yield _WORD + r"\s+".join(bracketed + text for text in escaped) + r"\s*\Z"


def _last(pattern: re.Pattern[str], text: str, end: int) -> re.Match[str] | None:
    """The last match before a position."""
    found = deque(pattern.finditer(text, 0, end), maxlen=1)
    return found[0] if found else None


def _parts(body: str) -> tuple[str, str]:
    """Context and question: the text before and after the last "Question:", unless the text begins with one."""
    head = _HEAD.match(body)
    if head is not None:
        return "", body[head.end() :]
    inner = _last(_INNER_HEAD, body, len(body))
    if inner is None:
        return "", body
    context = body[: inner.start()]
    return context if context.strip() else "", body[inner.end() :]
