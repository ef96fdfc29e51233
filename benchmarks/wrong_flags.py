"""Ask for what cannot be done, in every way that comes to mind, and see how it is refused.

Usage: python benchmarks/wrong_flags.py [--only TEXT ...] [--every N]

Every request of ``wrong_requests`` runs as a process of its own: most in a fork of this one, which
has everything imported, and every sixth as a user would start it. A wrong request must be told in a
line or two on the standard error, without a traceback, with exit code 2, and leave nothing behind.
"""

import getpass
import importlib
import io
import os
import re
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import psutil
import tyro
from wrong_requests import Request, requests, write_given

from joulelab.cli.main import COMMANDS
from joulelab.cli.main import main as joulelab

ROOT = Path(__file__).parents[1]
LIMIT_S, SLOW_S = 20.0, 4.0
AT_ONCE = 2
TRUE_EVERY = 6
MOST_LINES = 3
MOST_B = 4e9
"""Memory of a process from which on it counts as endless."""
REFUSED = 2
USER = getpass.getuser()
_BOX = re.compile(r"[\u2500-\u257f]")
_KEPT = {".cache", ".config", ".local", "ray", f"joulelab-{os.getuid()}", f"torchinductor_{USER}"}
"""Caches of libraries, Ray's folder of sessions, and the state of simulated machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run.

    Attributes:
        only: Only requests whose command line holds one of these texts.
        every: Only every so many requests.
        show: Show each refusal.
    """

    only: tuple[str, ...] = ()
    every: int = 1
    show: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How a request ended.

    Attributes:
        request: What was asked.
        true: Whether as a process that a user would start.
        code: Exit code; ``None`` if it did not end in time.
        errors: What it wrote to the standard error.
        said: What it wrote to the standard output.
        left: Files and folders that it left behind.
        took_s: How long it took.
    """

    request: Request
    true: bool
    code: int | None
    errors: str
    said: str
    left: tuple[str, ...]
    took_s: float

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with it; nothing if it is as it should be."""
        lines = [
            line for line in self.errors.splitlines() if line.strip() and not _BOX.search(line)
        ]
        found = {
            "traceback": "Traceback (most recent call last)" in self.errors,
            "endless": self.code is None,
            "exit code": self.code not in (None, REFUSED),
            "long-winded": len(lines) > MOST_LINES,
            "silent": self.code == REFUSED and not (self.errors + self.said).strip(),
            "left-over": bool(self.left),
        }
        return tuple(name for name, there in found.items() if there)


@dataclass(slots=True, kw_only=True)
class _Running:
    request: Request
    true: bool
    pid: int
    start_s: float
    place: Path


def refusals(asked: Sequence[Request]) -> Iterator[Refusal]:
    """Run ``asked``, some at once, and yield how each ended."""
    _import_everything()
    # Ray's sockets lie below it, and their paths may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="wf", dir="/tmp") as folder:
        root = Path(folder)
        write_given(root / "given")
        running: list[_Running] = []
        left = list(enumerate(asked))
        while left or running:
            while left and len(running) < AT_ONCE:
                number, request = left.pop(0)
                running.append(_start(root, number, request))
            time.sleep(0.02)
            for one in list(running):
                ended = _ended(one)
                if ended is not None:
                    running.remove(one)
                    yield ended


def _import_everything() -> None:
    for target, _ in COMMANDS.values():
        importlib.import_module(f"joulelab.{target.partition(':')[0]}")
    from joulelab.cli.models import SUBCOMMANDS

    for target in SUBCOMMANDS.values():
        importlib.import_module(target.partition(":")[0])
    for script in (ROOT / "experiments").glob("*.py"):
        runpy.run_path(str(script), run_name="read")
    for name in ("torch", "transformers", "joulelab.estimator.api", "ray"):
        importlib.import_module(name)


