"""The queue of a search: what is asked for, told, and when that ends."""

import pytest
from actor_fixtures import CLOCKS_MHZ, QUICK, gemm, simulated_gpus
from scripted_strategy import Scripted

from joulelab.bench import Bench
from joulelab.devices.simulated import SimulatedDevice
from joulelab.errors import ConfigError
from joulelab.searching.base import Outcome
from joulelab.study.budget import Budget
from joulelab.study.events import AttemptFailed, TrialMeasured, spent_j
from joulelab.study.resume import History, history_of
from joulelab.study.search_queue import Search, SearchQueue, Sentinel

CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]


class CountingScript(Scripted):
    """A scripted strategy that counts how often it is asked."""

    num_asked = 0

    def ask(self):
        self.num_asked += 1
        return super().ask()


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Measure trials on a simulated GPU; returns their records."""
    [address] = simulated_gpus(tmp_path_factory.mktemp("gpu"))
    device = SimulatedDevice.open(address)
    bench = Bench(device, procedure=QUICK)
    yield bench.measure
    bench.close()
    device.close()


@pytest.fixture
def measured(records):
    """Return the event that a trial was measured."""

    def event(trial, uuid="a", *, retried=False):
        return TrialMeasured(
            trial=trial,
            uuid=uuid,
            records=records(trial),
            writer="w",
            between_s=None,
            retried=retried,
        )

    return event


def queue_of(strategy, *, gpus=(), history=None, check=lambda trial: None, **options):
    queue = SearchQueue(Search(study="s", strategy=strategy, **options), check)
    queue.resume([], gpus, plot=lambda point: None)
    if history is not None:
        queue.go_on_from(history)
    return queue


def failed(trial, *, retried=False):
    return AttemptFailed(trial=trial, uuid="a", died=False, detail="no luck", retried=retried)


def test_trials_are_numbered_and_repeats_counted():
    queue = queue_of(Scripted([CANDIDATES[0], CANDIDATES[1], CANDIDATES[0]]))

    taken = [queue.take("a") for _ in range(4)]

    assert [t.name[:5] for t in taken[:3]] == ["00000", "00001", "00002"]
    assert [t.repeat for t in taken[:3]] == [0, 0, 1]
    assert len({t.name for t in taken[:3]}) == 3
    assert taken[3] is None


def test_only_a_trial_that_needs_no_further_try_is_told(measured):
    strategy = Scripted(CANDIDATES)
    queue = queue_of(strategy)
    first, second, third = (queue.take("a") for _ in range(3))

    queue.note(measured(first, retried=True))
    queue.note(failed(second, retried=True))
    assert strategy.told == []
    queue.note(measured(first))
    queue.note(failed(second))
    queue.note(measured(third))

    figures = [outcome.figures for outcome in strategy.told]
    assert [outcome.candidate for outcome in strategy.told] == CANDIDATES[:3]
    assert [each is None for each in figures] == [False, True, False]
    assert strategy.told[1].reason == "no luck"


def test_a_trial_budget_ends_a_search_and_counts_what_earlier_runs_did(measured):
    first = queue_of(Scripted(CANDIDATES), budget=Budget(num_trials=3))
    events = [measured(trial) for trial in iter(lambda: first.take("a"), None)]
    known = [record.measurement for event in events for record in event.records]

    again = queue_of(Scripted(CANDIDATES), budget=Budget(num_trials=4), history=history_of(known))
    taken = list(iter(lambda: again.take("a"), None))

    assert first.stopped_by == again.stopped_by.replace("4", "3") == "the budget of 3 trials"
    assert len(known) == 3
    assert [trial.name[:5] for trial in taken] == ["00003"]


def test_an_energy_budget_counts_the_trials_that_are_out(measured):
    event = measured(queue_of(Scripted(CANDIDATES)).take("a"))
    one_j = sum(spent_j(record.measurement) for record in event.records)
    queue = queue_of(Scripted(CANDIDATES * 3), budget=Budget(energy_j=3.5 * one_j))

    assert queue.take("a") == event.trial
    queue.note(event)
    out = list(iter(lambda: queue.take("a"), None))

    assert len(out) == 2  # the one that ended and two more, as far as is known, but not three
    assert not queue.is_done  # they may take less
    while out:
        queue.note(measured(out.pop()))
        out += [trial for trial in [queue.take("a")] if trial]
    left_j = 3.5 * one_j - queue.account.energy_j
    assert left_j < queue.account.energy_j / queue.num_trials
    assert queue.stopped_by == f"the budget of {3.5 * one_j:g} J"


def test_what_trials_took_less_than_was_expected_of_them_goes_to_further_ones():
    """A search ended at two thirds of its joules, by what trials that were out might take."""
    queue = queue_of(Scripted(CANDIDATES * 2), gpus="abcd", budget=Budget(energy_j=100.0))

    first = queue.take("a")
    queue.account.spend(25.0)
    queue.settle(first, Outcome(candidate=first.configuration, reason="none"))
    out = [trial for uuid in "abcd" if (trial := queue.take(uuid))]
    for trial in out:
        queue.account.spend(10.0)
        queue.settle(trial, Outcome(candidate=trial.configuration, reason="none"))

    assert len(out) == 3  # of 25 J each, as far as was known
    assert [queue.take(uuid) is None for uuid in "abcd"] == [False, False, False, True]
    assert not queue.is_done


def test_a_search_that_is_resumed_tells_what_is_known_in_the_order_it_was_asked(measured):
    queue = queue_of(Scripted(CANDIDATES))
    events = [measured(trial) for trial in iter(lambda: queue.take("a"), None)]
    known = [record.measurement for event in reversed(events) for record in event.records]
    strategy = Scripted(CANDIDATES)

    again = queue_of(strategy, history=history_of(known))

    assert [outcome.candidate for outcome in strategy.told] == CANDIDATES
    assert again.is_done
    assert again.num_skipped == len(CANDIDATES)


def test_every_gpu_begins_with_the_sentinel_and_comes_back_to_it():
    watched = gemm()
    queue = queue_of(
        Scripted(CANDIDATES),
        gpus="ab",
        budget=Budget(num_trials=10),
        sentinel=Sentinel(configuration=watched, every=2),
    )

    taken = {"a": [], "b": []}
    for uuid in "aabaaba":
        taken[uuid].append(queue.take(uuid).sentinel)

    assert taken == {"a": [True, False, False, True, False], "b": [True, False]}


def test_a_sentinel_is_welcome_where_there_was_none_and_where_one_is_due():
    sentinel = Sentinel(configuration=gemm(), every=2)
    queue = queue_of(Scripted(CANDIDATES), gpus="ab", sentinel=sentinel)

    queue.take("a")
    after_its_first = [queue.welcomes_sentinel(uuid) for uuid in "ab"]
    queue.take("a")
    queue.take("a")

    assert after_its_first == [False, True]
    assert queue.welcomes_sentinel("a")


def test_a_search_that_is_resumed_goes_on_with_its_sentinels():
    watched = gemm()
    queue = queue_of(
        Scripted(CANDIDATES),
        gpus="abc",
        history=History(since_sentinel={"a": 1, "b": 2}),
        budget=Budget(num_trials=15),
        sentinel=Sentinel(configuration=watched, every=2),
    )

    taken = [queue.take(uuid).sentinel for uuid in "aabc"]

    assert taken == [False, True, True, True]


def test_where_gpus_have_few_trials_each_not_all_begin_with_a_sentinel():
    """With 64 GPUs, half of 128 trials measured the baseline."""
    gpus = [f"gpu{number}" for number in range(64)]
    queue = queue_of(
        Scripted(CANDIDATES * 30),
        gpus=gpus,
        budget=Budget(num_trials=128),
        sentinel=Sentinel(configuration=gemm()),
    )

    taken = [queue.take(uuid) for uuid in gpus]

    assert [trial.sentinel for trial in taken] == [True] * 11 + [False] * 53
    assert queue.take(gpus[0]) is None  # what it asked for next would not know what these tell


def test_where_the_budget_is_of_joules_one_trial_tells_what_others_take(measured):
    """Two trials of each of four GPUs took 160 kJ of a budget of 12 kJ."""
    queue = queue_of(Scripted(CANDIDATES), gpus="abcd", budget=Budget(energy_j=1e-3))

    taken = [queue.take(uuid) for uuid in "abcd"]

    assert [trial is None for trial in taken] == [False, True, True, True]
    assert not queue.is_done
    queue.note(measured(taken[0]))
    assert queue.take("b") is None
    assert queue.stopped_by == "the budget of 0.001 J"


def test_where_the_budget_is_of_joules_a_first_sentinel_comes_with_every_ten_trials(measured):
    queue = queue_of(
        Scripted(CANDIDATES * 9),
        gpus="abcd",
        budget=Budget(energy_j=1e9),
        sentinel=Sentinel(configuration=gemm()),
    )

    first = queue.take("a")
    queue.note(measured(first))

    taken = [first, *(queue.take(uuid) for uuid in ("bcd" + "abcd" * 8))]

    assert [number for number, trial in enumerate(taken) if trial.sentinel] == [0, 10, 21, 31]


def test_a_strategy_that_waits_is_asked_once_however_many_gpus_are_idle(measured):
    """A model was fitted to the same outcomes for every idle GPU, again and again."""
    strategy = CountingScript(CANDIDATES, max_out=1)
    queue = queue_of(strategy)

    [first, *others] = [queue.take(uuid) for uuid in "abcd"]
    queue.note(measured(first))
    again = [queue.take(uuid) for uuid in "abcd"]

    assert others == [None] * 3
    assert [trial is None for trial in again] == [False, True, True, True]
    assert strategy.num_asked == 4


def test_what_cannot_be_carried_out_is_told_when_it_is_asked_for():
    def refuse(trial):
        raise ConfigError(f"no {trial.configuration.point.label}")

    queue = queue_of(Scripted(CANDIDATES), check=refuse)

    with pytest.raises(ConfigError, match="no 990MHz"):
        queue.take("a")


def test_quality_is_looked_up_for_trials_with_figures_alone(measured):
    asked = []

    def score(configuration):
        asked.append(configuration)
        return 0.97, 0.01

    strategy = Scripted(CANDIDATES[:2])
    queue = queue_of(strategy, score=score)
    first, second = queue.take("a"), queue.take("a")
    queue.note(failed(first))
    queue.note(measured(second))

    assert asked == [CANDIDATES[1]]
    assert strategy.told[1].figures.retention == 0.97


@pytest.mark.parametrize("bound", ["num_trials", "wall_s", "energy_j"])
def test_a_budget_of_nothing_is_refused(bound):
    with pytest.raises(ConfigError, match=f"{bound} must be positive"):
        Budget(**{bound: 0})
