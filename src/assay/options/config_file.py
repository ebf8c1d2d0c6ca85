"""`--config FILE`: options of a run in a YAML file, as in lm-eval. The command line overrides the file.

Takes a parser and a command line; returns the command line with the file's options inserted before its own, so that
both are read by the same rules. Keys are names of options, with `-` or `_`; an unknown key is an error with its line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file, references

FLAGS = ("--config", "-C")
# Options whose list is one word with commas; the lists of other options are several words.
_JOINED = ("seed", "fewshot_seeds", "tasks", "metrics")


@dataclass(frozen=True, slots=True)
class Configured:
    """A command line with the options of its file, and notices about them."""

    arguments: list[str]
    notices: tuple[str, ...] = ()


def with_config(parser: argparse.ArgumentParser, arguments: Sequence[str], refused: Mapping[str, str]) -> Configured:
    """The command line with the options of the file that it names.

    Args:
        parser: the parser of the command.
        arguments: the command line, without the command's name.
        refused: options that the command does not have → what to do instead.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument(*FLAGS, dest="config", nargs="?", const="")
    found, rest = finder.parse_known_args(arguments)
    if found.config is None:
        return Configured(list(arguments))
    if not found.config:
        raise UserError(Fault(FLAGS[0], "is given without a file", "a YAML file with options of the command"))
    file = read_task_file(Path(found.config).expanduser())
    actions = _actions(parser)
    _check_keys(file, actions, refused)
    stated = {name: value for key, value in file.data.items() if (name := _option(key)) in actions}
    given = _given(parser, rest)
    words = [word for name, value in stated.items() if name not in given for word in _words(actions[name], value)]
    lost = [name for name in stated if name in given]
    notices = (f"{FLAGS[0]} {found.config}: the command line overrides {', '.join(lost)}",) if lost else ()
    return Configured([*words, *rest], notices)


def _option(key: Any) -> str:
    return str(key).replace("-", "_")


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Options of a command by name, without dashes."""
    known = {name[2:]: action for name, action in parser._option_string_actions.items() if name.startswith("--")}
    return {name: action for name, action in known.items() if name not in ("help", "help_all", "config")}


def _check_keys(file: TaskFile, known: Iterable[str], refused: Mapping[str, str]) -> None:
    names = list(known)
    faults = []
    for key in file.data:
        name = _option(key)
        if name in refused and not _is_empty(file.data[key]):
            faults.append(Fault(file.where(key), f'"{key}" is not an option of assay run', next=refused[name]))
        elif name not in (*names, *refused):
            found = f'unknown key "{key}"{did_you_mean(name, names)}'
            faults.append(Fault(file.where(key), found, next="See: assay run --help"))
    for path, reference in references(dict(file.data)):
        faults.append(Fault(file.where(*path), f'"{reference}" is code', "a value: text, number, boolean, list"))
    if faults:
        raise UserError(*faults)


def _given(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> set[str]:
    """Names of the options that a command line has, in all their spellings."""
    known = parser._option_string_actions
    words = [word.partition("=")[0] if word.startswith("--") else word[:2] for word in arguments]
    used = {id(known[word]) for word in words if word in known}
    return {name for name, action in _actions(parser).items() if id(action) in used}


def _words(action: argparse.Action, value: Any) -> list[str]:
    """An option of the file as words of a command line; no words for null, false and empty values."""
    flag = next(name for name in action.option_strings if name.startswith("--"))
    if isinstance(value, bool):
        if action.dest == "fewshot_as_multiturn":  # false is not the default there
            return [flag, str(value).lower()]
        return [flag] if value else []
    if _is_empty(value):
        return []
    if action.nargs == 0:
        raise UserError(Fault(f"{FLAGS[0]}, {flag[2:]}", f"is {value!r}", "true or false"))
    if not isinstance(value, list):
        return [f"{flag}={_word(value)}"]
    if action.dest in _JOINED:
        return [f"{flag}={','.join(map(_word, value))}"]
    if action.nargs in ("+", "*"):
        return [flag, *map(_word, value)]
    return [f"{flag}={_word(item)}" for item in value]


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, (Mapping, list)) and not value)


def _word(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)
