"""Reports of long work."""

from __future__ import annotations

from assay.core.progress import with_progress


def test_items_pass_through_and_are_reported_now_and_then() -> None:
    heard: list[tuple[str, int, int]] = []
    items = list(range(100))
    assert list(with_progress(items, "scoring", lambda *report: heard.append(report))) == items
    assert heard == [("scoring", 0, 100), ("scoring", 64, 100), ("scoring", 100, 100)]
