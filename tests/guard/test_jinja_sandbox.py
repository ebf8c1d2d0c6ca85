"""Templates that would fill the memory are refused before they do; all others render as Jinja renders them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy
import pytest
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from assay.core.errors import LimitError
from assay.guard.jinja_sandbox import GuardedEnvironment

# ruff: noqa: E501  (templates are easier to read in one line)
BOMBS = [
    "{{ '%1000000000s' % q }}",
    "{{ '%*s' % (1000000000, q) }}",
    "{{ '%.1000000000f' % 1.5 }}",
    "{{ ('%(a)s' * 100000) % {'a': 'x' * 900000} }}",
    "{{ '%1000000000s'|format(q) }}",
    "{{ '%(a)1000000000s'|format(a=q) }}",
    "{{ q.ljust(1000000000) }}",
    "{{ q.rjust(1000000000) }}",
    "{{ q.zfill(1000000000) }}",
    "{{ q['center'](1000000000) }}",
    "{{ q|center(1000000000) }}",
    "{% for x in [1] %}{{ q.center(1000000000) }}{% endfor %}",
    "{{ q|center(width=10**9) }}",
    "{{ '{:>1000000000}'.format(q) }}",
    "{{ '{:>{}}'.format(q, 1000000000) }}",
    "{{ '{a:>1000000000}'.format_map({'a': q}) }}",
    "{{ ('{0}' * 100000).format('x' * 999999) }}",
    "{{ ['a'] * 10**9 }}",
    "{{ 'a' * 10**10 }}",
    "{{ 10**1000000 }}",
    "{{ (5).to_bytes(1000000000, 'big') }}",
    "{{ '\\t'.expandtabs(1000000000) }}",
    "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "{{ ('a' * 1000000)|replace('', 'b' * 1000000) }}",
    "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}",
    "{{ ('b' * 1000000).join(['a'] * 900000) }}",
    "{{ (['a'] * 900000)|join('b' * 1000000) }}",
    "{{ ([{'t': 'b' * 1000000}] * 100000)|join(attribute='t') }}",
    "{{ ([[1] * 100000] * 10000)|sum(start=[]) }}",
    "{{ 2.5|round(1000000000, 'ceil') }}",
    "{{ [1]|batch(linecount=1000000000, fill_with='x')|list }}",
    "{{ [1]|slice(1000000000)|list }}",
    "{{ [[1]]|tojson(indent=1000000000) }}",
    "{{ q|indent(1000000000, true) }}",
    "{{ ('a\\n' * 100000)|indent('x' * 100000) }}",
    "{{ ('a b ' * 100000)|wordwrap(1, wrapstring='x' * 100000) }}",
    "{% set x = 'y' * 1000000 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99) %}{{ i }}{% endfor %}{% endfor %}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "{% set n = namespace(x=['a']) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}",
    "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = {'a': n.x, 'b': n.x} %}{% endfor %}",
    "{% set n = namespace(x=7) %}{% for i in range(90) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}",
]


@pytest.mark.parametrize("text", BOMBS)
def test_a_template_that_would_fill_the_memory_is_refused(text: str) -> None:
    with pytest.raises(LimitError, match="builds .* at most"):
        GuardedEnvironment().from_string(text).render(q="what?")


SAMPLES = [
    "{{ q ~ 1 ~ none ~ xs }}|{{ 'a' ~ 'b' }}|{{ q + '!' }}|{{ xs + [3] }}|{{ (1, q) }}|{{ {'a': q}['a'] }}|{{ [q, xs] }}",
    "{{ '%5.1f|%-6s|%d%%' % (2.25, q, 7) }}|{{ '%(a)s' % {'a': q} }}|{{ 7 % 3 }}|{{ '%s'|format(q) }}|{{ 2**10 * 3 }}",
    "{{ '{:>9}|{a!r:<9}|{0[1]}'.format(q, a=xs) }}|{{ '{x}'.format_map({'x': q}) }}|{{ ('<b>'|e).format(q) }}",
    "{{ q.ljust(9, '.') }}|{{ q.zfill(8) }}|{{ '-'.join(xs|map('string')) }}|{{ q.replace('a', 'bb', 1) }}|{{ q.split('a') }}",
    "{{ q|center(9) }}|{{ xs|join(', ') }}|{{ rows|join('/', attribute='t') }}|{{ xs|sum }}|{{ [xs, xs]|sum(start=[]) }}",
    "{{ 'a\nb'|indent(2, true) }}|{{ q * 3 }}|{{ xs|batch(2, 'x')|list }}|{{ xs|slice(2)|list }}|{{ 2.567|round(1) }}",
    "{{ rows|tojson }}|{{ rows|tojson(indent=2) }}|{{ rows|pprint }}|{{ 'a bc d'|wordwrap(3, wrapstring='\n ') }}",
    "{% set n = namespace(x=0, self=1) %}{% for x in xs %}{% set n.x = n.x + x %}{% endfor %}{{ n.x }}{{ n.self }}",
    "{% macro m(a, b='z') %}<{{ a }}{{ b }}{{ varargs }}>{% endmacro %}{{ m(q) }}{{ m(1, 2, 3) }}{% set b %}{{ q }}{% endset %}{{ b }}",
    "{% for x in xs %}{{ q.replace('a', '-').ljust(9) }}{{ ','.join([q]) }}{{ '{}'.format(x) }}{{ q|center(9) }}{% endfor %}",
    "{% block b %}{{ q.replace('a', '-', 1).expandtabs(tabsize=3) }}{% endblock %}{{ q.translate({97: 'o'}) }}",
    "{% for a, b in [(1, 2), (3, q)] %}{{ loop.index }}{{ a }}{{ b }}{% else %}none{% endfor %}{{ xs[1:] }}{{ xs[::-1] }}",
    "{% autoescape true %}{{ '<' ~ q }}{{ ['<', q]|join('&') }}{% endautoescape %}{{ dict(a=1).items()|list }}",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_an_ordinary_template_renders_as_in_jinjas_sandbox(text: str) -> None:
    values = {"q": "banana", "xs": [1, 2, 5], "rows": [{"t": "é<"}, {"t": "u"}]}
    assert GuardedEnvironment().from_string(text).render(values) == _plain(text, values)


def _plain(text: str, values: dict[str, object]) -> str:
    return ImmutableSandboxedEnvironment().from_string(text).render(values)


@pytest.mark.parametrize(
    "template",
    [
        "{{ x.save(place) }}",
        "{{ x['save'](place) }}",
        "{{ (x|attr('save'))(place) }}",
        "{% for y in [x] %}{% call y.save(place) %}{% endcall %}{% endfor %}",
        "{{ x.palette.save(place) }}",
        "{{ number.tofile(place) }}",
        "{{ numbers.tofile(place) }}",
    ],
)
def test_values_that_can_write_files_do_not_write_them_for_a_template(tmp_path: Path, template: str) -> None:
    image = pytest.importorskip("PIL.Image").new("P", (2, 2))
    fields = {"x": image, "number": numpy.float64(1.5), "numbers": numpy.ones(3)}
    with pytest.raises(SecurityError):
        GuardedEnvironment().from_string(template).render(place=str(tmp_path / "a.png"), **fields)
    assert not any(tmp_path.iterdir())


def test_what_is_plain_in_such_values_can_be_read() -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 3))
    fields = {"x": image, "number": numpy.float64(1.5), "numbers": numpy.ones(2), "day": date(2024, 2, 29)}
    text = "{{ x.size }} {{ number.is_integer() }} {{ numbers.tolist() }} {{ day.strftime('%d.%m.') }}"
    assert GuardedEnvironment().from_string(text).render(**fields) == "(2, 3) False [1.0, 1.0] 29.02."
