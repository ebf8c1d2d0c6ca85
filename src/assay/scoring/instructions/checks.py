r"""The 25 checks of IFEval: whether a text follows an instruction (Zhou et al. 2023, section 2).

In: a text and the instruction's arguments, such as `{"num_words": 300, "relation": "at least"}`. Out: yes or no. The
rules, also the loose ones, are the authors'; keywords and markers are regular expressions there, as here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from assay.scoring.instructions.language import is_in_language
from assay.scoring.instructions.sentences import capital_word_count, sentence_count, word_count

Arguments = Mapping[str, Any]
Check = Callable[[str, Arguments], bool]

# The other relation is "at least".
_LESS_THAN = "less than"
_FIXED_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_FENCES = ("```json", "```Json", "```JSON", "```")
_POSTSCRIPTS = {"P.P.S": r"\s*p\.\s?p\.\s?s.*$", "P.S.": r"\s*p\.\s?s\..*$"}
_STAR_BULLET, _DASH_BULLET = re.compile(r"^\s*\*[^\*].*$", re.MULTILINE), re.compile(r"^\s*-.*$", re.MULTILINE)
_HIGHLIGHT, _DOUBLE_HIGHLIGHT = re.compile(r"\*[^\n\*]*\*"), re.compile(r"\*\*[^\n\*]*\*\*")
_END_OF_FIRST_WORD = re.compile(r"[.,?!'\"]")


def _agrees(count: int, relation: str | None, threshold: int) -> bool:
    """Whether a count has the asked relation to a threshold."""
    return count < threshold if relation == _LESS_THAN else count >= threshold


def _number(given: Arguments, name: str) -> int:
    return int(given[name])


def _text(given: Arguments, name: str) -> str:
    return str(given[name]).strip()


def has_keywords(text: str, given: Arguments) -> bool:
    """Every keyword occurs."""
    return all(re.search(word, text, re.IGNORECASE) for word in given["keywords"])


def has_keyword_often(text: str, given: Arguments) -> bool:
    """A keyword occurs often enough, or seldom enough."""
    found = re.findall(_text(given, "keyword"), text, re.IGNORECASE)
    return _agrees(len(found), given["relation"], given["frequency"])


def lacks_words(text: str, given: Arguments) -> bool:
    """No forbidden word occurs as a word."""
    return not any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for word in given["forbidden_words"])


def has_letter_often(text: str, given: Arguments) -> bool:
    """A letter, or other character, occurs often enough, or seldom enough."""
    return _agrees(text.lower().count(_text(given, "letter").lower()), given["let_relation"], given["let_frequency"])


def is_in_asked_language(text: str, given: Arguments) -> bool:
    """The whole text is in one language."""
    return is_in_language(text, given["language"])


def has_sentences(text: str, given: Arguments) -> bool:
    """The number of sentences."""
    return _agrees(sentence_count(text), given["relation"], given["num_sentences"])


def has_words(text: str, given: Arguments) -> bool:
    """The number of words."""
    return _agrees(word_count(text), given["relation"], given["num_words"])


def has_divided_paragraphs(text: str, given: Arguments) -> bool:
    """The number of paragraphs between lines of three asterisks; only the first and last may be empty."""
    paragraphs = re.split(r"\s?\*\*\*\s?", text)
    is_empty = [not paragraph.strip() for paragraph in paragraphs]
    if any(is_empty[1:-1]):
        return False
    return is_empty.count(False) == _number(given, "num_paragraphs")


def has_first_word(text: str, given: Arguments) -> bool:
    """The number of paragraphs between empty lines, and the first word of one of them."""
    paragraphs = text.split("\n\n")
    count, place = sum(bool(paragraph.strip()) for paragraph in paragraphs), given["nth_paragraph"]
    words = paragraphs[place - 1].split() if place <= count else []
    if not words:
        return False
    first = _END_OF_FIRST_WORD.split(words[0].lstrip("'").lstrip('"'))[0].lower()
    return count == _number(given, "num_paragraphs") and first == str(given["first_word"]).lower()


def has_placeholders(text: str, given: Arguments) -> bool:
    """The number of placeholders such as [address]."""
    return len(re.findall(r"\[.*?\]", text)) >= _number(given, "num_placeholders")


def has_postscript(text: str, given: Arguments) -> bool:
    """A postscript after its marker."""
    marker = _text(given, "postscript_marker")
    pattern = _POSTSCRIPTS.get(marker, rf"\s*{marker.lower()}.*$")
    return re.search(pattern, text.lower(), re.MULTILINE) is not None


def has_bullets(text: str, given: Arguments) -> bool:
    """The exact number of bullet points."""
    return len(_STAR_BULLET.findall(text)) + len(_DASH_BULLET.findall(text)) == _number(given, "num_bullets")


def is_fixed_answer(text: str, given: Arguments) -> bool:
    """One of three fixed answers occurs."""
    return any(answer in text.strip() for answer in _FIXED_ANSWERS)


def has_highlights(text: str, given: Arguments) -> bool:
    """The number of parts between asterisks; a part between two on each side may count twice, as for the authors."""
    single = [part.strip("*") for part in _HIGHLIGHT.findall(text)]
    double = [part.removeprefix("**").removesuffix("**") for part in _DOUBLE_HIGHLIGHT.findall(text)]
    return sum(bool(part.strip()) for part in [*single, *double]) >= _number(given, "num_highlights")


def has_sections(text: str, given: Arguments) -> bool:
    """The number of sections that begin with a word and a number."""
    marks = re.findall(rf"\s?{_text(given, 'section_spliter')}\s?\d+\s?", text)
    return len(marks) >= _number(given, "num_sections")


def is_json(text: str, given: Arguments) -> bool:
    """The whole text is JSON, perhaps in a code fence."""
    text = text.strip()
    for fence in _FENCES:
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except ValueError:
        return False
    return True


def has_title(text: str, given: Arguments) -> bool:
    """A title in double angular brackets."""
    return any(title.lstrip("<").rstrip(">").strip() for title in re.findall(r"<<[^\n]+>>", text))


def has_two_responses(text: str, given: Arguments) -> bool:
    """Two different responses between six asterisks; only the first and last part may be empty."""
    parts = text.split("******")
    given_parts = [part.strip() for part in parts if part.strip()]
    if any(not part.strip() for part in parts[1:-1]):
        return False
    return len(given_parts) == 2 and given_parts[0] != given_parts[1]


def repeats_request(text: str, given: Arguments) -> bool:
    """The text begins with the request."""
    return text.strip().lower().startswith(_text(given, "prompt_to_repeat").lower())


def has_end(text: str, given: Arguments) -> bool:
    """The text ends with a phrase."""
    return text.strip().strip('"').lower().endswith(_text(given, "end_phrase").lower())


def has_capital_words(text: str, given: Arguments) -> bool:
    """The number of words in capital letters."""
    return _agrees(capital_word_count(text), given["capital_relation"], given["capital_frequency"])


def is_upper_english(text: str, given: Arguments) -> bool:
    """English in capital letters."""
    return text.isupper() and is_in_language(text, "en")


def is_lower_english(text: str, given: Arguments) -> bool:
    """English in small letters."""
    return text.islower() and is_in_language(text, "en")


def lacks_commas(text: str, given: Arguments) -> bool:
    """No comma occurs."""
    return "," not in text


def is_quoted(text: str, given: Arguments) -> bool:
    """The whole text is within double quotation marks."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


