"""``joulelab top``: watch the GPUs of this machine."""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro
from rich.live import Live

from joulelab.cli.devices import plain
from joulelab.cli.live_options import LiveOptions
from joulelab.cli.live_table import live_table
from joulelab.cli.terminal import terminal
from joulelab.core.bounds import DAY_S, check_positive
from joulelab.errors import ConfigError
from joulelab.live.session import LiveSession, LiveView


@dataclass(frozen=True, kw_only=True)
class Top(LiveOptions):
    """Watch the GPUs of this machine: power, energy, clocks, heat, throttling, who holds them.

    It only reads, and calls no setter. Ctrl-C ends it.

    Attributes:
        interval_s: Time between two looks.
        once: Look once, print, and end.
        json: Print one JSON object instead of a table; with --once.
    """

    interval_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 1.0
    once: bool = False
    json: bool = False

    def run(self) -> int:
        """Look until interrupted, or once; 1 if a GPU could not be read at all then."""
        check_positive("--interval-s", self.interval_s, DAY_S)
        if self.json and not self.once:
            raise ConfigError("--json prints one object and needs --once beside it.")
        with self.open_session() as session:
            return self._tell(session.look()) if self.once else self._watch(session)

    def _tell(self, view: LiveView) -> int:
        if self.json:
            print(json.dumps(asdict(view), indent=2, default=plain))
        else:
            terminal().print(live_table(view))
        return int(any(gpu.power_w is None and gpu.state is None for gpu in view.gpus))

    def _watch(self, session: LiveSession) -> int:
        console = terminal()
        if not console.is_terminal:
            for view in self._views(session):
                console.print(live_table(view))
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            for view in self._views(session):
                screen.update(live_table(view), refresh=True)
        return 0

    def _views(self, session: LiveSession) -> Iterator[LiveView]:
        """Look every interval, without end."""
        while True:
            started_s = time.monotonic()
            yield session.look()
            time.sleep(max(0.0, started_s + self.interval_s - time.monotonic()))
