"""Signals that end the measuring, not the study."""

import signal
import threading

import pytest

from joulelab.errors import ConfigError
from joulelab.study.run import Interruption


def interrupt(number=signal.SIGINT):
    signal.raise_signal(number)  # to this thread, at once: another one may take its time


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_a_later_one_interrupts(number, monkeypatch, heeded):
    with Interruption() as interruption:
        assert not interruption.noted
        interrupt(number)
        assert interruption.noted
        interrupt(number)  # still the same, sent twice
        monkeypatch.setattr("joulelab.study.run._ONE_S", 0.0)
        with pytest.raises(KeyboardInterrupt):
            interrupt(number)


def test_handlers_are_those_of_before_once_it_is_left():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    with Interruption():
        assert signal.getsignal(signal.SIGTERM) != before[1]

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            interrupt()
        assert not interruption.noted
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_it_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def enter():
        with Interruption():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert seen == [before]


def test_what_cannot_be_concluded_after_a_signal_is_the_interruption(heeded):
    with Interruption() as interruption:
        interrupt()

    with pytest.raises(KeyboardInterrupt, match="no baseline"), interruption.excuses():
        raise ConfigError("no baseline")


def test_an_interruption_may_be_told_in_other_words_than_the_error(heeded):
    with Interruption() as interruption:
        interrupt()

    with pytest.raises(KeyboardInterrupt, match="Nothing yet"), interruption.excuses("Nothing yet"):
        raise ConfigError("no baseline")


def test_what_cannot_be_concluded_without_one_is_an_error():
    with pytest.raises(ConfigError), Interruption().excuses():
        raise ConfigError("no baseline")
