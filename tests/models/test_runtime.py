"""Waiting of OpenMP threads is configured once, before torch is imported, and never overrides the user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = (
    "import os{extra}; from assay.models.runtime import wait_briefly; wait_briefly(); print(os.environ.get('{name}'))"
)


def message(extra: str = "", name: str = "GOMP_SPINCOUNT", **settings: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = CODE.format(extra=extra, name=name)
    return subprocess.run(
        [sys.executable, "-c", code], env={**environment, **settings}, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_threads_wait_briefly() -> None:
    assert message() == "20000"


@pytest.mark.parametrize(
    ("settings", "expected"), [({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_the_users_setting_wins(settings: dict[str, str], expected: str) -> None:
    assert message(**settings) == expected


def test_nothing_changes_once_torch_is_imported() -> None:
    assert message(extra=", sys; sys.modules['torch'] = sys") == "None"
