"""Searches off the main thread: an endless one is an error, any other passes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

from assay.core.errors import LimitError
from assay.core.specs import FilterSpec
from assay.guard.regex import check_search_time
from assay.guard.time_limit import TimeLimitExceeded
from assay.scoring.registry import make_filter

ENDLESS = re.compile(r"(a+)+$")
TEXT = "a" * 60 + "b"


def elsewhere(work: Callable[[], object]) -> object:
    """What work gives or raises on another thread."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(100)
    return found[0]


def test_an_endless_search_of_another_thread_is_an_error() -> None:
    assert isinstance(elsewhere(lambda: check_search_time(ENDLESS, TEXT, 0.3)), TimeLimitExceeded)


def test_searches_go_on_after_an_endless_one() -> None:
    texts = ["", "aab", "é\nü" * 1000, "\ud800"]
    for _ in range(2):
        assert [
            elsewhere(lambda text=text: check_search_time(re.compile("(?i)(A+)b|ü", re.S), text)) for text in texts
        ] == [None] * 4
        assert isinstance(elsewhere(lambda: check_search_time(ENDLESS, TEXT, 0.3)), TimeLimitExceeded)


def test_the_main_thread_needs_no_rehearsal() -> None:
    check_search_time(ENDLESS, TEXT, 0.1)


def test_a_filter_gives_the_same_on_another_thread_or_an_error() -> None:
    step = make_filter(FilterSpec("regex", {"regex_pattern": r"(a+)+$"}), "t")
    assert elsewhere(lambda: step([["baa"]], {})) == [["aa"]]
    with pytest.raises(LimitError, match="takes more than 5 seconds"):
        raise_found(elsewhere(lambda: step([[TEXT]], {})))


def raise_found(found: object) -> None:
    if isinstance(found, Exception):
        raise found
