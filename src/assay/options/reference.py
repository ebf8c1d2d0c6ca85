"""The reference page of the command line, docs/cli.md, generated from the table.

`python -m assay.options.reference > docs/cli.md` writes it; a test checks that it is up to date.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from assay.options.help import label, meaning, usage
from assay.options.option import Option
from assay.options.parser import NAMES, command

_HEAD = """# The command line

This page is made from the table of options: `python -m assay.options.reference > docs/cli.md`. `assay COMMAND --help`
shows the options that people need most, `--help_all` all of them. Options may be written with `-` or `_`; `--debug`
shows tracebacks. In Python, the options of a run are keyword arguments of the same name (`--seeds` is `fewshot_seeds`,
`--together` is `finetune_together`).

Exit codes: 0 done, 1 bug, 2 user error, 3 finished but some requests failed or a task could not be scored, 4 worse than
the baseline (`compare --fail_if_worse`), 130 interrupted, 143 terminated, 129 terminal closed.
"""


def page() -> str:
    """The complete page."""
    return "\n".join([_HEAD, *(_section(name) for name in NAMES)])


def _section(name: str) -> str:
    own = command(name)
    lines = [f"## assay {name}", "", own.about, "", "```", usage(name, own), "```", ""]
    for group, rows in groupby(own.listed(everything=True).items(), key=lambda entry: entry[1].group):
        lines += [f"| {group or 'arguments'} | |", "|---|---|"]
        lines += [_row(dest, option) for dest, option in rows]
        lines.append("")
    hidden = {dest: option for dest, option in own.options.items() if option.is_hidden}
    ours = [f"`{label(dest, option)}`" for dest, option in hidden.items() if dest not in own.without_effect]
    if ours:
        lines += [f"Also accepted: {', '.join(ours)}.", ""]
    if own.without_effect:
        lines += [f"Options of lm-eval without effect: {_flags(own.without_effect)}.", ""]
    if own.refused:
        lines += [f"Refused, with what to do instead: {_flags(own.refused)}.", ""]
    return "\n".join(lines)


def _flags(names: Iterable[str]) -> str:
    return ", ".join(f"`--{name}`" for name in names)


def _row(dest: str, option: Option) -> str:
    spellings = [*option.aliases, *option.constants]
    also = f"; also {', '.join(f'`{flag}`' for flag in spellings)}" if spellings else ""
    text = meaning(option).replace("|", "\\|")
    return f"| `{label(dest, option)}` | {text}{also} |".replace("`METHOD|", "`METHOD\\|")


if __name__ == "__main__":
    print(page(), end="")
