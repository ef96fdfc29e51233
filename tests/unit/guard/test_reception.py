"""Whom the guard hears when it can hear nobody else."""

import errno
import selectors
import time
from math import inf

from joulelab.guard.reception import Reception


def test_where_nobody_can_be_sent_away_newcomers_wait_for_a_moment(settings):
    with selectors.DefaultSelector() as selector:
        reception = Reception(
            selector,
            answer=lambda connection, line: {},
            holds=lambda connection: True,
            ended=lambda connection, cause: None,
        )
        reception.open(settings)

        before_s = time.monotonic()
        reception._make_room(OSError(errno.EMFILE, "Too many open files"))

        assert not selector.get_map()  # else it would be woken by them again and again
        assert before_s < reception.due_s < time.monotonic() + 1.0
        time.sleep(max(0.0, reception.due_s - time.monotonic()))
        reception.tend()
        assert len(selector.get_map()) == 1
        assert reception.due_s == inf
        reception.close("the end")