CHECKS: Mapping[str, Check] = {
    "keywords:existence": has_keywords,
    "keywords:frequency": has_keyword_often,
    "keywords:forbidden_words": lacks_words,
    "keywords:letter_frequency": has_letter_often,
    "language:response_language": is_in_asked_language,
    "length_constraints:number_sentences": has_sentences,
    "length_constraints:number_paragraphs": has_divided_paragraphs,
    "length_constraints:number_words": has_words,
    "length_constraints:nth_paragraph_first_word": has_first_word,
    "detectable_content:number_placeholders": has_placeholders,
    "detectable_content:postscript": has_postscript,
    "detectable_format:number_bullet_lists": has_bullets,
    "detectable_format:constrained_response": is_fixed_answer,
    "detectable_format:number_highlighted_sections": has_highlights,
    "detectable_format:multiple_sections": has_sections,
    "detectable_format:json_format": is_json,
    "detectable_format:title": has_title,
    "combination:two_responses": has_two_responses,
    "combination:repeat_prompt": repeats_request,
    "startend:end_checker": has_end,
    "startend:quotation": is_quoted,
    "change_case:capital_word_frequency": has_capital_words,
    "change_case:english_capital": is_upper_english,
    "change_case:english_lowercase": is_lower_english,
    "punctuation:no_comma": lacks_commas,
}
