"""Whether a search that was killed found what its undisturbed twin found."""

from collections import Counter
from collections.abc import Callable, Sequence

from killed_search import Case, made, problem
from search_damage import Damage

from joulelab.core.configuration import Configuration
from joulelab.core.measurement import Measurement
from joulelab.searching.race import Race
from joulelab.study.resume import History, history_of


def compare(
    damage: Damage, number: int, known: Sequence[Measurement], twin: Sequence[Measurement]
) -> None:
    """Say whether a search that was killed found what its undisturbed twin found."""
    mine, other = history_of(known), history_of(twin)
    if damage.case.algorithm == "random":
        here, there = (Counter(t.configuration for t in h.trials) for h in (mine, other))
        damage.same_answer = here == there
        damage.details.append(f"{(here - there).total()} of {here.total()} trials are others")
        return
    best, equals, _ = _answer(damage.case, number, mine)
    twin_best, twin_equals, twin_cost = _answer(damage.case, number, other)
    damage.same_answer = best in twin_equals and twin_best in equals
    damage.apart = twin_cost(best) - twin_cost(twin_best)
    damage.details.append(
        f"{_words(best)} of {len(equals)} that cannot be told apart, undisturbed "
        f"{_words(twin_best)} of {len(twin_equals)}; {100 * damage.apart:+.2f} % EDP"
    )


def _answer(
    case: Case, number: int, history: History
) -> tuple[Configuration, set[Configuration], Callable[[Configuration], float]]:
    """Return the best, its equals, and what any costs as far as the search can tell, by logs."""
    race, model = made(case, number)
    for outcome in history.outcomes:
        race.tell(outcome)
    now = race.standing() if isinstance(race, Race) else None
    if now is None or model is None:
        raise ValueError(f"{case} gives no answer.")
    log_cost, space = model.forecast().log_cost, problem().space
    equals = {*now.members, *model.equals()}
    return now.best, equals, lambda each: float(log_cost[space.index(each)])


def _words(configuration: Configuration) -> str:
    return f"{configuration.point.label} {dict(configuration.knobs)['precision']}"
