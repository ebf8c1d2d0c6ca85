"""The commands of docs/data.md run, against a hub on loopback; its layout is what they make."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
ROW = {
    "activity_label": "Cooking",
    "ctx_a": "She cuts.",
    "ctx_b": "then",
    "endings": ["a", "b", "c", "d"],
    "label": "1",
}


def rows(*texts: str) -> list[dict[str, Any]]:
    return [{**ROW, "ctx_a": text} for text in texts]


def test_the_commands_run(fake_hub: Any, tmp_path: Path) -> None:
    fake_hub.add("Rowan/hellaswag", train=rows("A", "B", "C"), validation=rows("D", "E", "F", "G"), test=rows("H"))
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    online = {**fake_hub.environment(tmp_path / "home"), "ASSAY_STORE": str(tmp_path / "store.db")}
    offline = {**online, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "other")}
    shown = []
    for block, environment in zip(blocks, (online, offline, offline), strict=True):
        for line in block.strip().splitlines():
            done = subprocess.run(line, shell=True, env=environment, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            shown.append(done.stdout)
    assert (
        "note: hellaswag: 4 of 10,042 official rows of `validation`, 3 of 39,905 official rows of `train`"
        in "".join(shown)
    )
    listed = re.search(r"```text\n(datasets/.*?)```", PAGE, re.DOTALL)
    made = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "datasets").rglob("*.*"))
    assert listed is not None and listed[1].split() == made
