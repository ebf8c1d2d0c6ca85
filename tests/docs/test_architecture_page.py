"""The map of the code: its tree names every folder of the source, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def drawn_folders() -> list[str]:
    """The folders of the tree, as paths: two blanks of indentation are one level."""
    tree = re.search(r"```\nsrc/assay/ .*?\n(.*?)```", PAGE, re.DOTALL)
    assert tree is not None
    path: list[str] = []
    found = []
    for line in tree.group(1).splitlines():
        drawn = re.fullmatch(r"( +)(\w+)/ +\S.*", line)
        assert drawn is not None, f"not a folder with a purpose: {line}"
        path = [*path[: len(drawn.group(1)) // 2 - 1], drawn.group(2)]
        found.append("/".join(path))
    return found


def folders_of_the_source() -> list[str]:
    """Folders with modules, and those that hold the data of a package, as one."""
    source = ROOT / "src" / "assay"
    packages = {path.parent.relative_to(source).as_posix() for path in source.rglob("*.py")}
    data = {f"tasks/{path.parent.name}" for path in source.glob("tasks/library/*") if path.is_dir()}
    return sorted((packages | data) - {"."})


def test_the_tree_names_every_folder_and_nothing_else() -> None:
    assert sorted(drawn_folders()) == folders_of_the_source()


def test_modules_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / "src" / "assay" / name).is_file()] == []
