"""Signals that are held back, and those that raise."""

from __future__ import annotations

import signal
import threading

import pytest

from assay.core.interrupts import Interrupted, defer_signals, exit_code, raise_on_signals, received_signal


def test_several_quick_signals_raise_once() -> None:
    raised = 0
    with raise_on_signals():
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            try:
                signal.raise_signal(number)
            except Interrupted:
                raised += 1
        assert (raised, received_signal()) == (1, signal.SIGINT)
    assert received_signal() is None


def test_the_exit_codes_are_those_of_shells() -> None:
    assert [exit_code(number) for number in (1, 2, 15)] == [129, 130, 143]


def test_a_signal_is_held_back_until_the_work_is_done() -> None:
    done = []
    with raise_on_signals(), pytest.raises(Interrupted), defer_signals(), defer_signals():
        signal.raise_signal(signal.SIGTERM)
        done.append("all of it")
    assert done == ["all of it"]


def test_pythons_own_handler_is_held_back_too() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    try:
        with pytest.raises(KeyboardInterrupt), defer_signals():
            signal.raise_signal(signal.SIGINT)
            done.append(1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [1]


def test_ignored_signals_stay_ignored_and_handlers_come_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raise_on_signals():
            signal.raise_signal(signal.SIGHUP)
            assert received_signal() is None
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    found = []

    def work() -> None:
        with raise_on_signals(), defer_signals():
            found.append(received_signal())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]
