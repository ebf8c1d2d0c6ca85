"""docs/suites.md: its example runs, its keys are those of the code, its suites those of the library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from assay.tasks.catalog import LIBRARY
from assay.tasks.lm_eval.file.score_key import MEMBER_KEYS, SCORE_KEYS

PAGE = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_suite.yaml").write_text(example)
    script = re.sub(r"^assay ", f"{sys.executable} -m assay ", commands, flags=re.MULTILINE)
    environment = {**os.environ, "ASSAY_STORE": str(tmp_path / "store.db"), "COLUMNS": "140"}
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "no faults" in done.stdout and re.search(r"my_suite +average", done.stdout)
    assert "demo_questions@olmes-mcf 40 of 120" in re.sub(r"\s+", " ", done.stdout + done.stderr)


def test_every_key_and_suite_is_in_its_table() -> None:
    listed = {name for row in re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)}
    assert {*SCORE_KEYS, *MEMBER_KEYS} <= listed
    assert {path.stem for path in (LIBRARY / "suites").glob("*.yaml")} <= listed
