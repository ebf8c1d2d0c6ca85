"""The sub-layers of `assay.models` import downwards only, lazy imports included."""

from __future__ import annotations

import ast
from pathlib import Path

import assay.models

ROOM = Path(assay.models.__file__).parent
# From top to bottom, as in the docstring of `assay.models`; siblings do not import each other.
LAYERS = (
    ("model_decorator",),
    ("model_registry", "aliases"),
    ("hf", "http", "ngram", "dummy"),
    ("engine", "training"),
    ("inference",),
    ("loading",),
    ("tokens",),
    ("download",),
    ("runtime",),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
INSIDE_A_LAYER = {("model_registry", "aliases")}


def imported_layers(path: Path) -> set[str]:
    modules = [node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    return {module.split(".")[2] for module in modules if module.startswith("assay.models.")}


def test_every_module_belongs_to_a_layer() -> None:
    names = {path.stem for path in ROOM.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert names - {"__init__"} == set(LEVELS)


def test_imports_go_down() -> None:
    edges = {
        (path.relative_to(ROOM).parts[0].removesuffix(".py"), target)
        for path in ROOM.rglob("*.py")
        for target in imported_layers(path)
    }
    upward = {(own, other) for own, other in edges if own != other and LEVELS[other] <= LEVELS[own]}
    assert upward == INSIDE_A_LAYER
    assert ("hf", "engine") in edges