def _start(root: Path, number: int, request: Request) -> _Running:
    place = root / f"{number}"
    for name in ("out", "home", "tmp"):
        (place / name).mkdir(parents=True)
    true = number % TRUE_EVERY == 0 or any("\0" in word for word in request.words)
    true = true and not any("\0" in word for word in request.words)
    out, given = str(place / "out"), str(root / "given")
    words = [word.replace("{out}", out).replace("{given}", given) for word in request.words]
    environment = {
        "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "COLUMNS": "100",
        "RAY_TMPDIR": str(place / "tmp" / "ray"), "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }  # fmt: skip
    start_s = time.monotonic()
    if true:
        pid = _spawn(words, place, os.environ | environment)
    else:
        pid = os.fork()
        if pid == 0:
            _become(words, place, environment)
    return _Running(request=request, true=true, pid=pid, start_s=start_s, place=place)


def _spawn(words: Sequence[str], place: Path, environment: dict[str, str]) -> int:
    head = ["-m", "joulelab.cli.main"] if words[0] == "joulelab" else [str(ROOT / words[0])]
    with (place / "stdout").open("w") as said, (place / "stderr").open("w") as errors:
        return subprocess.Popen(
            [sys.executable, *head, *words[1:]], stdin=subprocess.DEVNULL, stdout=said,
            stderr=errors, cwd=place / "out", env=environment, start_new_session=True,
        ).pid  # fmt: skip


def _become(words: Sequence[str], place: Path, environment: dict[str, str]) -> NoReturn:
    """Run the request in this process, which was forked for it."""
    code = 1
    try:
        os.setsid()
        os.environ.update(environment)
        tempfile.tempdir = None
        os.chdir(place / "out")
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(place / name, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, descriptor)
        sys.stdout = io.TextIOWrapper(
            os.fdopen(1, "wb", closefd=False), "utf-8", line_buffering=True
        )
        sys.stderr = io.TextIOWrapper(
            os.fdopen(2, "wb", closefd=False), "utf-8", line_buffering=True
        )
        sys.argv = list(words) if words[0] == "joulelab" else [str(ROOT / words[0]), *words[1:]]
        if words[0] == "joulelab":
            code = joulelab()
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(one: _Running) -> Refusal | None:
    """Return how a request ended; ``None`` while it runs and may."""
    took_s = time.monotonic() - one.start_s
    pid, status = os.waitpid(one.pid, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status) if pid else None
    if not pid and took_s < LIMIT_S and not _is_huge(one.pid):
        return None
    _end_all(one.pid, reaped=bool(pid))
    said, errors = ((one.place / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    left = tuple(
        path.relative_to(one.place).as_posix()
        for folder in ("out", "home", "tmp")
        for path in sorted((one.place / folder).rglob("*"))
        if not _KEPT & set(path.relative_to(one.place).parts)
    )
    shutil.rmtree(one.place, ignore_errors=True)
    return Refusal(
        request=one.request, true=one.true, code=code, errors=errors, said=said, left=left,
        took_s=took_s,
    )  # fmt: skip


def _is_huge(pid: int) -> bool:
    try:
        return psutil.Process(pid).memory_info().rss > MOST_B
    except psutil.NoSuchProcess:
        return False


def _end_all(pid: int, *, reaped: bool) -> None:
    """End what is left of a request: its processes share the session that it began."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if process.pid != pid and os.getsid(process.pid) == pid:
                process.kill()
    if not reaped:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(pid).children(recursive=True):
                child.kill()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _tell(refusal: Refusal) -> None:
    how = "process" if refusal.true else "fork"
    print(f"{', '.join(refusal.faults) or 'ok'}: {refusal.request.name!r:.150} ({how})")
    print(f"    code {refusal.code}, {refusal.took_s:.1f} s, left {list(refusal.left)[:4]}")
    for line in refusal.errors.strip().splitlines()[-3:]:
        print(f"    {line!r:.180}")


def main(settings: Settings) -> int:
    """Run the table, print the failures and the counts; 1 if a request was not refused well."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = [r for r in requests() if any(text in r.name for text in settings.only or ("",))]
    asked = asked[:: settings.every]
    counts: Counter[str] = Counter()
    slow: list[str] = []
    for refusal in refusals(asked):
        counts.update(refusal.faults)
        counts["true processes"] += refusal.true
        counts["faulty"] += bool(refusal.faults)
        if refusal.took_s > SLOW_S:
            slow.append(f"{refusal.took_s:5.1f} s  {refusal.request.name!r:.120}")
        if refusal.faults or settings.show:
            _tell(refusal)
            sys.stdout.flush()
    print(f"\n{len(asked)} wrong requests, {counts['true processes']} of them as true processes")
    for fault in ("traceback", "endless", "exit code", "long-winded", "silent", "left-over"):
        print(f"  {fault:12} {counts[fault]:4}")
    print(f"  {'any':12} {counts['faulty']:4}")
    print(f"{len(slow)} took more than {SLOW_S:g} s, as those do that need Ray to be refused:")
    print("\n".join(sorted(slow, reverse=True)))
    return int(bool(counts["faulty"]))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Settings, description=__doc__)))
