"""What Tune takes over of the pool's trials, in whatever order the two come to them."""

import asyncio

from actor_fixtures import gemm

from joulelab.core.trial import Trial
from joulelab.search.base import Outcome
from joulelab_actors.search.leased_trial import NoticeBoard
from joulelab_actors.search.leases import Leases

OUTCOME = Outcome(candidate=gemm(990), reason="none")


def trial(name):
    return Trial(study="s", name=name, configuration=gemm(990))


def leases_of(*names):
    posts = []
    leases = Leases(lambda number, results: posts.append(results))
    for name in names:
        leases.begin(trial(name))
    return leases, posts


def test_trials_are_taken_over_in_their_order():
    leases, _ = leases_of("a", "b")

    taken = [leases.take_over(tune_id) for tune_id in ("1", "2", "3")]

    assert taken == [trial("a"), trial("b"), None]


def test_a_result_is_posted_whether_it_comes_before_or_after_the_trial_is_taken_over():
    leases, posts = leases_of("early", "late")

    leases.settle("early", OUTCOME)
    assert posts == []
    leases.take_over("1")
    leases.take_over("2")
    leases.settle("late", OUTCOME)

    assert [sorted(post) for post in posts] == [["early"], ["early", "late"]]


def test_what_tune_has_let_go_of_is_kept_no_longer():
    leases, posts = leases_of("a", "b", "c")
    for tune_id in ("1", "2", "3"):
        leases.take_over(tune_id)
    leases.settle("a", OUTCOME)
    leases.let_go("1")
    leases.let_go("2")  # of a trial that has not ended

    leases.settle("b", OUTCOME)
    leases.settle("c", OUTCOME)

    assert sorted(posts[-1]) == ["c"]


def test_a_search_that_is_cut_short_leaves_nobody_waiting():
    leases, posts = leases_of("taken", "done", "never")
    leases.take_over("1")
    leases.settle("done", OUTCOME)

    leases.close()

    assert posts[-1]["taken"]["reason"] == "The search ended before the trial did."
    assert not leases.is_over
    assert leases.take_over("2") == trial("done")
    assert leases.is_over


def test_a_post_that_a_newer_one_overtook_takes_nothing_off_the_board():
    """A trial once waited for a result that had been posted, and the search for its end with it."""
    numbered = []
    leases = Leases(lambda number, results: numbered.append((number, results)))
    for name in ("a", "b"):
        leases.begin(trial(name))
        leases.take_over(name)
        leases.settle(name, OUTCOME)

    async def late():
        board = NoticeBoard()
        for number, results in reversed(numbered):
            await board.post(number, results)
        return await board.result("b")

    assert asyncio.run(asyncio.wait_for(late(), timeout=10.0))["reason"] == "none"
