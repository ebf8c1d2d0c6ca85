"""Errors for unknown names of tasks: what they suggest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.tasks.catalog import open_catalog
from assay.tasks.unknown_names import unknown_task


def said(name: str, *folders: Path) -> str:
    catalog = open_catalog(tuple(map(str, folders)))
    return str(unknown_task(name, catalog, list(catalog.entries)))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("musr", "leaderboard_musr"),
        ("mgsm", "mgsm_direct"),
        ("math", "minerva_math"),
        ("MedQA", "medqa_4options"),
        ("wmt14", "wmt14-en-fr"),
        ("arc_eazy", "arc_easy"),
        ("siqa", "social_iqa"),
        ("nq", "nq_open"),
    ],
)
def test_a_usual_name_a_part_of_a_name_or_a_misspelt_one_is_known(name: str, meant: str) -> None:
    assert f'unknown task "{name}" (did you mean "{meant}"' in said(name)


@pytest.mark.parametrize("name", ["humaneval", "humaneval_plus", "MBPP", "livecodebench"])
def test_benchmarks_of_code_need_a_sandbox(name: str) -> None:
    expected = f'no task "{name}": it is scored by running the code that a model writes, which needs a sandbox'
    assert expected in said(name)


def test_a_known_benchmark_of_code_is_suggested(write_yaml: Callable[..., Path]) -> None:
    path = write_yaml("mbpp_mine.yaml", "task: mbpp_mine\ndataset_path: json\n")
    assert 'unknown task "mbpp" (did you mean "mbpp_mine"' in said("mbpp", path.parent)
