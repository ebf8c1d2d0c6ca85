"""Progress of long work within a stage."""

from __future__ import annotations

from assay.run.events import Event, Progressed, delayed_report, with_progress


def heard_events(*reports: tuple[float, int]) -> list[int]:
    """How much was done at the events that come of reports of (seconds, done) of 10."""
    events: list[Event] = []
    times = iter([seconds for seconds, _ in reports])
    report = delayed_report(events.append, lambda: next(times))
    for _, done in reports:
        report("resamples", done, 10)
    assert all(isinstance(event, Progressed) and event.total == 10 for event in events)
    return [event.done for event in events if isinstance(event, Progressed)]


def test_short_work_is_silent() -> None:
    assert heard_events((0.0, 0), (1.0, 5), (1.9, 10)) == []
    assert heard_events((0.0, 0), (2.4, 9), (2.7, 10)) == []


def test_long_work_is_shown_a_few_times_a_second_and_to_its_end() -> None:
    assert heard_events((0.0, 0), (1.0, 1), (2.5, 2), (2.6, 3), (3.0, 4), (3.1, 10)) == [2, 4, 10]


def test_items_pass_through_and_are_reported_now_and_then() -> None:
    heard: list[tuple[str, int, int]] = []
    items = list(range(100))
    assert list(with_progress(items, "scoring", lambda *report: heard.append(report))) == items
    assert heard == [("scoring", 0, 100), ("scoring", 64, 100), ("scoring", 100, 100)]
