"""docs/statistics.md is tested: its files exist, its methods are those of the code, its levels the exact ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `bench` is a tool beside Assay, not installed
    sys.path.insert(0, str(ROOT))

from bench.levels import pairs, scores  # noqa: E402
from bench.levels.__main__ import SECTIONS, percent  # noqa: E402

PAGE = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/assay").rglob("*.py")))


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title, without its head."""
    _, _, below = PAGE.partition(f"{title}")
    lines = below.split("\n\n")[1].split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_files_named_exist() -> None:
    files = set(re.findall(r"`(tests/[\w/.]+)`", PAGE))
    assert len(files) >= 15
    assert [name for name in files if not (ROOT / name).is_file()] == []
    pages = re.findall(r"\]\(([\w./-]+\.md)\)", PAGE)
    assert pages and all((ROOT / "docs" / page).is_file() for page in pages)


def test_methods_named_are_those_of_the_code() -> None:
    methods = [name for row in re.findall(r"^\| [^|]+ \| (`[^|]+) \|", PAGE, re.MULTILINE) for name in row.split(", ")]
    known = [name.strip("`") for name in methods]
    assert len(known) >= 18
    parts = {name: name.removeprefix("log-") for name in known if name.startswith("log-")}  # of `means.exponential`
    assert '"log-" +' in SOURCE
    assert [name for name in known if f'"{parts.get(name, name)}"' not in SOURCE] == []


def test_methods_of_the_code_are_named() -> None:
    written = re.findall(r'"([a-z-]+)", (?:level=)?(?:means\.)?LEVEL', SOURCE) + re.findall(
        r'empty_estimate\("([a-z-]+)"\)', SOURCE
    )
    in_clusters = re.findall(r'"([a-z-]+-clusters|clustered-[a-z]+)"', SOURCE)
    methods = {*written, *in_clusters, "log-clustered-delta", "finite-wilson-t", "difference-newcombe"}
    assert len(methods) >= 17
    assert [name for name in sorted(methods) if f"`{name}`" not in PAGE] == []


def test_the_table_of_shares_has_the_exact_coverage() -> None:
    found = rows("Shares of right answers (`wilson`)")
    assert [float(row[0]) for row in found] == list(scores.SHARES)
    for row in found:
        for n, cell in ((30, row[1]), (100, row[3])):
            assert cell == percent(scores.exact_share_coverage(n, float(row[0])))
        assert row[2] == percent(scores.share_coverage(30, float(row[0])).share)


def test_the_table_of_false_findings_has_the_exact_levels() -> None:
    for n, share, expected, exact, _, midp, _ in rows("False findings at 5 % between equal runs"):
        if int(n) > 100:  # the others take long
            continue
        discordance = float(share.strip("%")) / 100
        assert float(expected) == pytest.approx(int(n) * discordance)
        assert [exact, midp] == [percent(pairs.exact_level(test, int(n), discordance)) for test in ("exact", "midp")]


def test_every_table_of_the_command_is_on_the_page() -> None:
    assert "python -m bench.levels\n" in PAGE
    source = (ROOT / "bench/levels/__main__.py").read_text(encoding="utf-8")
    titles = re.findall(r'"([^"]*, (?:coverage )?in %)"', source)
    assert len(titles) >= len(SECTIONS) - 1
    assert [title for title in titles if f"\n{title}\n" not in PAGE] == []
