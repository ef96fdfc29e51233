"""What Tune is given to start, which GPU measures it, and what its trials are answered; no Ray."""

from itertools import count

import pytest
import ray
from actor_fixtures import CLOCKS_MHZ, gemm
from scripted_strategy import Scripted

from joulelab.errors import ConfigError, DeviceError
from joulelab.searching.base import Figures, Outcome
from joulelab.study.budget import Budget
from joulelab.study.events import DeviceQuarantined
from joulelab.study.resume import History
from joulelab.study.search_queue import Search, Sentinel
from joulelab_actors.tune.exchange import Ask
from joulelab_actors.tune.trainable import config_of, configuration_of
from joulelab_actors.tune.tune_queue import MOST_FAILED, TuneQueue
from joulelab_actors.tune.turnover import MOST_BEHIND, MOST_PROCESSES, Pulse, name_of

IDS = count()
CANDIDATES = [gemm(clock) for clock in CLOCKS_MHZ]
FIGURES = Figures(energy_j=2.0, energy_u_j=0.1, time_s=0.5, time_u_s=0.0, power_w=4.0, board="a")


class Call:
    """A method of an actor that is called at once."""

    def __init__(self, method):
        self.remote = method


class LocalExchange:
    """An exchange of this process: what is asked lies there, what is answered is noted."""

    def __init__(self):
        self.waiting, self.answers = [], {}
        self.asks = Call(lambda: self.waiting)
        self.answer = Call(self.answers.__setitem__)
        self.ring = Call(lambda: None)


@pytest.fixture
def made(monkeypatch):
    """Return a queue that is led by Tune, over GPUs a and b, as the pool has it."""
    monkeypatch.setattr(ray, "get", lambda asks: [asks.pop(0) for _ in range(len(asks))])

    def queue_of(candidates=CANDIDATES, *, history=None, check=lambda t: None, **how):
        strategy = how.pop("strategy", None) or Scripted(candidates)
        most_repeats = how.pop("most_repeats", 1)
        search = Search(study="s", strategy=strategy, **how)
        queue = TuneQueue(search, check, steer=None, most_repeats=most_repeats)
        queue.exchange = LocalExchange()
        queue._news = queue.exchange.waiting
        queue._in_service, queue._num_gpus = {"a", "b"}, 2
        queue.go_on_from(history or History())
        return queue

    return queue_of


def suggested(queue):
    """Return what Tune is given to start."""
    return list(iter(lambda: queue.suggest(str(next(IDS))), None))


def end(queue, key, **how):
    [trial_id] = [each for each, other in queue.turnover._keys.items() if other == key]
    queue.note_ended(trial_id, **how)


def ask(queue, *keys, iteration=0):
    for key in keys:
        config = config_of(*key)
        queue.exchange.waiting.append(
            Ask(name=f"{name_of(key)}-{iteration}", config=config, iteration=iteration)
        )
    queue.hear()


def measured(queue, trial):
    queue.settle(trial, Outcome(candidate=trial.configuration, figures=FIGURES))


def test_a_configuration_is_the_same_after_it_was_tunes():
    configuration = gemm(990, precision="tf32", n=4096)

    assert configuration_of(config_of(configuration, 3)) == (configuration, 3)
    with pytest.raises(ConfigError, match="needs the name of a workload, got None"):
        configuration_of({"sm_clock_mhz": 990})


def carried_out(queue):
    """Be Tune and its trials until Tune is over; return what was started, and most at once."""
    started, most = [], 0
    while not queue.has_ended or queue.turnover._keys:
        num_ended = end_answered(queue)
        started += (new := suggested(queue))
        assert new or num_ended, "Tune waits for ever"
        most = max(most, len(queue.turnover._keys))
        ask(queue, *new)
    return started, most


def end_answered(queue):
    """End the trials that were answered, as Tune does; return how many."""
    has = queue.turnover._keys.items()
    ended = [i for i, key in has if f"{name_of(key)}-0" in queue.exchange.answers]
    for trial_id in ended:
        queue.note_ended(trial_id, has_failed=False)
    return len(ended)


def settled(num_trials):
    """Return the history of a search that has measured so many trials, repeats of few clocks."""
    of_earlier = TuneQueue(Search(study="s", strategy=Scripted([])), lambda t: None, steer=None)
    trials = [of_earlier.begin(CANDIDATES[number % 5]) for number in range(num_trials)]
    outcomes = [Outcome(candidate=trial.configuration, figures=FIGURES) for trial in trials]
    return History(
        trials=tuple(trials),
        outcomes=tuple(outcomes),
        energies_j=(1.0,) * num_trials,
        next_number=num_trials,
    )


