"""What every test has: time for property tests, no secrets of an earlier test, and no width of anyone's terminal.

Where several processes run tests side by side, torch has one thread in each: more would wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from assay.core.secrets import forget

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("COLUMNS", None)  # set by xdist; the tests that want a width say so

settings.register_profile("house", deadline=None)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def no_known_secrets() -> Iterator[None]:
    """Tests share a process, and what is known as a secret is known to all of it."""
    forget()
    yield
    forget()
