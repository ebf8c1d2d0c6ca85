"""Help texts of commands: usage, then the options by heading, one line or two each, at the width of the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import groupby

from assay.core.specs import RunSpec
from assay.options.commands import Command
from assay.options.option import ANY, OPTIONAL, REPEAT, SWITCH, WORDS, Option, field_default

# Columns before the description of an option; a longer name gets its own line.
_INDENT = 25
_NARROWEST, _WIDEST = 60, 110


def help_text(name: str, own: Command, everything: bool, width: int) -> str:
    """The text of `assay NAME --help`, or of `--help_all`."""
    width = min(max(width - 1, _NARROWEST), _WIDEST)
    lines = [usage(name, own), "", *textwrap.wrap(own.about, width)]
    for group, rows in groupby(own.listed(everything).items(), key=lambda entry: entry[1].group):
        lines += ["", f"{group or 'arguments'}:"]
        for dest, option in rows:
            lines += _lines(label(dest, option), meaning(option, everything), width)
    more = " All options: --help_all." if own.has_more and not everything else ""
    return "\n".join([*lines, "", f"--debug shows tracebacks.{more}", ""])


def usage(name: str, own: Command) -> str:
    """The line `usage: assay compare RUN [RUN …] [options]`."""
    words = ["usage: assay", name]
    for dest, option in own.options.items():
        if option.is_positional:
            words.append(label(dest, option))
    words += [label(dest, option, short=False) for dest, option in own.options.items() if option.is_required]
    return " ".join([*words, "[options]"])


def label(name: str, option: Option, short: bool = True) -> str:
    """An option as it is typed: `--limit, -L N`."""
    value = option.metavar or name.upper()
    values = {SWITCH: "", OPTIONAL: f"[{value}]", ANY: f"[{value} …]", WORDS: f"{value} …"}.get(option.takes, value)
    if option.is_positional:
        return values
    flag = option.flag or f"--{name}"
    flags = f"{flag}, {option.short}" if option.short and short else flag
    return f"{flags} {values}".rstrip()


def meaning(option: Option, everything: bool = True) -> str:
    """Description of an option's value, and its default."""
    text = f"{option.help}; {option.details}" if everything and option.details else option.help
    words = option.default or _initial(option)
    if not words or option.is_required:
        return text
    return f"{text} (default{':' if ' ' in words else ''} {words})"


def _initial(option: Option) -> str:
    """The default as text: that of the option, or of the field that it fills; empty if there is none."""
    value = option.initial
    if value is None and option.fields and option.takes not in (SWITCH, REPEAT, WORDS):
        value = field_default(RunSpec, option.fields[0])
    if isinstance(value, list):
        return " ".join(value)
    return f'"{value}"' if isinstance(value, str) and value.endswith(":") else "" if value is None else str(value)


def _lines(name: str, text: str, width: int) -> Iterator[str]:
    wrapped = textwrap.wrap(text, width - _INDENT)
    if len(name) + 4 > _INDENT:
        yield f"  {name}"
    else:
        yield f"  {name:<{_INDENT - 2}}{wrapped.pop(0)}"
    yield from (" " * _INDENT + line for line in wrapped)