def test_tune_is_given_a_trial_for_each_gpu_and_all_under_way_for_a_scheduler(made):
    for most_repeats, num in ((1, 2), (3, 4)):
        queue = made(most_repeats=most_repeats)

        assert [key[0] for key in suggested(queue)] == CANDIDATES[:num]


def test_tune_has_few_trials_at_once_however_many_gpus_there_are(made):
    queue = made(CANDIDATES * 20)
    queue._in_service = {f"gpu{number}" for number in range(16)}

    keys = suggested(queue)
    taken = [queue.take(uuid) for uuid in 2 * sorted(queue._in_service)]

    assert len(keys) == MOST_PROCESSES == 8
    assert None not in taken
    assert queue.take("gpu0") is None


def test_tune_gets_all_trials_however_much_faster_the_gpus_are(made):
    queue = made(CANDIDATES * 20, budget=Budget(num_trials=100))
    queue._in_service = {f"gpu{number}" for number in range(16)}
    first = suggested(queue)
    while (trial := queue.take("gpu0")) is not None:
        measured(queue, trial)

    ask(queue, *first)
    then, most = carried_out(queue)

    assert len({*first, *then}) == len(first) + len(then) == 100
    assert most <= MOST_PROCESSES


def of_16(queue):
    queue._in_service = {f"gpu{number}" for number in range(16)}
    queue._num_gpus = 16
    return queue


def test_gpus_wait_once_tune_is_far_behind(made):
    """Nothing bounded what Tune had to learn yet, for which a search waits a minute at its end."""
    queue = of_16(made(CANDIDATES * 200))
    first, num_measured = suggested(queue), 0
    while (trial := queue.take("gpu0")) is not None:
        measured(queue, trial)
        num_measured += 1
    assert MOST_BEHIND <= num_measured <= MOST_BEHIND + MOST_PROCESSES + 32

    ask(queue, *first)

    assert end_answered(queue) == len(first)
    assert queue.take("gpu0") is not None


def test_gpus_do_not_wait_for_tune_to_learn_what_an_earlier_run_measured(made):
    queue = of_16(made(CANDIDATES * 300, history=settled(2 * MOST_BEHIND)))
    suggested(queue)

    assert None not in [queue.take(uuid) for uuid in 2 * sorted(queue._in_service)]


def test_a_strategy_is_asked_for_several_at_once_and_no_gpu_waits_for_that(made):
    """One that learns thought a quarter of a second before each; on 16 GPUs they come in eights."""
    queue = of_16(made(CANDIDATES * 20))
    suggested(queue)
    trials = {uuid: [queue.take(uuid), queue.take(uuid)] for uuid in sorted(queue._in_service)}
    num_begun = queue.num_trials
    two, one = trials["gpu0"], trials["gpu1"]

    measured(queue, two[0])
    measured(queue, one[0])
    assert queue.num_trials == num_begun == 32
    measured(queue, two[1])

    assert queue.take("gpu0") is not None
    assert queue.num_trials == 32 + 3


def test_a_search_whose_budget_is_used_up_tells_tune_of_what_it_lacks_and_ends(made):
    """It waited for ever: Tune was given no more once nothing was left to be measured."""
    queue = made(history=settled(50), budget=Budget(num_trials=50))
    queue._in_service = {f"gpu{number}" for number in range(16)}

    started, most = carried_out(queue)

    assert len(set(started)) == len(started) == 50
    assert most <= MOST_PROCESSES
    assert queue.take("gpu0") is None


def test_what_tune_restored_counts_among_its_trials(made):
    queue = made(CANDIDATES * 20)
    queue._in_service = {f"gpu{number}" for number in range(16)}
    queue.restore({f"{number}": (CANDIDATES[0], number) for number in range(5)}, [])

    assert len(suggested(queue)) == MOST_PROCESSES - 5


def test_gpus_do_not_wait_for_tune(made):
    queue = made(CANDIDATES[:2])
    keys = suggested(queue)
    measured(queue, queue.take("a"))

    ask(queue, *keys)

    assert queue.exchange.answers == {}  # nothing follows it yet
    measured(queue, queue.take("b"))
    assert len(queue.exchange.answers) == 2


def test_under_a_scheduler_a_gpu_measures_what_a_trial_asks_for_and_no_other(made):
    queue = made(most_repeats=2)
    _, second, *_ = suggested(queue)

    assert queue.take("a") is None
    ask(queue, second)

    assert queue.take("a").configuration == second[0]
    assert queue.take("b") is None


