#!/usr/bin/env python
"""Kill the processes of searches at random and go on; count what that cost, compare answers.

Usage: python benchmarks/search_kills.py [--kills 50] [--seed 0]

Searches run one after another over simulated GPUs that take wall time, and each gets several
SIGKILLs: most while it measures, some while it starts or ends; of the driver, of actors of GPUs,
of processes of Tune's trials, and of the guard. The driver is started again until the search has
ended. No measurement that an actor ever completed may be missing then, none may have been made
twice, and the strategy must have been told of each.

Every search also runs undisturbed, on boards of the same traits and with the same seed. What a
random search measures depends on its seed alone, so both must have measured the same. What a
model-guided search asks for depends on figures with noise, and on how many were out when it was
asked, which a kill changes on one GPU as on several: there the configuration that one recommends
must be among those that the other cannot tell apart from its own, measured or not.
"""

import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import tyro
from figures import Figure, print_figures
from killed_search import NUM_TRIALS
from search_damage import Damage, examine
from search_killer import Killer, preload
from search_twins import compare

from joulelab.errors import GuardError
from joulelab.guard import GuardClient
from joulelab_actors.session import connected

KILLS = (3, 8)
"""Fewest and most in one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the benchmark.

    Attributes:
        kills: Processes to kill.
        seed: Seed of whom and when.
    """

    kills: int = 50
    seed: int = 0


def search_kills(settings: Settings) -> list[Damage]:
    """Run the benchmark in a folder of its own, which stays if anything was lost."""
    folder = Path(tempfile.mkdtemp(prefix="jl-sk-", dir="/tmp"))
    moments = random.Random(settings.seed)  # noqa: S311 - when to kill is no secret
    found: list[Damage] = []
    preload()
    try:
        with connected():
            while (left := settings.kills - sum(each.kills.total() for each in found)) > 0:
                kills = min(left, moments.randint(*KILLS))
                found.append(_one(folder, len(found), kills, moments))
                print(found[-1], file=sys.stderr, flush=True)
    finally:
        with suppress(GuardError):
            GuardClient(folder / "guard.sock", start=False).stop()
    if all(each.clean for each in found):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"What is left is in {folder}.", file=sys.stderr)
    return found


def _one(folder: Path, number: int, kills: int, moments: random.Random) -> Damage:
    """Run one search undisturbed and once more with kills; return what these cost."""
    known = []
    for kind, most in (("undisturbed", 0), ("killed", kills)):
        (mine := folder / f"{kind}-{number}").mkdir()
        killer = Killer(mine, number, moments)
        killer.run(most)
        known.append(examine(mine, killer.damage, killer.completed))
    compare(killer.damage, number, known[1], known[0])
    return killer.damage


def figures(settings: Settings | None = None) -> list[Figure]:
    """Return what the kills cost, all of which is promised to be nothing."""
    start_s, found = time.monotonic(), search_kills(settings or Settings())
    kills: Counter[str] = sum((each.kills for each in found), Counter())
    when = ", ".join(f"{n} {doing}" for doing, n in sorted(kills.items()))
    guided = [each.apart for each in found if each.case.algorithm == "model-guided"]
    how = (
        f"{kills.total()} SIGKILLs ({when}) during {len(found)} searches of "
        f"at most {NUM_TRIALS} trials, {time.monotonic() - start_s:.0f} s"
    )
    apart = f"; at most {100 * max(map(abs, guided), default=0.0):.2f} % EDP apart"
    costs = {
        "trials of a search lost by kills": sum(len(each.lost) for each in found),
        "trials of a search doubled by kills": sum(len(each.doubled) for each in found),
        "searches that spent more or less than their budget": sum(not each.whole for each in found),
        "clocks left locked by kills of searches": sum(len(each.locked) for each in found),
        "searches with another answer than undisturbed": sum(
            not each.same_answer for each in found
        ),
    }
    return [
        Figure(name=name, measured=cost, promised=0, unit="", how=how + apart * ("answer" in name))
        for name, cost in costs.items()
    ]


def main(settings: Settings) -> int:
    """Run the benchmark; the exit code is 0 if the kills cost nothing."""
    found = figures(settings)
    print_figures(found)
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
