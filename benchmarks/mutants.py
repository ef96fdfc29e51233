"""Break the code in ways that would hurt, one at a time, and see whether the tests notice.

Usage: python benchmarks/mutants.py [--only NAME] [--folders core guard ...] [--sample 60]

The mutants are in ``mutants.toml``. Everything happens in copies of the checkout in a temporary
folder. A mutant is killed if a test that is named for it fails. One whose tests do not end within
two minutes is counted apart: on a busy machine that tells nothing. It is stale if its old text is
not found exactly once, and broken if its tests cannot even be collected: then it has to be mended.
Fails if less than 95 % of those that ended are killed, or any is stale or broken.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

import psutil
import tyro
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
COPIED = ("actors", "benchmarks", "cluster", "docs", "experiments", "platform", "tests")
PROMISED = 0.95
LIMIT_S = 120.0
AT_ONCE = 2

Outcome = Literal["killed", "timed out", "survived", "stale", "broken"]
_OUTCOMES: dict[int, Outcome] = {0: "survived", 1: "killed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A change that some test must notice.

    Attributes:
        name: What it does, in a few words.
        file: The file that it changes.
        old: Text that occurs there once.
        new: What takes its place.
        tests: What to run, as pytest is told.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        outcome: Whether the tests noticed it.
        by: The test that failed first.
        wall_s: How long that took.
    """

    mutant: Mutant
    outcome: Outcome
    by: str = ""
    wall_s: float = 0.0


class Copies:
    """Copies of the checkout, one for every mutant that is tried at the same time.

    Args:
        folder: Where to make them.
        at_once: How many.
        limit_s: Time after which a mutant counts as timed out.
    """

    def __init__(self, folder: Path, *, at_once: int = AT_ONCE, limit_s: float = LIMIT_S) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._limit_s = limit_s
        for number in range(at_once):
            copy = folder / str(number)
            for name in COPIED:
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, copy / name, ignore=ignore)
            for name in ("Makefile", "pyproject.toml"):
                shutil.copy(ROOT / name, copy)
            self._free.put(copy)

    def judge(self, mutant: Mutant) -> Verdict:
        """Try a mutant."""
        with self._borrowed() as copy:
            path, start_s = copy / mutant.file, time.monotonic()
            sound = path.read_text()
            if sound.count(mutant.old) != 1:
                return Verdict(mutant=mutant, outcome="stale")
            path.write_text(sound.replace(mutant.old, mutant.new))
            try:
                outcome, by = run_tests(mutant.tests, copy, self._limit_s)
            finally:
                path.write_text(sound)
            wall_s = time.monotonic() - start_s
            return Verdict(mutant=mutant, outcome=outcome, by=by, wall_s=wall_s)

    def require_sound(self, tests: Sequence[str]) -> None:
        """Run ``tests`` with nothing broken, and exit unless all pass."""
        with self._borrowed() as copy:
            outcome, by = run_tests(tests, copy, 10 * LIMIT_S)
            if outcome != "survived":
                raise SystemExit(f"Tests must pass while nothing is broken; {outcome}: {by}")

    @contextmanager
    def _borrowed(self) -> Generator[Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def run_tests(tests: Sequence[str], copy: Path, limit_s: float) -> tuple[Outcome, str]:
    """Run tests of a copy until one fails; return what became of them, and which one it was."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "PYTHONPATH": os.pathsep.join(str(copy / part) for part in ("platform", "actors", "tests")),
        "PYTHONDONTWRITEBYTECODE": "1",  # mutants of one second and one length look alike to it
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    told = copy / "told"
    try:
        with told.open("w") as output:  # no pipe: what a test leaves behind would keep it open
            status = subprocess.run(
                [*command, f"--basetemp={copy / 't'}", *tests],
                cwd=copy,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=limit_s,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        return "timed out", ""
    finally:
        end_leftovers(copy)
    failed = re.search(r"^(?:FAILED|ERROR) \S*/(\S+)", told.read_text(), re.MULTILINE)
    return _OUTCOMES.get(status, "broken"), failed[1] if failed else ""


def end_leftovers(copy: Path) -> None:
    """End the guards and Ray nodes that tests left behind which did not come to their end."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(copy / "platform") in process.environ().get("PYTHONPATH", ""):
                process.kill()


def read_mutants(path: Path) -> list[Mutant]:
    """Read the table of mutants."""
    return [
        Mutant(name=name, file=suspect["file"], old=old, new=new, tests=tuple(suspect["tests"]))
        for suspect in tomllib.loads(path.read_text())["suspect"]
        for name, (old, new) in suspect["mutants"].items()
    ]


def main(only: str | None = None, folders: Sequence[str] = (), sample: int = 0) -> int:
    """Try all mutants, or those asked for; return the exit status.

    Args:
        only: The name of one.
        folders: Those of the package that they must lie in; any if none is named.
        sample: How many, drawn at random (always the same); 0 for all.
    """
    mutants = [
        mutant
        for mutant in read_mutants(Path(__file__).with_suffix(".toml"))
        if only in (None, mutant.name) and (not folders or Path(mutant.file).parts[2] in folders)
    ]
    if 0 < sample < len(mutants):
        mutants = random.Random(1).sample(mutants, sample)  # noqa: S311
    if not mutants:
        raise SystemExit(f"--only must be the name of a mutant in mutants.toml, got {only!r}.")
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        copies = Copies(Path(folder))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            tests = sorted({test for mutant in mutants for test in mutant.tests})
            shares = [share for i in range(AT_ONCE) if (share := tests[i::AT_ONCE])]
            list(pool.map(copies.require_sound, shares))
            verdicts = []
            for verdict in pool.map(copies.judge, mutants):
                verdicts.append(verdict)
                print(f"{verdict.outcome}: {verdict.mutant.name}", file=sys.stderr, flush=True)
    return report(verdicts)


def report(verdicts: Sequence[Verdict], promised: float = PROMISED) -> int:
    """Print a table and the share; return the exit status."""
    table = Table("mutant", "file", "outcome", "by", "s")
    for verdict in verdicts:
        name, file = verdict.mutant.name, verdict.mutant.file.split("/", 1)[1]
        table.add_row(name, file, verdict.outcome, verdict.by, f"{verdict.wall_s:.0f}")
    Console(width=200).print(table)
    num = Counter(verdict.outcome for verdict in verdicts)
    share = num["killed"] / max(1, len(verdicts) - num["timed out"])
    told = ", ".join(f"{count} {outcome}" for outcome, count in num.most_common())
    print(
        f"{told} of {len(verdicts)}: {share:.1%} of those that ended are killed "
        f"(at least {promised:.0%} are promised)"
    )
    return 0 if share >= promised and not num["stale"] and not num["broken"] else 1


if __name__ == "__main__":
    sys.exit(tyro.cli(main))
