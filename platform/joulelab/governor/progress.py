"""Progress of a server that counts its work, as Prometheus reads it."""

import re
from urllib.error import URLError
from urllib.request import urlopen

from joulelab.core.clock import MonotonicClock, Ticker
from joulelab.errors import ConfigError, MeasurementError
from joulelab.governor.governor import Governor
from joulelab.governor.strategy import Rules

PERIOD_S = 0.5
_TIMEOUT_S = 2.0


class ServerProgress:
    """Reports to a governor what a server's counter counts, twice a second.

    It is at a ``url`` such as ``"http://localhost:8000/metrics"``, under a name such as
    ``"vllm:generation_tokens_total"``; those of all labels are added. With a ``histogram`` of
    latencies, such as ``"vllm:time_per_output_token_seconds"``, the mean of those that were added
    since the last read is reported, too. Raises ConfigError if ``url`` is not one of HTTP.
    """

    def __init__(self, url: str, counter: str, histogram: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--progress-url must begin with http:// or https://, got {url}.")
        self._url = url
        latencies = () if histogram is None else (f"{histogram}_count", f"{histogram}_sum")
        self._names = (counter, *latencies)
        self._before: tuple[float, ...] | None = None
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

    def read(self) -> tuple[float, ...]:
        """Read the counter, then number and sum of the latencies where they are asked for.

        Raises MeasurementError if one of them is not there; OSError if the server does not answer.
        """
        with urlopen(self._url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - checked above
            text = answer.read().decode()
        return tuple(self._sum(name, text) for name in self._names)

    def _sum(self, name: str, text: str) -> float:
        line = rf"^{re.escape(name)}(?:\{{.*\}})? ([0-9.eE+-]+)"
        found = re.findall(line, text, re.MULTILINE)
        if not found:
            raise MeasurementError(
                f"{self._url} must have the counter {name}, and has not; --progress-counter and "
                "--latency-histogram name others."
            )
        return sum(map(float, found))

    def _report(self, governor: Governor) -> None:
        try:
            counts = self.read()
        except (OSError, URLError, MeasurementError) as error:
            self.failure = str(error)
            return
        self.failure = ""
        before, self._before = self._before, counts
        if before is None:
            return
        num, *latencies = (now - then for now, then in zip(counts, before, strict=True))
        if num > 0:  # less after a server's restart
            governor.progress(num)
        if latencies and latencies[0] > 0:
            governor.latency(latencies[1] / latencies[0])


def server_progress(
    url: str | None, counter: str, histogram: str, rules: Rules
) -> ServerProgress | None:
    """Return who reads a server's progress, and its latencies where ``rules`` limit these.

    Raises ConfigError if latencies are limited and no ``url`` says where they are.
    """
    has_limit = rules.latency_limit_s is not None
    if url is not None:
        return ServerProgress(url, counter, histogram if has_limit else None)
    if has_limit:
        raise ConfigError(
            "--latency-limit-s needs the latencies of a server, got no --progress-url; give that, "
            "or report latencies from Python (docs/how-to/governing.md)."
        )
    return None
