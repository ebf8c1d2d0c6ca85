"""Parses the command line of a command: argparse built from the table, our format of errors, values as settings.

Takes the words after the command's name; returns its options, with the settings of a run as keyword arguments of the
public functions, and notices for the user. Help is printed here, before anything else is loaded.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.training import parse_fit_spec
from assay.options.commands import Command
from assay.options.option import ANY, OPTIONAL, REPEAT, SWITCH, WORDS, Option
from assay.options.table import Settings, setting_options, training_options

# Commands that evaluate or train models, that serve one, and on recorded runs and files; their options load on demand.
_EVALUATING = ("probe", "run", "plan", "matrix", "finetune", "methods", "show")
_RECORDED = ("rescore", "compare", "explain", "plot", "check", "data", "store", "task", "ls")
_SERVING = ("serve",)
NAMES = (*_EVALUATING, *_SERVING, *_RECORDED)
HELP, HELP_ALL = ("-h", "--help"), "--help_all"
# argparse's message for a value of the wrong type, and our names of the types.
_ILL_TYPED = re.compile(r"argument (--\w+)\S*: invalid (int|float) value: '(.*)'")
_NUMBERS = {"int": "a whole number", "float": "a number"}


class Finished(SystemExit):
    """Raised after help was printed, to end the program."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A parsed command line.

    Attributes:
        options: all options of the command; those that were not given have their initial values.
        settings: the settings of a run that were given.
        training: the settings of training that were given one by one.
        notices: notices for the user.
    """

    options: argparse.Namespace
    settings: Settings
    training: dict[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


class _Parser(argparse.ArgumentParser):
    """argparse with our format of errors; reports unknown options before missing ones: often the same typo."""

    refused: Mapping[str, str] = {}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known = self._option_string_actions
        given = list(args or ())
        given = given[: given.index("--")] if "--" in given else given
        names = [argument.partition("=")[0] for argument in given if argument.startswith("--")]
        faults = [self._unknown(name) for name in names if name not in known and " " not in name]
        if faults:
            raise UserError(*faults)
        return super().parse_known_args(args, namespace)

    def _unknown(self, flag: str) -> Fault:
        if flag[2:] in self.refused:
            return Fault(flag, f"is not an option of {self.prog}", next=self.refused[flag[2:]])
        from assay.options.hints import option_hint

        hint = option_hint(flag, self._option_string_actions)
        return Fault(flag, f"unknown option{hint}", next=f"See: {self.prog} --help")

    def error(self, message: str) -> Any:
        advice = f"See: {self.prog} --help"
        found = _ILL_TYPED.fullmatch(message)
        if found is not None:
            flag, kind, value = found.groups()
            raise UserError(Fault(flag, f'is "{value}"', _NUMBERS[kind], advice))
        raise UserError(Fault("", message, next=advice))


@cache
def command(name: str) -> Command:
    """A command by name."""
    if name in _EVALUATING:
        from assay.options.evaluation_commands import MAKERS
    elif name in _SERVING:
        from assay.options.serving_commands import MAKERS
    else:
        from assay.options.record_commands import MAKERS
    return MAKERS[name]()


def make_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a command. Options that are not given are absent from its namespace."""
    own = command(name)
    parser = _Parser(prog=f"assay {name}", add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.refused = own.refused
    parser.add_argument(*HELP, HELP_ALL, action="store_true")
    for dest, option in own.options.items():
        _add(parser, dest, option)
    return parser


def flags_of(name: str, option: Option) -> tuple[str, ...]:
    """The spellings of an option, the usual one first."""
    return (option.flag or f"--{name}", *([option.short] if option.short else []), *option.aliases)


_NARGS = {OPTIONAL: "?", WORDS: "+", ANY: "*"}


def _add(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    more: dict[str, Any] = {}
    if option.takes in _NARGS:
        more["nargs"] = _NARGS[option.takes]
    if option.takes == OPTIONAL and not option.is_positional:
        more["const"] = option.constant
    if option.type is not None:
        more["type"] = option.type
    if option.is_positional:
        parser.add_argument(name, metavar=option.metavar, **more)
        return
    if option.takes == SWITCH:
        more["action"] = "store_true"
    elif option.takes == REPEAT:
        more["action"] = "append"
    elif option.takes == WORDS:
        more["action"] = "extend"
    parser.add_argument(*flags_of(name, option), dest=name, required=option.is_required, **more)
    for flag, value in option.constants.items():
        parser.add_argument(flag, dest=name, action="store_const", const=value)


def parse_command(name: str, arguments: Sequence[str]) -> CommandLine:
    """The options of a command.

    Args:
        name: the command.
        arguments: the words after it, with `_` in the names of options.
    """
    own, parser = command(name), make_parser(name)
    if {*HELP, HELP_ALL} & {*arguments[: _end(arguments)]}:
        _print_help(name, own, arguments)
        raise Finished(0)
    notices: tuple[str, ...] = ()
    if "config" in own.options and _flags_in(arguments) & {*flags_of("config", own.options["config"])}:
        from assay.options.config_file import with_config

        configured = with_config(parser, arguments, own.refused)
        arguments, notices = configured.arguments, configured.notices
    given = vars(parser.parse_args(_with_default_model(own, arguments)))
    read = {dest: _read(dest, own.options[dest], value) for dest, value in given.items()}
    return _command_line(own, read, notices)


def _end(arguments: Sequence[str]) -> int:
    return list(arguments).index("--") if "--" in arguments else len(arguments)


def _print_help(name: str, own: Command, arguments: Sequence[str]) -> None:
    from assay.options.help import help_text

    width = shutil.get_terminal_size().columns
    sys.stdout.write(help_text(name, own, everything=HELP_ALL in arguments, width=width))


def _flags_in(arguments: Sequence[str]) -> set[str]:
    """The flags of a command line, without their values: `--limit`, `-L`."""
    return {word.partition("=")[0] if word.startswith("--") else word[:2] for word in arguments}


def _with_default_model(own: Command, arguments: Sequence[str]) -> list[str]:
    """The words with `--model hf` if there are model arguments but no model, as in lm-eval."""
    option, names = own.options.get("model"), _flags_in(arguments)
    if option is None or not option.is_required or not names & {"--model_args", "-a"}:
        return list(arguments)
    return list(arguments) if names & set(flags_of("model", option)) else ["--model", "hf", *arguments]


def _read(name: str, option: Option, value: Any) -> Any:
    """The value of an option from its words."""
    if isinstance(value, str):
        value = option.synonyms.get(value, value)
    if option.choices and value not in option.choices:
        where = f"{option.metavar or name}" if option.is_positional else flags_of(name, option)[0]
        found = f'is "{value}"{did_you_mean(str(value), option.choices)}'
        raise UserError(Fault(where, found, "one of " + ", ".join(option.choices)))
    is_constant = option.takes == OPTIONAL and value is option.constant and not isinstance(value, str)
    return value if option.read is None or is_constant else option.read(value)


def _command_line(own: Command, given: Mapping[str, Any], notices: Sequence[str]) -> CommandLine:
    """Splits the values into settings of a run, settings of training, ignored options of lm-eval, and the rest."""
    lines = [f"--{name} has no effect: {reason}" for name, reason in own.without_effect.items() if name in given]
    training = {name: given[name] for name in training_options() if name in given}
    if training:
        parse_fit_spec(training, "")  # an invalid value is an error before anything is loaded
    initial = {name: (False if option.takes == SWITCH else option.initial) for name, option in own.options.items()}
    options = argparse.Namespace(**{**initial, **given})
    return CommandLine(options, _settings(given, training), training, (*notices, *lines))


def _settings(given: Mapping[str, Any], training: Mapping[str, Any]) -> Settings:
    """The settings of a run that were given, as keyword arguments of the public functions."""
    found = {name: given[name] for name in setting_options() if name in given}
    if "family" in given:
        found["model_args"] = {**found.get("model_args", {}), "family": given["family"]}
    if "trust_package" in given:
        found.setdefault("allow_code", given["trust_package"])
    if training or "finetune" in found:
        from assay.options.specification import training_settings

        found["finetune"] = {**(training_settings(found.get("finetune")) or {}), **training}
    return cast(Settings, found)
