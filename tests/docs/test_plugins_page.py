"""docs/plugins.md: its examples run one after the other, and work from an installed package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.models.model_registry import MODELS
from assay.scoring.registry import FILTERS, METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = '{"question": "2 + 2 =", "answer": "4"}\n{"question": "1 + 2 + 3 =", "answer": "6"}\n'
MOST_LINES = 40
NAMES = (
    (METRICS, "brief"),
    (METRICS, "choice_range"),
    (FILTERS, "last_number"),
    (MODELS, "counter"),
    (MODELS, "table"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's task file and its data; names that the page adds are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    (task,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "sums.yaml").write_text(task, encoding="utf-8")
    (tmp_path / "sums.jsonl").write_text(ROWS, encoding="utf-8")
    yield tmp_path
    for registry, name in NAMES:
        registry.remove(name)


def test_every_example_fits_on_one_screen() -> None:
    assert EXAMPLES
    assert [block for block in EXAMPLES if block.count("\n") > MOST_LINES] == []


def test_the_examples_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    for block in EXAMPLES:
        exec(block, scope)
    printed = capsys.readouterr().out.split()
    assert printed[1:] == ["1.0", "1.0"] and float(printed[0]) > 0
    for name in [name for name in scope if name.startswith("test_")]:
        scope[name]()
    result = assay.evaluate("table", scope["little_sums"], store=":memory:")
    assert result.tasks[0].metric("exact_match").estimate.value == 0.5


def test_the_examples_work_as_a_package(folder: Path) -> None:
    info = folder / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    points = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", toml[toml.index("[project.entry") :])
    (info / "entry_points.txt").write_text(points.replace('"', ""), encoding="utf-8")
    lines = [line for block in EXAMPLES[:-1] for line in block.splitlines() if not line.startswith(("print", "result"))]
    own = "\n".join(line for line in lines if not line.startswith("counted"))
    (folder / "site" / "acme_plugins.py").write_text("from __future__ import annotations\n" + own, encoding="utf-8")
    (command,) = re.findall(r"^    assay (run .*)$", PAGE, re.MULTILINE)
    script = (
        f"import sys; sys.path.insert(0, 'site'); from assay.cli.main import main; sys.exit(main({command.split()}))"
    )
    code = script.replace("'run',", "'run', '--store', 'runs.db',")
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "acme/little_sums" in done.stdout and "acme/brief" in done.stdout


def test_the_examples_are_typed() -> None:
    trees = [node for block in EXAMPLES for node in ast.walk(ast.parse(block))]
    functions = [node for node in trees if isinstance(node, ast.FunctionDef)]
    parameters = [item for node in functions for item in (*node.args.args, *node.args.kwonlyargs)]
    assert [node.name for node in functions if node.returns is None] == []
    assert {item.arg for item in parameters if item.annotation is None} == {"self"}


def test_the_names_that_it_mentions_exist() -> None:
    assert [name for name in re.findall(r"\bassay\.([A-Z]\w+)", PAGE) if name not in assay.__all__] == []