def test_in_a_tuner_of_ones_own_nothing_is_measured_unasked(made):
    unfinished = made().begin(CANDIDATES[0])
    queue = made([], history=History(unfinished=(unfinished,), next_number=1))

    assert queue.take("a") is None
    ask(queue, (CANDIDATES[0], 0))

    assert queue.take("a") == unfinished


def test_a_trial_is_answered_once_another_follows_it(made):
    queue = made(CANDIDATES * 2)
    keys = suggested(queue)
    ask(queue, *keys)
    trial = queue.take("a")

    measured(queue, trial)

    [(name, result)] = queue.exchange.answers.items()
    assert name == f"{name_of(keys[0])}-0"
    assert result["edp"] == pytest.approx(1.0)
    assert result["ed2p"] == pytest.approx(0.5)
    assert suggested(queue) == []  # it would have a process started
    end(queue, keys[0], has_failed=False)
    assert [key[0] for key in suggested(queue)] == [CANDIDATES[2]]


def test_an_iteration_that_is_not_the_last_is_answered_at_once(made):
    queue = made(most_repeats=2)
    key, *_ = suggested(queue)
    ask(queue, key)

    measured(queue, queue.take("a"))
    assert len(queue.exchange.answers) == 1
    ask(queue, key, iteration=1)

    assert queue.take("a").repeat == 1


def test_where_nothing_follows_all_are_answered_and_tune_is_over(made):
    queue = made(CANDIDATES[:2])
    keys = suggested(queue)
    ask(queue, *keys)

    measured(queue, queue.take("a"))
    assert not queue.has_ended
    measured(queue, queue.take("b"))

    assert len(queue.exchange.answers) == 2
    assert queue.has_ended


def test_what_the_store_holds_is_answered_from_there_if_tune_lacks_it(made):
    trial = made().begin(CANDIDATES[0])
    outcome = Outcome(candidate=CANDIDATES[0], figures=FIGURES)
    history = History(trials=(trial,), outcomes=(outcome,), energies_j=(1.0,), next_number=1)
    lacks = made(history=history)
    known = (CANDIDATES[0], 0)
    knows = made(history=history)
    knows.restore({}, [known])

    keys = suggested(lacks)
    ask(lacks, *keys)

    assert known in keys
    assert known not in suggested(knows)
    assert [trial.configuration for trial in iter(lambda: lacks.take("a"), None)] == CANDIDATES[1:5]
    assert lacks.exchange.answers[f"{name_of(known)}-0"]["energy_j"] == 2.0


def test_each_gpu_takes_its_own_sentinel_and_leaves_that_of_the_other(made):
    queue = made(budget=Budget(num_trials=10), sentinel=Sentinel(configuration=gemm()))
    keys = suggested(queue)
    ask(queue, *keys)

    of_a = [queue.take("a") for _ in range(3)]
    of_b = queue.take("b")

    assert [trial.sentinel for trial in of_a] == [True, False, False]
    assert of_b.sentinel


def test_with_few_trials_for_each_gpu_one_of_eleven_is_a_sentinel(made):
    queue = made(
        CANDIDATES * 9, budget=Budget(num_trials=40), sentinel=Sentinel(configuration=gemm())
    )
    queue._in_service = {f"gpu{number}" for number in range(20)}
    queue._num_gpus = 20
    ask(queue, *suggested(queue))

    first = [queue.take(uuid) for uuid in sorted(queue._in_service)]

    assert sum(trial.sentinel for trial in first) == 3
    assert [queue.take(uuid) for uuid in sorted(queue._in_service)] == [None] * 20


def test_a_sentinel_of_a_gpu_that_is_out_of_service_goes_to_another(made):
    sentinel = Sentinel(configuration=gemm())
    queue = made(CANDIDATES[:1], budget=Budget(num_trials=10), sentinel=sentinel)
    ask(queue, *suggested(queue))
    of_a = [queue.take("a") for _ in range(3)]

    queue.note(DeviceQuarantined(uuid="b", detail="fell off the bus"))

    assert [trial and trial.sentinel for trial in of_a] == [True, False, None]
    assert queue.take("a").sentinel


def test_what_tune_failed_at_is_suggested_again_and_measured_once(made):
    queue = made(CANDIDATES[:2])
    first, _ = suggested(queue)

    end(queue, first, has_failed=True)
    again = suggested(queue)
    ask(queue, *again)

    assert again == [first]
    assert queue.take("a").configuration == first[0]


def test_a_tune_that_fails_again_and_again_ends_the_search(made):
    queue = made(CANDIDATES[:1])

    for _ in range(MOST_FAILED + 1):
        [key] = suggested(queue)
        end(queue, key, has_failed=True)

    assert isinstance(queue.error, DeviceError)


