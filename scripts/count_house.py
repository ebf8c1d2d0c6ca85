"""Counts how far the code is spread: files that a command runs, modules per folder, import cycles, options, lines.

    python scripts/count_house.py [CHECKOUT] [--json]

Works on any checkout of Assay whose dependencies are installed, so that two revisions can be compared.
A file counts as executed when one of its functions is called (module and class bodies do not count).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Runs a command in its own process and prints the files it executed and the modules it imported.
TRACED = """
import json, sys, threading
source, arguments = sys.argv[1], sys.argv[2:]
files, ordinary = set(), 1  # CO_OPTIMIZED: functions have it, module and class bodies do not

def profile(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & ordinary and code.co_filename.startswith(source):
        files.add(code.co_filename)

sys.setprofile(profile)
threading.setprofile(profile)
from assay.cli.main import main
code = main(arguments)
sys.setprofile(None)
modules = sorted(name for name in sys.modules if name == "assay" or name.startswith("assay."))
print(json.dumps({"code": code, "executed": len(files), "imported": len(modules)}), file=sys.__stderr__)
"""

# Calls every command without arguments and prints how many options the largest of its parsers has.
OPTIONS = """
import argparse, json, sys
from assay.cli.main import COMMANDS, main
counts, parse = {}, argparse.ArgumentParser.parse_known_args

def options(parser):
    own = {item.option_strings[0] for item in parser._actions if item.option_strings}
    groups = [item.choices.values() for item in parser._actions if isinstance(item, argparse._SubParsersAction)]
    return (own - {"-h"}).union(*(options(sub) for group in groups for sub in group))

def counting(self, *args, **kwargs):
    counts[command] = max(counts.get(command, 0), len(options(self)))
    return parse(self, *args, **kwargs)

argparse.ArgumentParser.parse_known_args = counting
for command in COMMANDS:
    main([command])
print(json.dumps(counts), file=sys.__stderr__)
"""


def child(source: Path, code: str, *arguments: str) -> dict[str, Any]:
    """What a script of this file prints last, run with the checkout's code."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    loaded: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return loaded


def count_commands(source: Path) -> dict[str, dict[str, int]]:
    """Files executed and modules imported by two plain runs and a comparison of them."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        store = ["--store", str(Path(folder) / "store.db")]
        task = ["--tasks", "demo_questions", "--limit", "20"]
        commands = {
            "run": ["run", "--model", "ngram", *task],
            "run, generation": ["run", "--model", "dummy", "--tasks", "demo_scramble_cycle", "--limit", "20"],
            "run, other model": ["run", "--model", "dummy", *task],
            "compare": ["compare", "last~2", "last"],
        }
        for name, command in commands.items():
            counted = child(source, TRACED, str(source / "assay"), *command, *store)
            if counted["code"]:
                raise SystemExit(f"{' '.join(command)}: exit code {counted['code']}")
            found[name] = {"executed": counted["executed"], "imported": counted["imported"]}
    del found["run, other model"]
    return found


def module_name(source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Every name that a module imports, inside functions too, without what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package.rsplit(".", node.level - 1)[0] + "." if node.level else ""
            yield from (f"{start}{node.module or ''}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node, package)


def import_graph(source: Path) -> dict[str, set[str]]:
    """Module → modules of Assay that it imports, lazily or not; names in tables of strings do not count."""
    paths = {module_name(source, path): path for path in sorted((source / "assay").rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = set(imports(ast.parse(path.read_text(encoding="utf-8")), package))
        known = {item if item in paths else item.rpartition(".")[0] for item in found}
        graph[name] = {item for item in known if item in paths and item != name}
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            place = stack.index(node)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for node in graph:
        if node not in number:
            visit(node)
    return found


def folders(graph: Mapping[str, set[str]], source: Path) -> dict[str, int]:
    """Modules per folder with all below it, without `__init__`; the studies one by one."""
    counts: Counter[str] = Counter()
    for path in sorted((source / "assay").rglob("*.py")):
        if path.name == "__init__.py":
            continue
        parts = path.relative_to(source / "assay").parts
        counts[parts[0] if len(parts) > 1 else "."] += 1
        if parts[0] == "studies" and len(parts) > 2:
            counts[f"studies/{parts[1]}"] += 1
    return dict(sorted(counts.items()))


def count_lines(source: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in source.rglob("*.py"))


def count(checkout: Path) -> dict[str, Any]:
    """All counts of a checkout."""
    source = checkout / "src"
    graph = import_graph(source)
    names = Counter(path.stem for path in source.rglob("*.py") if path.stem not in ("__init__", "__main__"))
    return {
        "commands": count_commands(source),
        "modules": folders(graph, source),
        "modules in all": len(graph),
        "import cycles": cycles(graph),
        "file names used more than once": {name: times for name, times in sorted(names.items()) if times > 1},
        "options": child(source, OPTIONS),
        "lines": {"src": count_lines(source), "tests": count_lines(checkout / "tests")},
    }


def show(counts: Mapping[str, Any]) -> str:
    """The counts as lines of text."""
    lines = [
        f"{name}: {found['executed']} files executed, {found['imported']} modules imported"
        for name, found in counts["commands"].items()
    ]
    lines.append(f"modules: {counts['modules in all']}; " + _listed(counts["modules"]))
    lines.append(f"import cycles, lazy imports included: {len(counts['import cycles'])}")
    lines += ["  " + " ".join(cycle) for cycle in counts["import cycles"]]
    lines.append("file names used more than once: " + (_listed(counts["file names used more than once"]) or "none"))
    lines.append("options: " + _listed(counts["options"]))
    lines.append("lines: " + _listed(counts["lines"]))
    return "\n".join(lines)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1], help="default: this one")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    counts = count(options.checkout.absolute())
    print(json.dumps(counts, indent=1) if options.json else show(counts))


if __name__ == "__main__":
    main()
