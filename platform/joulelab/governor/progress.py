"""Progress of a server that counts its work, as Prometheus reads it."""

import re
from urllib.error import URLError
from urllib.request import urlopen

from joulelab.core.clock import MonotonicClock, Ticker
from joulelab.errors import ConfigError, MeasurementError
from joulelab.governor.governor import Governor

PERIOD_S = 0.5
_TIMEOUT_S = 2.0


class ServerProgress:
    """Reports to a governor what a server's counter counts, twice a second.

    It is at a ``url`` such as ``"http://localhost:8000/metrics"``, under a name such as
    ``"vllm:generation_tokens_total"``; those of all labels are added.

    Raises:
        ConfigError: If ``url`` is not one of HTTP.
    """

    def __init__(self, url: str, counter: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--progress-url must begin with http:// or https://, got {url}.")
        self._url = url
        self._line = re.compile(rf"^{re.escape(counter)}(?:\{{.*\}})? ([0-9.eE+-]+)", re.MULTILINE)
        self._counter = counter
        self._before: float | None = None
        self._ticker: Ticker | None = None
        self.failure = ""
        """Why the last read failed; empty if it did not."""

    def start(self, governor: Governor) -> None:
        """Report until :meth:`stop`; a server that is not up yet is waited for."""
        self._ticker = MonotonicClock().every(PERIOD_S, lambda: self._report(governor))

    def stop(self) -> None:
        """Report no more. Safe to call twice."""
        if self._ticker is not None:
            self._ticker.stop()

    def read(self) -> float:
        """Read the counter.

        Raises:
            MeasurementError: If there is no such counter.
            OSError: If the server does not answer.
        """
        with urlopen(self._url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - checked above
            found = self._line.findall(answer.read().decode())
        if not found:
            raise MeasurementError(
                f"{self._url} must have the counter {self._counter}, and has not; "
                "--progress-counter names another one."
            )
        return sum(map(float, found))

    def _report(self, governor: Governor) -> None:
        try:
            count = self.read()
        except (OSError, URLError, MeasurementError) as error:
            self.failure = str(error)
            return
        self.failure = ""
        if self._before is not None and count > self._before:  # less after a server's restart
            governor.progress(count - self._before)
        self._before = count
