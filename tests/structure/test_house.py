"""The house rules that a reader relies on, checked on the source itself."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import assay

SOURCE = Path(assay.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = [path.relative_to(SOURCE).as_posix() for path in FILES]
MODULES = {"assay." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in NAMES}
MOST_LINES, MOST_FUNCTION_LINES, MOST_POSITIONAL = 600, 60, 6

HEAVY = ("torch", "transformers", "datasets", "pandas", "numpy", "scipy", "rich", "yaml", "jinja2", "pyarrow")
# Package → the places that may import it: a file, or a folder with a slash.
HOMES = {
    "torch": ("models/",),
    "transformers": ("models/",),
    "accelerate": ("models/training/",),
    "peft": ("models/training/",),
    "torchao": ("models/loading/quantization.py",),
    "tokenizers": ("models/",),
    "safetensors": ("models/",),
    "gguf": ("models/",),
    "datasets": ("data/sources.py", "data/download.py"),
    "sqlite3": ("store/",),
    "rich": ("report/",),
    "scipy": ("stats/",),
    "matplotlib": ("report/figures/",),
    "sacrebleu": ("scoring/metrics/corpus.py",),
    "rouge_score": ("scoring/scorers/generated_answer.py",),
    "evaluate": ("scoring/metrics/hf_evaluate.py",),
}
# These cost seconds to import, or are optional: never at the top of a module.
INSIDE_FUNCTIONS = (
    "torch",
    "transformers",
    "accelerate",
    "peft",
    "torchao",
    "datasets",
    "pandas",
    "scipy",
    "gguf",
    "pyarrow",
    "matplotlib",
    "sacrebleu",
    "rouge_score",
    "sklearn",
    "evaluate",
)
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


@cache
def trees() -> dict[str, ast.Module]:
    """Every module, parsed; not while tests are collected, which every process does."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in zip(NAMES, FILES, strict=True)}


def imported(node: ast.AST) -> list[str]:
    """Top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "").partition(".")[0]]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def walk(node: ast.AST, into_functions: bool) -> Iterator[ast.AST]:
    """Every node below, without what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        if not into_functions and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from walk(child, into_functions)


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_there_is_a_house() -> None:
    assert len(FILES) > 80
    assert {"api.py", "core/identity.py", "run/session.py"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_says_what_it_is(name: str) -> None:
    text = ast.get_docstring(trees()[name])
    assert text, f"{name} has no docstring"
    assert text.split("\n")[0].strip().endswith((".", ":", "?", "…")), f"{name}: the first line is no sentence"


def test_every_room_has_a_card() -> None:
    cards = [name for name in NAMES if name.count("/") == 1 and name.endswith("__init__.py")]
    assert {"core/__init__.py", "models/__init__.py", "testing/__init__.py"} <= set(cards)
    missing = [name for name in cards if not re.search("May import|Imports", ast.get_docstring(trees()[name]) or "")]
    assert missing == []


def test_no_file_is_too_long() -> None:
    sizes = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in zip(NAMES, FILES, strict=True)}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    sizes = {
        f"{name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, tree in trees().items()
        for node in functions(tree)
    }
    assert {name: size for name, size in sizes.items() if size > MOST_FUNCTION_LINES} == {}


def test_a_dependency_has_one_home() -> None:
    strays = [
        f"{name} imports {package}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        for package in imported(node)
        if package in HOMES and not name.startswith(HOMES[package])
    ]
    assert strays == []


def test_heavy_imports_are_inside_functions() -> None:
    strays = [
        f"{name}:{node.lineno} imports {package}"  # type: ignore[attr-defined]
        for name, tree in trees().items()
        for node in walk(tree, into_functions=False)
        for package in imported(node)
        if package in INSIDE_FUNCTIONS
    ]
    assert strays == []


def private_names(tree: ast.AST) -> list[str]:
    """Names with a leading underscore that a module takes from another of the house, imported or looked up in it."""
    froms = [
        (node, alias)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.level > 0 or imported(node) == ["assay"])
        for alias in node.names
    ]
    modules = {alias.asname or alias.name for node, alias in froms if f"{node.module}.{alias.name}" in MODULES}
    names = [alias.name for _, alias in froms]
    names += [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules
    ]
    return [name for name in names if name.startswith("_") and not name.endswith("__")]


def test_a_private_name_stays_in_its_module() -> None:
    assert {name: found for name, tree in trees().items() if (found := private_names(tree))} == {}


@pytest.mark.parametrize(
    "code",
    [
        "from assay.api import _split_tasks",
        "from .api import _split_tasks",
        "def f():\n    from assay.core import errors as faults\n    faults._split_tasks()",
    ],
)
def test_this_check_of_private_names_can_fail(code: str) -> None:
    assert private_names(ast.parse(code)) == ["_split_tasks"]


def crowded_calls(tree: ast.AST) -> list[str]:
    """Calls with too many positional arguments to read."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [f"{node.lineno}: {ast.unparse(node.func)}" for node in calls if len(node.args) > MOST_POSITIONAL]


def test_a_call_with_many_arguments_names_them() -> None:
    assert {name: found for name, tree in trees().items() if (found := crowded_calls(tree))} == {}


def test_this_check_of_calls_can_fail() -> None:
    assert crowded_calls(ast.parse("f(1, 2, 3, 4, 5, 6, g=7)\nf(1, 2, 3, 4, 5, 6, 7)")) == ["2: f"]


def test_no_test_patches_our_own_code() -> None:
    """Where a name is replaced, it is another package's; ours take parameters."""
    ours = re.compile(r"""setattr\(\s*(?:f?["']assay\.|room\b)|patch\(\s*["']assay\.""")
    files = [path for path in (Path(__file__).parents[1]).rglob("*.py") if path != Path(__file__)]
    assert [path.name for path in files if ours.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_is_pickled_or_evaluated() -> None:
    strays = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            found = FORBIDDEN_MODULES & set(imported(node))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                found = {node.func.id}
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.load":
                found = {"torch.load"}
            strays += [f"{name}: {item}" for item in found]
    assert strays == []


def test_no_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "common", "helpers", "misc", "manager"}
    assert [name for name in NAMES if drawers & set(name.removesuffix(".py").split("/"))] == []


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nprint(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_assay_loads_nothing_heavy() -> None:
    assert loaded_by("import assay; assay.Loglikelihood('a', 'b')") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(f"from assay.cli.main import main; main({arguments!r})") == set()


def test_this_check_of_loaded_packages_can_fail() -> None:
    assert loaded_by("import numpy") == {"numpy"}
