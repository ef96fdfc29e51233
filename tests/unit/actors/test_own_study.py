"""Why a study beside a user's own Tuner ended, whatever the Tuner says of it."""

from threading import Event

import pytest

from joulelab.errors import DeviceError
from joulelab_actors.tune.own import _OwnStudy


class Queue:
    def __init__(self):
        self.is_closed = Event()

    def close(self):
        self.is_closed.set()


class Ended(_OwnStudy):
    """A study that ends for a reason of its own, if for any, once its Tuner has."""

    def __init__(self, reason):
        super().__init__(None, (), None)
        self.reason, self.queue = reason, Queue()

    def _measure(self):
        self._queue.set_result(self.queue)
        self.queue.is_closed.wait()
        if self.reason is not None:
            raise self.reason


def test_the_studys_reason_is_told_and_not_that_the_tuner_has_no_results():
    """`get_best_result()` said that no trial had reported, and the study's reason was lost."""
    gone = DeviceError("Every GPU is gone.")

    with pytest.raises(DeviceError, match="Every GPU is gone") as raised, Ended(gone).running():
        raise RuntimeError("No best trial found for the given metric: edp.")

    assert "No best trial" in str(raised.value.__cause__)


def test_an_error_of_the_users_own_is_told_where_the_study_has_none():
    with pytest.raises(RuntimeError, match="mine"), Ended(None).running():
        raise RuntimeError("mine")


def test_a_study_that_failed_is_an_error_though_the_tuner_had_results():
    with pytest.raises(DeviceError, match="gone"), Ended(DeviceError("gone")).running() as queue:
        assert not queue.is_closed.is_set()
