"""Templates: what they render, what they refuse, and that the fast way gives what Jinja gives."""

from __future__ import annotations

import random
import re
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError, LimitError, TaskFileError
from assay.tasks.templates import LONGEST_LITERAL, check_syntax, literal, render, render_literal

PLAIN_JINJA = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text()
    | st.sampled_from(["{{ x }}", "<b>&amp;", "{%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TEXTS = st.text().filter(lambda text: not any(mark in text for mark in ("{", "}", "#", "%")))


@given(TEXTS, VALUES, TEXTS, VALUES)
def test_plain_names_render_as_jinja_renders_them(before: str, first: Any, between: str, second: Any) -> None:
    text = before + "{{ first }}" + between + "{{second}}"
    fields = {"first": first, "second": second}
    assert render(text, fields, "here") == PLAIN_JINJA.from_string(text).render(fields)


@pytest.mark.parametrize(
    "text", ["{{a.b}}", "<{{ a.b.c }}>", "{{a.items}}", "{{a.d}}", "{{a.e.f}}", "{{b.upper}}", "{{b.x}}"]
)
def test_attributes_render_as_jinja_renders_them(text: str) -> None:
    fields = {"a": {"b": {"c": "x"}, "items": "a key", "d": [1, "2"], "e": None}, "b": "text"}
    try:
        expected = PLAIN_JINJA.from_string(text).render(fields)
    except jinja2.UndefinedError as error:
        with pytest.raises(DataError, match=re.escape(str(error))):
            render(text, fields, "here")
    else:
        assert render(text, fields, "here") == expected


@given(TEXTS)
def test_text_without_marks_is_itself_but_for_line_ends(text: str) -> None:
    assert render(text, {}, "here") == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize(
    "text",
    [
        "{{ a }}{{ b }}",
        "{{- a -}}  {{ b }}\n",
        "{% if b %}{{ a }}{% endif %}",
        "{{ a.upper() }}",
        "{{ b[0] }}-{{ b|length }}",
        "{# nothing #}{{ a }}",
        "{{ a if b else '' }}{{ [a, b] }}",
        "{% for item in b %}{{ loop.index }}{{ item }}{% endfor %}",
    ],
)
def test_any_template_renders_as_in_jinja(text: str) -> None:
    fields = {"a": "x{{b}}", "b": ["1", "2"]}
    assert render(text, fields, "here") == PLAIN_JINJA.from_string(text).render(fields)


def test_trailing_newlines_are_kept() -> None:
    assert render("{{ a }}\n\n", {"a": 1}, "here") == "1\n\n"
    assert render("text\n", {}, "here") == "text\n"


def test_data_that_looks_like_a_template_stays_text() -> None:
    hostile = "{{ ''.__class__ }}{% for x in range(9) %}"
    assert render("Q: {{ q }}", {"q": hostile}, "here") == "Q: " + hostile
    assert render("Q: {{ q | trim }}", {"q": hostile}, "here") == "Q: " + hostile


def test_regex_replace_is_a_filter() -> None:
    assert render("{{ a | regex_replace('[0-9]+', '#') }}", {"a": "1 and 22"}, "here") == "# and #"
    assert render("{{ a | regex_replace('[0-9]', '#', 1) }}", {"a": "1 and 2"}, "here") == "# and 2"


def test_a_column_may_have_a_name_with_spaces() -> None:
    assert render("{{ column('Tweet text') }}!", {"Tweet text": "Hello"}, "here") == "Hello!"
    with pytest.raises(DataError, match="Tweet txt"):
        render("{{ column('Tweet txt') }}", {"Tweet text": "Hello"}, "here")


def test_a_column_named_column_hides_the_function() -> None:
    assert render("{{ column }}", {"column": 3}, "here") == "3"


def test_shuffled_is_the_order_of_pythons_generator() -> None:
    """Random("a").shuffle([1, 2, 3, 4]), by hand; the row itself is left as it is."""
    row = {"values": [1, 2, 3, 4], "seed": "a"}
    expected = list(row["values"])
    random.Random("a").shuffle(expected)
    assert render("{{ values | shuffled(seed) }}", row, "here") == str(expected)
    assert row["values"] == [1, 2, 3, 4]


def test_literal_reads_a_list_written_as_text() -> None:
    row = {"problems": "[{'question': \"What's 1?\", 'options': ['a', 'b']}]"}
    assert render("{{ (problems | literal)[-1].question }}", row, "here") == "What's 1?"
    assert render("{% for option in (problems | literal)[0].options %}{{ option }}{% endfor %}", row, "here") == "ab"


@pytest.mark.parametrize("text", ["['a'", "open('x')", "[1 for x in y]"])
def test_literal_reads_nothing_but_literals(text: str) -> None:
    with pytest.raises(DataError, match="here: template fails on a document.*expected a Python list"):
        render("{{ a | literal }}", {"a": text}, "here")


def test_a_bad_pattern_in_regex_replace_is_the_users_error() -> None:
    with pytest.raises(DataError, match="here: template fails on a document"):
        render("{{ a | regex_replace('(', '#') }}", {"a": "x"}, "here")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ x.__init__ }}",
        "{{ x.__init__.__globals__ }}",
        "{{ x.append(4) }}",
        "{{ x.clear() }}",
        "{{ d.update({'a': 2}) }}",
        "{{ ''['__class__'] }}",
        "{{ (x | attr('__class__')) }}",
        "{{ '{0.__class__}'.format(x) }}",
    ],
)
def test_the_sandbox_gives_nothing_away(text: str) -> None:
    fields = {"x": [1, 2], "d": {"a": 1}}
    with pytest.raises((TaskFileError, DataError)) as caught:
        render(text, fields, "my.yaml:3  doc_to_text")
    assert str(caught.value).startswith("my.yaml:3  doc_to_text: ")
    assert fields == {"x": [1, 2], "d": {"a": 1}}


