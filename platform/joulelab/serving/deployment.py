"""A server to be asked: one that is started for it, or one that runs already."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count

from joulelab.errors import ConfigError, MeasurementError
from joulelab.serving.client import Client, Reply
from joulelab.serving.settings import ServerSettings

RUNNING_S = 5.0
"""How long a server that was not started here may take to its first answer."""
_URL = "http://127.0.0.1:8000"
_PORT = "{port}"
_PAGES = ("/health", "/v1/models")
"""The first of these that a server has tells whether it is ready: llama.cpp lists its model while
it loads it."""
_MISSING = (404, 405, 501)
_FORBIDDEN = (401, 403)
_LOOK_S = 0.3
_IDENTITY = ("command", "url", "pid", "key_variable", "timeout_s")
_GRACE_S = 20
_LAST_LINES = 15
_WATCH = f"""exec 3<&0
(
    read -r _ <&3 && exit
    kill -s TERM -- "-$1"
    left_s={_GRACE_S}
    while [ $left_s -gt 0 ] && kill -s 0 -- "-$1"; do sleep 1; left_s=$((left_s - 1)); done
    kill -s KILL -- "-$1"
) 2>/dev/null >&2 &"""
"""Ends a process group unless it hears first that this has been done: reading ends without a word
when whoever holds the pipe's other end dies, in whatever way. It is nobody's child, and so survives
those who kill the children of a dead process."""


class ServerProcess:
    """Runs a server in its own process group, ``environment`` added, or raises ConfigError."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise ConfigError(f"The server cannot be started: {error}.") from error
        self.pid = self._process.pid
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def exit_code(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The end of its output."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def close(self) -> None:
        """End the server and whatever it started. Safe to call twice."""
        if self._log.closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._watch.communicate(b"ended\n")
        self._log.close()


class Deployment:
    """Starts a server, or finds the one that runs; ``client`` asks it at ``url``.

    Descendants of ``pid`` are the server's. One that is started has ``environment`` besides this
    process's. Raises ConfigError if it is not clear which one, it cannot be started, or its address
    is taken.
    """

    def __init__(
        self, settings: ServerSettings, environment: Mapping[str, str] | None = None
    ) -> None:
        self._settings = settings
        if bool(settings.command) == (settings.pid is not None):
            raise ConfigError(
                "A server needs its command line, or the process (pid) of one that runs already, "
                "and not both, to know which processes are the server's."
            )
        port = str(free_port()) if _PORT in settings.command else ""
        default = f"http://127.0.0.1:{_PORT}" if port else _URL
        self.url = (settings.url or default).replace(_PORT, port)
        self._key = _key_in(settings.key_variable)
        self.client = Client(self.url, timeout_s=settings.timeout_s, key=self._key)
        self.command = tuple(word.replace(_PORT, port) for word in settings.words)
        self._numbers = count()
        self._process: ServerProcess | None = None
        if self.command:
            self._check_command()
            self._process = ServerProcess(self.command, environment)
        self.pid = self._process.pid if self._process else settings.pid or 0

    def is_for(self, settings: ServerSettings) -> bool:
        """Whether ``settings`` mean this server, whatever it is asked."""
        own = self._settings
        return all(getattr(own, name) == getattr(settings, name) for name in _IDENTITY)

    async def ready(self) -> float:
        """Wait until it answers; return how long that took, in seconds.

        Raises ConfigError if it refuses the key, or its certificate is not trusted,
        MeasurementError if it ends, or does not answer in time; tells its last words.
        """
        limit_s = self._settings.ready_timeout_s if self._process else RUNNING_S
        begin_s = time.monotonic()
        while not await self._answers():
            self.require_running()
            if time.monotonic() - begin_s > limit_s:
                raise MeasurementError(
                    f"The server must be ready within {limit_s:g} s, and answered none of "
                    f"{', '.join(_PAGES)} at {self.url}. {self._last_words}"
                )
            await asyncio.sleep(_LOOK_S)
        self.require_running()
        return time.monotonic() - begin_s

    async def warmed_up(self, settings: ServerSettings) -> str:
        """Ask as often as warms it up; return which model is asked; JouleLabError if that fails."""
        model = settings.model or await self._first_model()
        for _ in range(settings.warmup):
            answer = await self.ask(settings, model, time.monotonic())
            if answer.failure:
                raise MeasurementError(f"The server failed in the warm-up: {answer.failure}")
        return model

    async def ask(self, settings: ServerSettings, model: str, due_s: float) -> Reply:
        """Send the next request; no prompt comes twice, which a server could answer from memory."""
        body = settings.body(model, next(self._numbers))
        return await self.client.ask(settings.path, body, due_s)

    def require_running(self) -> None:
        """Raise MeasurementError, with its last words, if a server started here has ended."""
        if self._process is not None and self._process.exit_code is not None:
            raise MeasurementError(
                f"The server ended with exit code {self._process.exit_code}. Its last words:\n"
                f"{self._last_words}"
            )

    def close(self) -> None:
        """End it if it was started here. Safe to call twice."""
        if self._process is not None:
            self._process.close()

    async def _answers(self) -> bool:
        for page in _PAGES:
            try:
                status, _ = await self.client.get(page)
            except ssl.SSLCertVerificationError as error:
                raise ConfigError(
                    f"The certificate of {self.url} must be trusted: {error.verify_message}. Name "
                    "the file of those who sign it by the variable SSL_CERT_FILE."
                ) from error
            except (OSError, EOFError, ValueError, IndexError):
                continue
            _require_allowed(status)
            if status not in _MISSING:
                return status == 200
        return False

    async def _first_model(self) -> str:
        status, body = await self.client.get(_PAGES[-1])
        _require_allowed(status)
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            return str(json.loads(body)["data"][0]["id"])
        raise ConfigError(f"The server tells of no model at {_PAGES[-1]}; name one with --model.")

    def _check_command(self) -> None:
        if self._key is not None and self._key in self._settings.command:
            raise ConfigError(
                "The server's key must not be in its command line, which is stored; servers take "
                "it from a variable as well, vLLM from VLLM_API_KEY."
            )
        with suppress(OSError), socket.create_connection(self.client.address, timeout=1.0):
            raise ConfigError(
                f"The server must be the only one at its address, but something answers at "
                f"{self.url} already. Measure that by its pid, or take another port; {_PORT} in "
                "the command stands for a free one."
            )

    @property
    def _last_words(self) -> str:
        return self.client.without_key(self._process.last_words) if self._process else ""


def pid_of_unit(unit: str) -> int:
    """Return the main process of a systemd unit; ConfigError if it does not run."""
    command = ["systemctl", "show", "--property=MainPID", "--value", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"systemd cannot be asked for {unit}: {error}.") from error
    pid = int(done.stdout.strip() or 0)
    if pid == 0:
        raise ConfigError(f"The unit {unit} must run to be measured, but has no process.")
    return pid


def _key_in(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise ConfigError(f"The variable {variable} must hold the server's key, but is empty here.")
    return key


def _require_allowed(status: int) -> None:
    if status in _FORBIDDEN:
        raise ConfigError(
            f"The server refuses us (HTTP {status}); name the environment variable that holds its "
            "key: --key-variable OPENAI_API_KEY."
        )


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
