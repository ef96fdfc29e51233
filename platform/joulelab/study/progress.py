"""Show a study as it runs: how far it is, what every GPU does, and what went wrong."""

import logging
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from joulelab.analysis.quantities import counted
from joulelab.core.trial import Trial
from joulelab.errors import one_line
from joulelab.study.events import (
    AttemptFailed,
    Delivering,
    DeviceQuarantined,
    StudyEvent,
    StudyInterrupted,
    StudyStarted,
    TrackingDown,
    TrialMeasured,
    TrialStarted,
)

_log = logging.getLogger(__name__)


class StudyProgress(AbstractContextManager["StudyProgress"]):
    """A live line for the whole study; call it with every event.

    What makes measurements invalid is shown once for every reason, and counted at the end. On a
    terminal it is a moving bar; elsewhere (a job's log) a line at every tenth of the way. It is on
    standard error by default, so that results stay alone on standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar = self._make_bar()
        self._task = self._bar.add_task("starting", total=None, now="")
        self._busy: dict[str, str] = {}
        self._invalid: Counter[str] = Counter()
        self._done = 0
        self._total: int | None = None
        self._delivers = False

    def __enter__(self) -> "StudyProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        for reason, count in self._invalid.most_common():
            if count > 1:
                self.print_line(f"[yellow]{count} measurements in all are invalid: {reason}[/]")

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, highlight=False)

    def __call__(self, event: StudyEvent) -> None:
        """Take note of an event."""
        match event:
            case StudyStarted():
                self._begin(event)
            case TrialStarted():
                self._busy[event.uuid] = _short(event.trial)
                self._show()
            case TrialMeasured():
                self._measured(event)
            case AttemptFailed():
                outcome = "is tried again" if event.retried else "is given up"
                self.print_line(
                    f"[yellow]{_short(event.trial)} {outcome}:[/] {_plain(event.detail)}"
                )
            case DeviceQuarantined():
                self._busy.pop(event.uuid, None)
                self.print_line(f"[red]{event.uuid} is out of service:[/] {_plain(event.detail)}")
            case StudyInterrupted():
                self.print_line(
                    "[yellow]Interrupted:[/] concluding from what was measured; once more to leave "
                    f"at once. The study goes on with --study {event.study}"
                )
            case Delivering():
                self._deliver(event)
            case TrackingDown():
                self.print_line(f"[yellow]MLflow takes no results:[/] {_plain(event.detail)}")
                if self._console.quiet:
                    _log.warning("MLflow takes no results: %s", one_line(event.detail))
            case _:
                pass

    def _make_bar(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", style="dim"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def _begin(self, event: StudyStarted) -> None:
        self._total, self._done = event.num_trials, event.num_skipped
        again = f", {event.num_skipped} of them measured before" if event.num_skipped else ""
        trials = (
            "An open number of trials" if self._total is None else counted(self._total, "trial")
        )
        self.print_line(f"{trials}{again} on {', '.join(event.uuids)}")
        self._bar.update(self._task, total=self._total, completed=self._done)
        self._bar.update(self._task, description="measuring")

    def _measured(self, event: TrialMeasured) -> None:
        self._tell_findings(event)
        if event.retried:
            return
        self._done += 1
        self._show()
        if self._bar.disable:
            self._tell_done()

    def _tell_findings(self, event: TrialMeasured) -> None:
        for finding in (f for record in event.records for f in record.measurement.findings):
            self._invalid[finding.reason] += 1
            if self._invalid[finding.reason] == 1:
                self.print_line(
                    f"[yellow]{_short(event.trial)} is invalid:[/] {_plain(finding.detail)}"
                )

    def _deliver(self, event: Delivering) -> None:
        """Say what is waited for: on the line that moves, elsewhere once."""
        text = f"all is measured; MLflow still lacks {counted(event.num_left, 'measurement')}"
        if self._bar.disable and event.num_left and not self._delivers:
            self.print_line(text)
        self._delivers = self._delivers or event.num_left > 0
        self._bar.update(self._task, description="concluded", now=text)

    def _tell_done(self) -> None:
        """Print a line at every tenth of the way, or at every tenth trial if that is open."""
        if self._total is None:
            if self._done % 10 == 0:
                self.print_line(f"{self._done} trials done")
        elif (10 * self._done) // self._total > (10 * (self._done - 1)) // self._total:
            self.print_line(f"{self._done} of {counted(self._total, 'trial')} done")

    def _show(self) -> None:
        now = ", ".join(self._busy[uuid] for uuid in sorted(self._busy))
        self._bar.update(self._task, completed=self._done, now=now)


@contextmanager
def announced(text: str, console: Console | None = None) -> Generator[None]:
    """Say at once what is waited for: on a terminal as long as it takes, elsewhere as a line."""
    console = console or Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(text, highlight=False, soft_wrap=True)
        yield


def _plain(detail: str) -> str:
    """Return what a device, a library or a file said: no markup, and nothing for the terminal."""
    return escape(one_line(detail))


def _short(trial: Trial) -> str:
    point = trial.configuration.point.label
    return f"sentinel {trial.repeat}" if trial.sentinel else f"{point} #{trial.repeat + 1}"