def test_an_endless_range_is_refused() -> None:
    with pytest.raises(DataError, match="Range too big"):
        render("{% for i in range(10**9) %}x{% endfor %}", {}, "here")


def test_an_unknown_column_is_named_with_the_near_ones() -> None:
    with pytest.raises(DataError) as caught:
        render("{{ qestion }}", {"question": 1, "answer": 2}, "my.yaml:3  doc_to_text")
    text = str(caught.value)
    assert "my.yaml:3  doc_to_text: 'qestion' is undefined" in text
    assert 'did you mean "question"?' in text
    assert "question, answer" in text


def test_a_known_and_an_unknown_name_are_still_an_error() -> None:
    with pytest.raises(DataError, match="'b' is undefined"):
        render("{{ a }}{{ b }}", {"a": 1}, "here")


def test_globals_of_jinja_are_not_taken_for_columns() -> None:
    assert render("{{ range(3) | list }}", {}, "here") == "[0, 1, 2]"
    assert render("{{ dict }}", {"dict": "a column"}, "here") == "a column"


@pytest.mark.parametrize("text", ["{{ a", "{% if %}", "{% for x in y %}", "{{ a | nofilter }}"])
def test_bad_syntax_is_found_without_a_document(text: str) -> None:
    problem = check_syntax(text)
    assert problem is not None and problem.startswith("template does not parse (line 1 of it)")


def test_good_syntax_has_no_problem() -> None:
    assert check_syntax("{{ a }} and {% if b %}c{% endif %}") is None


def test_errors_of_a_template_name_the_document_problem() -> None:
    with pytest.raises(DataError, match="ZeroDivisionError"):
        render("{{ 1 / a }}", {"a": 0}, "here")
    with pytest.raises(DataError, match="TypeError"):
        render("{{ a + 1 }}", {"a": "text"}, "here")


def test_a_literal_is_read_and_nothing_else() -> None:
    assert literal("['a', \"b\"]", "here") == ["a", "b"]
    for text in ("open('x')", "[a, b]", "[", ""):
        with pytest.raises(DataError, match="a Python list such as"):
            literal(text, "here")


def test_a_literal_is_not_read_beyond_any_size() -> None:
    with pytest.raises(DataError, match="1,000,001 characters"):
        literal("1" * (LONGEST_LITERAL + 1), "here")


@given(st.lists(st.text() | st.text(st.characters(codec=None), max_size=3), max_size=4))
def test_a_list_of_texts_is_what_it_would_be_if_written_out_and_read(texts: list[str]) -> None:
    fields = {"choices": {"text": texts}}
    found = render_literal("{{choices.text}}", fields, "here")
    assert found == literal(render("{{choices.text}}", fields, "here"), "here") == texts
    assert found is not texts


@pytest.mark.parametrize("value", [[1, 2], ("a", "b"), "['a', 'b']", [["a"]], {"a": 1}])
def test_any_other_value_is_written_out_and_read(value: Any) -> None:
    assert render_literal("{{x}}", {"x": value}, "here") == literal(str(value), "here")


@pytest.mark.parametrize("text", ["{{x.y}}", "{{z}}", "{{x.y.z}}", "{{x"])
def test_a_list_that_is_not_there_is_reported(text: str) -> None:
    with pytest.raises((DataError, TaskFileError), match="here: "):
        render_literal(text, {"x": {}}, "here")


def test_a_list_of_texts_beyond_any_size_is_refused_too() -> None:
    with pytest.raises(DataError, match="rendered a literal of"):
        render_literal("{{x}}", {"x": ["a" * LONGEST_LITERAL]}, "here")


def test_a_template_that_never_ends_is_an_error_with_its_place() -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(LimitError, match=r"my.yaml:3  doc_to_text, template: takes more than 5 seconds; expected"):
        render(loops, {}, "my.yaml:3  doc_to_text")


@pytest.mark.parametrize(
    ("text", "pattern", "replacement"),
    [("a" * 5000, "a", "x" * 9000), ("a" * 9000, "(?=(.*))", r"\1"), ("a" * 9000, "(a+)", r"\1" * 9000)],
)
def test_a_replacement_that_grows_without_end_is_refused(text: str, pattern: str, replacement: str) -> None:
    fields = {"t": text, "p": pattern, "r": replacement}
    with pytest.raises(LimitError, match="template: builds a text or list of"):
        render("{{ t|regex_replace(p, r) }}", fields, "here")


@pytest.mark.parametrize(("text", "replacement"), [("banana", r"<\1>"), ("an" * 90_000, r"<\1\g<0>\n>" + "x" * 90)])
def test_a_long_replacement_is_that_of_re(text: str, replacement: str) -> None:
    fields = {"t": text, "r": replacement}
    assert render("{{ t|regex_replace('(n)', r, 9) }}", fields, "here") == re.sub("(n)", replacement, text, count=9)


def test_an_endless_pattern_in_a_constant_is_not_searched_while_the_file_is_checked() -> None:
    assert check_syntax("{{ '" + "a" * 60 + "b'|regex_replace('(a+)+$', '') }}") is None
