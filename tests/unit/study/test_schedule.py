"""Which GPU does which trial next."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.configuration import Configuration
from joulelab.core.point import OperatingPoint
from joulelab.core.trial import Trial
from joulelab.errors import ConfigError
from joulelab.study.schedule import Schedule, TrialSource


def trials(count, sentinels=()):
    """Return trials t0, t1, ...; the numbers ``sentinels`` are sentinels."""
    configuration = Configuration.of("idle")
    return [
        Trial(study="s", name=f"t{i}", configuration=configuration, sentinel=i in sentinels)
        for i in range(count)
    ]


def names(taken):
    return [trial.name for trial in taken]


def test_trials_go_out_in_the_order_of_the_plan():
    schedule = Schedule(trials(4), ["a", "b"])

    taken = [schedule.take(uuid) for uuid in ("a", "b", "b", "a")]

    assert names(taken) == ["t0", "t1", "t2", "t3"]


def test_what_comes_next_is_known_before_it_is_taken():
    schedule = Schedule(trials(2), ["a"])

    assert schedule.foresee("a") == schedule.foresee("a") == schedule.take("a")
    schedule.take("a")
    assert schedule.foresee("a") is None


class Growing(TrialSource):
    def __init__(self, more):
        self.more = more

    def take(self, uuid):
        return self.more.pop(0) if self.more else None

    @property
    def is_done(self):
        return not self.more


def test_what_waits_goes_out_before_the_source_is_asked_and_what_it_gives_is_planned():
    planned, *more = trials(3)
    schedule, source = Schedule([planned], ["a"]), Growing(more)

    taken = [schedule.take_next("a", source) for _ in range(4)]

    assert names(taken[:3]) == ["t0", "t1", "t2"]
    assert taken[3] is None
    assert names(schedule.unfinished) == ["t0", "t1", "t2"]


def test_a_trial_to_be_done_again_goes_first_and_to_another_gpu():
    schedule = Schedule(trials(3), ["a", "b"])
    failed = schedule.take("a")

    assert schedule.retry(failed, "a")

    assert schedule.take("a").name == "t1"
    again = schedule.take("b")
    assert (again.name, again.attempt) == ("t0", 1)


def test_a_trial_returns_to_its_gpu_if_there_is_no_other():
    schedule = Schedule(trials(1), ["a", "b"])
    schedule.retry(schedule.take("a"), "a")

    schedule.retire("b")

    assert schedule.take("a").attempt == 1


def test_a_trial_is_given_up_after_its_tries():
    schedule = Schedule(trials(1), ["a"], max_tries=3)

    outcomes = [schedule.retry(schedule.take("a"), "a") for _ in range(3)]

    assert outcomes == [True, True, False]
    assert schedule.unfinished == ()


def test_a_trial_that_was_not_begun_is_put_back_where_it_was_without_using_up_a_try():
    schedule = Schedule(trials(2), ["a"])
    first = schedule.take("a")

    schedule.put_back(first)

    assert schedule.take("a") == first


def test_a_resumed_trial_goes_on_counting_its_attempts():
    [trial] = trials(1)
    schedule = Schedule(
        [trial.__class__(study="s", name="t", configuration=trial.configuration, attempt=4)], ["a"]
    )

    schedule.retry(schedule.take("a"), "a")

    assert schedule.take("a").attempt == 5


def test_a_clock_goes_to_a_gpu_that_can_be_set_to_it_also_when_it_is_tried_again():
    """Of recorded boards each can be set to what it was recorded at."""
    low, high, free = (
        replace(
            trial, configuration=Configuration.of("idle", point=OperatingPoint(sm_clock_mhz=mhz))
        )
        for trial, mhz in zip(trials(3), (900, 1200, None), strict=True)
    )
    schedule = Schedule([high, low, free], ["a", "b"], clocks_mhz={"a": (900,), "b": (900, 1200)})

    assert [schedule.take("a"), schedule.take("b")] == [low, high]
    assert schedule.retry(high, "b")
    assert schedule.take("a") == free
    assert schedule.take("b").name == high.name


def test_failures_in_a_row_add_up_and_a_success_clears_them():
    schedule = Schedule(trials(1), ["a"], max_strikes=2)

    assert not schedule.strike("a")
    schedule.finish(schedule.take("a"), "a")
    assert not schedule.strike("a")
    assert schedule.strike("a")


def test_a_plan_can_grow_while_it_is_carried_out():
    [first, second] = trials(2)
    schedule = Schedule([first], ["a"])
    schedule.finish(schedule.take("a"), "a")

    schedule.add(second)

    assert schedule.take("a") == second
    with pytest.raises(ConfigError, match="'t0' is double"):
        schedule.add(first)


def test_a_gpu_that_is_not_tied_begins_with_a_sentinel_and_the_others_leave_it_one():
    schedule = Schedule(trials(6, sentinels=(1, 4)), ["a", "b", "c"], untied={"b", "c"})

    taken = [schedule.take(uuid) for uuid in ("a", "a", "b", "a", "c", "a")]

    assert names(taken) == ["t0", "t2", "t1", "t3", "t4", "t5"]


def test_sentinels_beyond_those_that_are_waited_for_keep_their_place():
    schedule = Schedule(trials(4, sentinels=(0, 2)), ["a", "b"], untied={"b"})

    assert names([schedule.take("a"), schedule.take("b")]) == ["t0", "t2"]


def test_no_sentinel_is_kept_for_a_gpu_that_is_out_of_service():
    schedule = Schedule(trials(1, sentinels=(0,)), ["a", "b"], untied={"b"})

    assert schedule.take("a") is None
    schedule.retire("b")

    assert schedule.take("a").name == "t0"


def test_two_trials_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="'t0' is double"):
        Schedule(trials(1) * 2, ["a"])


def of_products(*names):
    """Return trials t0, t1, ... for GPUs of these products."""
    return [replace(t, device_name=name) for t, name in zip(trials(9), names, strict=False)]


def test_a_gpu_is_given_trials_of_its_product_alone():
    schedule = Schedule(of_products("A", "A", "B", None), ["a", "b"], products={"a": "A", "b": "B"})

    taken = [schedule.take(uuid) for uuid in ("b", "b", "b", "a", "a", "a")]

    assert [t and t.name for t in taken] == ["t2", "t3", None, "t0", "t1", None]


def test_trials_of_other_products_are_not_looked_at(monkeypatch):
    """They come first in the plan, and each take of the second product went through all of them."""
    looked_at, may_do = [], Schedule._may_do

    def counted(schedule, waiting, uuid):
        looked_at.append(waiting)
        return may_do(schedule, waiting, uuid)

    monkeypatch.setattr(Schedule, "_may_do", counted)
    names = ["A100"] * 1000 + ["H100"] * 2
    plan = [replace(t, device_name=name) for t, name in zip(trials(1002), names, strict=True)]
    schedule = Schedule(plan, ["a", "h"], products={"a": "A100", "h": "H100"})

    taken = [schedule.take("h"), schedule.take("h")]

    assert taken == plan[-2:]
    assert len(looked_at) == 2


def test_a_trial_returns_to_its_gpu_if_all_others_are_of_another_product():
    schedule = Schedule(of_products("A"), ["a", "b"], products={"a": "A", "b": "B"})

    schedule.retry(schedule.take("a"), "a")

    assert schedule.take("b") is None
    assert schedule.take("a").attempt == 1


def test_a_sentinel_is_kept_for_gpus_of_its_product_alone():
    first, second = of_products("A", "B")
    plan = [replace(first, sentinel=True), second]
    schedule = Schedule(plan, ["a", "b"], untied={"b"}, products={"a": "A", "b": "B"})

    assert schedule.take("a").name == "t0"


@given(st.data())
def test_no_trial_is_lost_or_doubled_whatever_happens(data):
    """Deaths, put-backs, retries and retirements in any order: every trial ends once."""
    uuids = ["a", "b", "c"]
    planned = trials(
        data.draw(st.integers(1, 12)), sentinels=data.draw(st.sets(st.integers(0, 11)))
    )
    untied = data.draw(st.sets(st.sampled_from(uuids)))
    schedule = Schedule(planned, uuids, untied=untied, max_tries=3)
    out, ended = [], []

    while schedule.unfinished and (out or schedule.in_service):
        if data.draw(st.booleans()) or not out:
            given = {uuid: schedule.take(uuid) for uuid in sorted(schedule.in_service)}
            out += [(trial, uuid) for uuid, trial in given.items() if trial is not None]
        if not out:
            break
        trial, uuid = out.pop(data.draw(st.integers(0, len(out) - 1)))
        fate = data.draw(st.sampled_from(["finish", "retry", "put_back", "give_up", "retire"]))
        if fate == "retire" and len(schedule.in_service) > 1:
            schedule.retire(uuid)
        if fate in {"put_back", "retire"}:
            schedule.put_back(trial)
        elif fate == "retry":
            ended += [] if schedule.retry(trial, uuid) else [trial.name]
        else:
            (schedule.give_up(trial) if fate == "give_up" else schedule.finish(trial, uuid))
            ended.append(trial.name)
        left = names(schedule.unfinished)
        assert sorted(left + ended) == sorted(names(planned))
    assert not schedule.unfinished
