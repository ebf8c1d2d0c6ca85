"""What messages advise exists: commands, their options, public functions, their arguments, pages of the docs."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import assay
from assay.cli.main import COMMANDS
from assay.options.parser import make_parser
from assay.options.table import Settings

SOURCE = Path(assay.__file__).parent
DOCS = SOURCE.parent.parent / "docs"
_COMMAND = re.compile(r"\bassay (" + "|".join(COMMANDS) + r")\b([^;.]*(?:\.\w[^;.]*)*)")
_ANY_COMMAND = re.compile(r"(?:See: |Run: |`)assay ([a-z]+)\b")
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z_]+)")
_CALL = re.compile(r"assay\.([a-z_]+)\(((?:[^()]|\([^()]*\))*)\)?")
_KEYWORD = re.compile(r"\b([a-z_]+)=")
_PAGE = re.compile(r"docs/([\w/-]+\.md)")
_EVERYWHERE = {"help", "version", "debug"}
# Words with two dashes that are no options of ours: of other tools, and of style sheets.
_OTHER_TOOLS = re.compile(r"\b(?:python -m ensurepip|pip|wandb artifact|hf upload) [^;)]*")
_NOT_OURS = ("var(--", ":root")


def texts(tree: ast.AST) -> Iterator[str]:
    """Every string of a module but its docstrings; what an f-string fills in is `…`."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (documented | inside):
            yield node.value


def message() -> list[tuple[str, str]]:
    """Every string of the source that people may read, with its file."""
    return [
        (path.relative_to(SOURCE).as_posix(), text)
        for path in sorted(SOURCE.rglob("*.py"))
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if " " in text and not any(mark in text for mark in _NOT_OURS)
    ]


@cache
def options(command: str) -> frozenset[str]:
    return frozenset(name[2:] for name in make_parser(command)._option_string_actions if name.startswith("--"))


EVERY_OPTION = frozenset().union(*map(options, COMMANDS)) | _EVERYWHERE


def wrong_advice(text: str) -> list[str]:
    """What a text names and there is not."""
    text = _OTHER_TOOLS.sub("", text)
    wrong = [f"assay {name}" for name in _ANY_COMMAND.findall(text) if name not in COMMANDS]
    wrong += [f"--{name}" for name in _FLAG.findall(text) if name not in EVERY_OPTION]
    for command, rest in _COMMAND.findall(text):
        known = options(command) | _EVERYWHERE
        wrong += [f"assay {command} --{name}" for name in _FLAG.findall(rest) if name not in known]
    for name, arguments in _CALL.findall(text):
        wrong += _wrong_call(name, arguments)
    wrong += [f"docs/{page}" for page in _PAGE.findall(text) if not (DOCS / page).exists()]
    return wrong


def _wrong_call(name: str, arguments: str) -> list[str]:
    if name not in assay.__all__:
        return [f"assay.{name}"]
    known = {*inspect.signature(getattr(assay, name)).parameters, *Settings.__annotations__}
    return [f"assay.{name}({word}=)" for word in _KEYWORD.findall(arguments) if word not in known]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_options(command: str) -> None:
    assert "help" in options(command)


def test_all_that_messages_advise_exists() -> None:
    assert [f"{file}: {text!r} names {wrong}" for file, text in message() if (wrong := wrong_advice(text))] == []


def test_enough_is_looked_at() -> None:
    read = [text for _, text in message()]
    assert sum(bool(_FLAG.search(text)) for text in read) > 100
    assert sum("From Python" in text for text in read) >= 3


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("See: assay lst tasks", ["assay lst"]),
        ("Add --limits 3", ["--limits"]),
        ("assay compare A B --metrix acc", ["--metrix", "assay compare --metrix"]),
        ("From Python: assay.rescore('a', taskz=[x])", ["assay.rescore(taskz=)"]),
        ("From Python: assay.rescor('a')", ["assay.rescor"]),
        ("see docs/nothing.md", ["docs/nothing.md"]),
        ("See: assay ls tasks; assay compare A B --metric acc; --limit", []),
    ],
)
def test_this_check_can_fail(text: str, wrong: list[str]) -> None:
    assert wrong_advice(text) == wrong
