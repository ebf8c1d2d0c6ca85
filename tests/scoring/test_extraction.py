"""Every extractor on texts made by hand: what it finds, where, and what it must not take for an answer."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.scores import Extraction
from assay.scoring.extraction.extractors import Extractor, FoundAnswer, extract, extract_all
from assay.scoring.extraction.numbers import canonical
from assay.scoring.extraction.rule_lists import EXTRACTORS, LISTS, QuestionContext, extractor_names, make_extractors

ALL_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
FOUR_LETTERS = QuestionContext(tuple("ABCD"))
CITIES = QuestionContext(tuple("ABC"), ("New York", "York", "Paris"))


def read(using: str, text: str, question: QuestionContext = FOUR_LETTERS) -> Extraction:
    return extract(text, make_extractors(extractor_names(using), question))


def answers(using: str, text: str, question: QuestionContext = FOUR_LETTERS) -> tuple[str | None, str]:
    """The answer, and the text at its position."""
    found = read(using, text, question)
    return found.answer, text[found.start : found.end] if found.answer is not None else ""


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("letter_boxed", r"so $\boxed{B}$.", "B"),
        ("letter_boxed", r"\boxed{\text{B}}", "B"),
        ("letter_boxed", r"\boxed{\textbf{(C)}}", "C"),
        ("letter_boxed", r"\boxed{D. Rome}", "D"),
        ("letter_boxed", r"first \boxed{A}, no: \boxed{B}", "B"),
        ("letter_statement", "The answer is (B).", "B"),
        ("letter_statement", "Answer: B", "B"),
        ("letter_statement", "**Answer:** B", "B"),
        ("letter_statement", "**Answer: B**", "B"),
        ("letter_statement", "Answer:\r\n\r\n**B**\r\n", "B"),
        ("letter_statement", "the correct option is D, because A is not", "D"),
        ("letter_statement", r"the final answer is $\text{C}$", "C"),
        ("letter_statement", "The answer is A. Wait. The answer is C.", "C"),
        ("letter_statement", "The answer is A because it is.", "A"),
        ("letter_statement", "The answer is option B", "B"),
        ("letter_statement", "答案是B。", "B"),
        ("letter_statement", "The answer is C and D is wrong", "C"),
        ("letter_statement", r"The answer is \( \text{C} \).", "C"),
        ("letter_verdict", "(B) is correct, I think", "B"),
        ("letter_verdict", "So A is the right answer.", "A"),
        ("letter_lone", "B", "B"),
        ("letter_lone", "\n\n (B)\nbecause A is wrong", "B"),
        ("letter_lone", "**B**", "B"),
        ("letter_lone", "B.\r\n", "B"),
        ("letter_leading", "B. Paris", "B"),
        ("letter_leading", "(B) Paris", "B"),
        ("letter_leading", "**B.** Paris", "B"),
        ("letter_leading", "B, since it is", "B"),
        ("letter_leading", "D - Rome", "D"),
        ("letter_last", "I'd go for C", "C"),
        ("letter_last", "not A but **B** then", "B"),
        ("letter_last", "所以选B", "B"),
    ],
)
def test_labels_are_found_at_their_position(name: str, text: str, answer: str) -> None:
    assert answers(name, text) == (answer, answer)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [("letter_lone", "b", "B"), ("letter_statement", "Answer: c.", "C"), ("letter_statement", "answer is a) x", "A")],
)
def test_a_small_letter_by_itself_is_the_label(name: str, text: str, answer: str) -> None:
    assert answers(name, text) == (answer, answer.lower())


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \r\n ",
        "A cat sat on the mat",
        "The answer is A cat.",
        "the answer is a cat",
        "I think so. So do I.",
        "I, for one, do not know",
        "The answer is A or B.",
        "Answer: A, B",
        "A or B?",
        "A B C D",
        "The answer is not A.",
        "P(A) of it",
        "vitamin-C, C++ and 30°C",
        "A.I. in the U.S.A.",
        "A-levels and plan-B",
        "Caf\u00e9 D\u2019Or",
        "A. Paris\nB. Lyon\nC. Rome",
        "Q: who?\nA: nobody",
        "E",
        r"\boxed{AB}",
    ],
)
def test_what_is_not_a_label_is_not_an_answer(text: str) -> None:
    assert read("letter", text, QuestionContext(tuple("ABCD"))) == Extraction(None, None, -1, -1)


def test_a_box_that_was_cut_off_holds_no_label() -> None:
    assert read("letter_boxed", r"\boxed{B").answer is None


def test_the_pronoun_is_not_a_label_unless_a_rule_says_so() -> None:
    question = QuestionContext(ALL_LETTERS)
    assert read("letter", "I think it rains, and so do I", question).answer is None
    assert read("letter", "I think it is B", question).answer == "B"
    assert [read("letter", text, question).answer for text in ("I", "(I)", "The answer is I.", "Answer: **I**")] == [
        "I"
    ] * 4


def test_the_list_goes_from_sure_to_unsure() -> None:
    text = "B. Lyon\nThe answer is C.\n\\boxed{D} and not A"
    assert {name: found.answer for name, found in extract_all(text, make_extractors(LISTS["letter"])).items()} == {
        "letter_boxed": "D",
        "letter_statement": "C",
        "letter_verdict": None,
        "letter_lone": None,
        "letter_leading": "B",
        "letter_last": "D",
    }
    assert read("letter", text) == Extraction("D", "letter_boxed", text.index("D"), text.index("D") + 1)


def test_the_first_extractor_that_matches_wins() -> None:
    never, one, two = (
        Extractor("never", lambda text: None),
        Extractor("one", lambda text: FoundAnswer("1", 0, 1)),
        Extractor("two", lambda text: FoundAnswer("2", 1, 2)),
    )
    assert extract("12", [never, two, one]) == Extraction("2", "two", 1, 2)
    assert extract("12", [never]) == Extraction(None, None, -1, -1)
    assert extract_all("12", [never, one]) == {"never": Extraction(), "one": Extraction("1", "one", 0, 1)}


def test_labels_may_be_any_texts() -> None:
    question = QuestionContext(("1", "2", "10"))
    assert answers("letter", "The answer is 10.", question) == ("10", "10")
    assert answers("letter", "Answer: YES", QuestionContext(("Yes", "No"))) == ("Yes", "YES")


@pytest.mark.parametrize(
    ("name", "text", "answer", "matched"),
    [
        ("number_hash", "3 + 4 = 7\n#### 7", "7", "7"),
        ("number_hash", "#### 1,234.", "1234", "1,234"),
        ("number_hash", "#### 3 and #### -4", "-4", "-4"),
        ("number_boxed", r"\boxed{42}", "42", "42"),
        ("number_boxed", r"\boxed{x = 42 \text{ cm}}", "42", "42"),
        ("number_boxed", r"\boxed{\$1{,}800.50}", "1800.5", r"\$1{,}800.50"),
        ("number_statement", "The answer is 18.", "18", "18"),
        ("number_statement", "the answer is 3. No, the answer is **4**.", "4", "4"),
        ("number_statement", "Answer: -$1,800.50", "-1800.5", "-$1,800.50"),
        ("number_last", "It costs €5 or −$7,000.", "-7000", "−$7,000"),
        ("number_statement", "The answer is 3 + 4 = $7.", "7", "7"),
        ("number_statement", "The answer is 5. Since x = 3", "5", "5"),
        ("number_statement", r"answer: $3 \times 4 = 12$", "12", "12"),
        ("number_statement", "答案是5。", "5", "5"),
        ("number_last", "共5个", "5", "5"),
        ("number_last", "1\u202f000 people on 12 cm^2 at 12:30", "12", "12"),
        ("number_last", "some 1\u202f000 people", "1000", "1\u202f000"),
        ("number_last", "10 - 4", "4", "4"),
        ("number_last", "half of it, 1/2.", "0.5", "1/2"),
        ("number_last", "2.5e-3 grams", "0.0025", "2.5e-3"),
        ("number_last", "50% of it", "50", "50"),
        ("number_last", "he has 3 of them, the 2nd in v2", "3", "3"),
        ("number_last", "1e5/2", "50000", "1e5/2"),
        ("number_last", "in all--5 apples", "5", "5"),
        ("number_last", "It is 13, not 12.", "13", "13"),
        ("number_last", "13 (it isn't **12**)", "13", "13"),
        ("number_statement", "The answer is 2 1/2 cups", "2.5", "2 1/2"),
        ("number_statement", "The answer is 3.5 × 10^3.", "3500", "3.5 × 10^3"),
        ("number_statement", r"The answer is $-2.5 \times 10^{-2}$", "-0.025", r"-2.5 \times 10^{-2}"),
        ("number_boxed", r"\boxed{-\frac{3}{4}}", "-0.75", r"-\frac{3}{4}"),
        ("number_boxed", r"\boxed{2\dfrac{1}{3}}", "7/3", r"2\dfrac{1}{3}"),
    ],
)
def test_numbers_are_found_and_normalised(name: str, text: str, answer: str, matched: str) -> None:
    assert answers(name, text) == (answer, matched)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "2nd",
        "v2",
        "version 1.2.3",
        "1,2,3",
        "2^10",
        "12:30",
        "x_2",
        "10**6",
        "It isn't 12",
        r"\boxed{\frac12}x",
    ],
)
def test_what_is_not_a_number_is_not_an_answer(text: str) -> None:
    assert read("number", text).answer is None


def test_a_sum_without_a_result_is_not_a_statement() -> None:
    assert read("number_statement", "The answer is 3 + 4").answer is None


@pytest.mark.parametrize(
    ("text", "answer", "rule", "matched"),
    [
        (" **new  york**.", "New York", "choice_exact", "**new  york**."),
        ("It is New York, of course: new york", "New York", "choice_only", "New York"),
        ("york it is", "York", "choice_only", "york"),
        ("York. Not Paris.", "York", "choice_leading", "York"),
        ("Paris, of course, is no York.\nThe answer is **York**.", "York", "choice_statement", "York"),
        ("The answer to your question is the york of Paris", "York", "choice_statement", "york"),
    ],
)
def test_a_choice_is_found_by_its_text(text: str, answer: str, rule: str, matched: str) -> None:
    found = read("choice_text", text, CITIES)
    assert (found.answer, found.extractor, text[found.start : found.end]) == (answer, rule, matched)


@pytest.mark.parametrize(
    "text", ["", "Paris or York", "parishes", "Rome", "The answer is Paris or York.", "It isn't Paris"]
)
def test_two_choices_or_none_are_not_an_answer(text: str) -> None:
    assert read("choice_text", text, CITIES).answer is None


def test_a_choice_that_is_a_number_is_not_a_piece_of_another() -> None:
    question = QuestionContext(choices=("5", "5.3", ""))
    assert [read("choice_text", text, question).answer for text in ("it is 5.", "it is 5.3", "it is 55")] == [
        "5",
        "5.3",
        None,
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *[(text, "1234.5") for text in ("1234.50", "1,234.5", "$1,234.50", " 1234.500. ", "+1234.5", "1.2345e3")],
        *[(text, "-7") for text in ("-7", "−7.0", "–$7", "-$7.00", "-7 %", "-14/2")],
        *[(text, "0.5") for text in ("1/2", ".5", "0.50", "2/4")],
        *[
            (text, "2.25")
            for text in ("2 1/4", r"\frac{9}{4}", r"2\tfrac{1}{4}", "4.5/2", "22.5 x 10^{-1}", "225e-2/1")
        ],
        *[("2/6", "1/3"), ("0.0", "0"), ("-0", "0"), ("007", "7"), ("1/0", "1/0"), ("1e9999", "1e9999")],
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
        ("9007199254740993.0", "9007199254740993"),
        ("1e" + "9" * 5000, "1e" + "9" * 5000),
        *[(text, None) for text in ("", "B", "--5", "7 cm", "1.2.3", "12:30", "x = 3", "1,23", "about 5")],
    ],
)
def test_a_number_has_one_form(text: str, written: str | None) -> None:
    assert canonical(text) == written
    assert written is None or canonical(written) == written


@given(
    st.sampled_from(["", "-", "−", "+"]),
    st.sampled_from(["", "$", "€"]),
    st.integers(0, 10**12),
    st.one_of(st.none(), st.text("0123456789", min_size=1, max_size=9)),
    st.one_of(st.none(), st.integers(-100, 100)),
    st.one_of(st.none(), st.integers(1, 5000)),
)
def test_the_one_form_of_a_number_is_exact(
    sign: str, currency: str, whole: int, places: str | None, power: int | None, bottom: int | None
) -> None:
    decimal = f"{whole:,}" + (f".{places}" if places else "") + ("" if power is None else f"e{power}")
    written = canonical(f"{sign}{currency}{decimal}" + (f"/{bottom}" if bottom else ""))
    value = Fraction(decimal.replace(",", "")) / (bottom or 1)
    assert written is not None and canonical(written) == written
    assert Fraction(written) == (-value if sign in ("-", "−") else value)


@pytest.mark.parametrize(
    ("using", "text", "cut"),
    [
        ("number", "We add 3 and 4 to get 7", None),
        ("number", "The answer is 15", None),
        ("number", "The answer is 15.", None),
        ("number", "The answer is 12 + ", None),
        ("number", "The answer is 15e", None),
        ("number", "#### 12", None),
        ("number", "#### 12\n", "12"),
        ("number", "The answer is 15.\n\nThis is", "15"),
        ("number", r"so \boxed{12}", "12"),
        ("letter", "The answer is (B", "B"),
        ("letter", " B", "B"),
        ("letter", "B. Paris", "B"),
        ("letter", "It must be B, as C is not", None),
        ("choice_text", "Paris", "Paris"),
        ("choice_text", "It is Paris", None),
        ("choice_text", "The answer is Paris", None),
        ("choice_text", "Paris, because it", "Paris"),
        ("first_line", "one\ntwo", "one"),
        ("first_line", "one", None),
        ("last_line", "one\ntwo", None),
        ("whole", "one\ntwo", "one\ntwo"),
    ],
)
def test_a_text_that_was_cut_off_answers_only_what_its_end_cannot_change(
    using: str, text: str, cut: str | None
) -> None:
    extractors = make_extractors(LISTS[using], CITIES)
    assert extract(text, extractors, is_truncated=True).answer == cut
    assert extract(text, extractors).answer is not None or text.endswith("+ ")


def test_a_label_that_begins_another_is_not_whole_at_a_cut() -> None:
    one_to_ten = QuestionContext(tuple(map(str, range(1, 11))), ("New", "New York"))
    for using, text in (("letter", "The answer is 1"), ("choice_text", "New")):
        extractors = make_extractors(LISTS[using], one_to_ten)
        assert extract(text, extractors).answer is not None
        assert extract(text, extractors, is_truncated=True).answer is None
        assert extract(text + "\nThat", extractors, is_truncated=True).answer is not None


def test_lines_and_the_whole_text() -> None:
    text = "\r\n one \r\n\r\n two\r\n"
    assert answers("first_line", text) == ("one", "one")
    assert answers("last_line", text) == ("two", "two")
    assert answers("whole", text) == ("one \r\n\r\n two",) * 2
    assert [read(name, " \n ").answer for name in ("first_line", "last_line", "whole")] == [None] * 3


def test_reasoning_is_not_searched_and_offsets_stay() -> None:
    text = "<think>The answer is A.</think>\nThe answer is B."
    assert read("letter", text) == Extraction("B", "letter_statement", text.index("B."), text.index("B.") + 1)
    assert read("whole", text).answer == "The answer is B."
    assert read("first_line", "<THINK>x\ny</THINK>C").answer == "C"


def test_reasoning_that_the_prompt_opened_is_not_searched() -> None:
    assert read("letter", "The answer is A.</think>\n\nB").answer == "B"
    assert read("letter", "<think>a <think>A</think> B</think>").answer is None


@pytest.mark.parametrize("using", [*LISTS])
def test_reasoning_without_an_end_holds_no_answer(using: str) -> None:
    assert read(using, "Paris. #### 3 B <think>The answer is B, 3, Paris", CITIES).answer is None


@pytest.mark.parametrize(
    "unit", [" ", "1", "1,", "*", "A.\n", "answer: ", "answer" + " " * 20, "\\boxed{", "-", "York "]
)
def test_a_long_text_takes_no_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    question = QuestionContext(ALL_LETTERS, CITIES.choices)
    for using in ("letter", "number", "choice_text"):
        started = time.process_time()
        extract_all(text, make_extractors(LISTS[using], question))
        assert time.process_time() - started < 2.0, using  # a second on a machine of its own


def test_lists_hold_known_names_and_every_name_is_in_a_list() -> None:
    assert {name for names in LISTS.values() for name in names} == set(EXTRACTORS)


def test_names_of_lists_and_extractors_mix() -> None:
    assert extractor_names(["number_last", "choice_text", "choice_only"]) == (
        "number_last",
        "choice_exact",
        "choice_statement",
        "choice_leading",
        "choice_only",
    )
    with pytest.raises(ValueError, match='unknown extractor "leter" .did you mean "letter"'):
        extractor_names("leter")


PIECES = [
    "A",
    "B",
    "I",
    "b",
    "(",
    ")",
    "**",
    ".",
    ",",
    " ",
    "\n",
    "\r\n",
    "answer is ",
    "Answer: ",
    "\\boxed{",
    "}",
    "\\text{",
]
PIECES += [
    "1",
    "0",
    "-",
    "$",
    "####",
    "/",
    "=",
    "é",
    "答案是",
    "<think>",
    "</think>",
    "Paris",
    "New York",
    " is correct",
    "or",
]


@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=25).map("".join),
    st.sampled_from([*LISTS]),
)
def test_what_is_at_the_offset_is_the_answer(text: str, using: str) -> None:
    found = read(using, text, QuestionContext(ALL_LETTERS, CITIES.choices))
    matched = text[found.start : found.end]
    if found.answer is None:
        assert found == Extraction(None, None, -1, -1)
    elif using == "letter":
        assert matched.upper() == found.answer
    elif using == "number":
        own, given = ("".join(filter(str.isdigit, part)).strip("0") for part in (matched, found.answer))
        assert own == given  # the form has no zeros around: 01 is 1, 1.50 is 1.5
    elif using == "choice_text":
        assert found.answer.casefold() in " ".join(matched.casefold().split())
    elif "</think>" not in text.lower():
        assert matched == found.answer