def test_what_tune_restored_is_what_the_strategy_asks_for_next(made):
    """A search that was killed measured it twice, and something else not at all."""
    queue, restored = made(CANDIDATES[:3], budget=Budget(num_trials=3)), (CANDIDATES[0], 0)
    ask(queue, restored)

    first = suggested(queue)
    ask(queue, *first)
    taken = [queue.take("a"), queue.take("b")]
    measured(queue, taken[0])
    then = suggested(queue)

    assert first == [(CANDIDATES[1], 0)]
    assert [trial.configuration for trial in taken] == CANDIDATES[:2]
    assert then == [(CANDIDATES[2], 0)]


def test_what_tune_restored_and_has_yet_to_ask_for_is_not_suggested_again(made):
    """Its process may take longer to start than the strategy to ask for the same."""
    queue, restored = made(CANDIDATES[:3]), (CANDIDATES[0], 0)
    queue.restore({"of an earlier run": restored}, [])

    keys = suggested(queue)
    ask(queue, *keys, restored)

    assert keys == [(CANDIDATES[1], 0)]
    taken = list(iter(lambda: queue.take("a"), None))
    assert sorted(trial.configuration.point.label for trial in taken) == sorted(
        each.point.label for each in CANDIDATES[:3]
    )


def test_what_tune_restored_and_failed_at_is_suggested_again(made):
    queue, restored = made(CANDIDATES[:1]), (CANDIDATES[0], 0)
    queue.restore({"of an earlier run": restored}, [])
    assert suggested(queue) == []

    end(queue, restored, has_failed=True)

    assert suggested(queue) == [restored]


def test_no_more_is_measured_than_the_budget_allows_whatever_tune_restored(made):
    queue, restored = made(budget=Budget(num_trials=2)), (CANDIDATES[4], 0)
    keys = suggested(queue)
    ask(queue, *keys, restored)

    assert len(keys) == 2
    assert len(list(iter(lambda: queue.take("a"), None))) == 2
    for key in keys:
        measured(queue, queue._open[key])
    assert (
        "The budget of 2 trials is used up."
        in queue.exchange.answers[f"{name_of((CANDIDATES[4], 0))}-0"]["reason"]
    )


def test_what_a_strategy_may_not_ask_for_is_raised_where_tune_asks(made):
    def refuse(trial):
        raise ConfigError("no such clock")

    with pytest.raises(ConfigError, match="no such clock"):
        suggested(made(check=refuse))


def test_a_strategy_that_asks_for_nothing_with_nothing_out_ends_tune(made):
    queue = made(strategy=Scripted(CANDIDATES, max_out=0))

    assert suggested(queue) == []
    assert queue.has_ended
    assert queue.stopped_by is None


def test_trials_that_wait_are_let_go_when_the_search_is_ended(made):
    queue = made()
    keys = suggested(queue)
    ask(queue, *keys)

    queue.close()

    assert {result["reason"] for result in queue.exchange.answers.values()} == {
        "The search was ended before this was measured."
    }
    assert len(queue.exchange.answers) == len(keys) == 2
    assert queue.is_done


@pytest.fixture
def watched(made):
    """Return a queue whose Tune may do nothing for 60 s, what it started, and its clock."""
    queue, now_s = made(CANDIDATES[:3]), [0.0]
    queue.turnover.pulse = Pulse(60.0, lambda: now_s[0])
    return queue, suggested(queue), now_s


def test_tune_that_does_nothing_although_nothing_is_measured_hangs(watched):
    queue, _, now_s = watched
    while (trial := queue.take("a")) is not None:
        now_s[0] += 1000.0
        measured(queue, trial)
    now_s[0] += 59.0
    assert queue.take("a") is None

    now_s[0] += 2.0

    with pytest.raises(DeviceError, match=r"within 60 s: it hangs\. .* --study s to go on"):
        queue.take("a")


def test_tune_may_do_nothing_for_as_long_as_a_trial_is_measured(watched):
    queue, _, now_s = watched
    trials = [queue.take("a") for _ in range(3)]

    now_s[0] += 1000.0

    assert None not in trials
    assert queue.take("b") is None


@pytest.mark.parametrize("does", ["its process begins", "it ends"])
def test_tune_does_not_hang_that_starts_or_ends_a_trial(watched, does):
    queue, [first, *_], now_s = watched
    while (trial := queue.take("a")) is not None:
        measured(queue, trial)
    now_s[0] += 59.0

    ask(queue, first) if does == "its process begins" else end(queue, first, has_failed=False)
    now_s[0] += 59.0

    assert queue.take("a") is None
