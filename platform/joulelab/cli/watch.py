"""``joulelab watch`` and ``ui``: pages served to this machine, of a study and of MLflow."""

import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated
from urllib.error import URLError
from urllib.request import urlopen

import tyro

from joulelab.core.bounds import DAY_S, check_positive, check_range
from joulelab.errors import ANALYSIS, ConfigError, JouleLabError, one_line, require
from joulelab.tracking.addresses import embedded_uri, typed
from joulelab.tracking.store import DEFAULT_RESULTS
from joulelab.tracking.study import STATE
from joulelab.tracking.study_lock import holder_of
from joulelab.tracking.vocabulary import VIEW, VIEW_TAG

_HEADER = "study.json"
_NICENESS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Serve the page of a running study until Ctrl-C: how far it is, and what it has so far.

    The page is made of the results folder, and loads itself anew. It is served to this machine
    alone, and made only when somebody looks and something is new.
    """

    # Results folder of one study, or a folder that holds several: then the newest.
    study: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    # Time after which the page asks again.
    interval_s: Annotated[float, tyro.conf.arg(metavar="SECONDS")] = 5.0
    # Port to listen on; the next free one if it is taken.
    port: Annotated[int, tyro.conf.arg(metavar="PORT")] = 8765

    def run(self) -> int:
        """Serve until interrupted; ConfigError if there is no study, or no free port."""
        check_positive("--interval-s", self.interval_s, DAY_S)
        check_range("--port", self.port, 1, 65535)
        require(*ANALYSIS)
        folder = self.study.expanduser()
        newest_study(folder)  # refuses a folder without one
        os.nice(_NICENESS)  # on a node that measures, drawing gives way
        handler = _handler(LivePage(folder).text, self.interval_s)
        with ThreadingHTTPServer((HOST, free_port(self.port)), handler) as server:
            where = f"http://{HOST}:{server.server_port}/"
            print(f"Serving {folder} at {where}; Ctrl-C ends it.", file=sys.stderr, flush=True)
            server.serve_forever()
        return 0


class LivePage:
    """The page of the newest study in ``folder``, made again where that has changed since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._of: object = None
        self._text = ""

    def text(self) -> str:
        """Return the page as it is now; JouleLabError if there is none."""
        from joulelab.study.conclude import live_page

        with self._turn:
            study = newest_study(self._folder)
            now = _fingerprint(study)
            if now != self._of:
                self._text = live_page(study)
                self._of = now
            return self._text


def newest_study(folder: Path) -> Path:
    """Return ``folder`` if a study is in it, else the one of those within that has news last.

    Raises ConfigError if there is none.
    """
    if (folder / _HEADER).exists():
        return folder
    found = {path.parent: _changed_ns(path.parent) for path in folder.glob(f"*/{_HEADER}")}
    if not found:
        raise ConfigError(
            f"{folder} must be the results folder of a study that has begun, or hold some; it "
            f"{'has none' if folder.is_dir() else 'does not exist'}."
        )
    return max(found, key=lambda each: found[each])


def _changed_ns(folder: Path) -> int:
    return max(path.stat().st_mtime_ns for name in (_HEADER, STATE) for path in folder.glob(name))


def _fingerprint(folder: Path) -> object:
    """Return what changes with every measurement, and with who has the study."""
    found: list[object] = [holder_of(folder)]
    for path in sorted((*folder.glob("*.json"), *folder.glob("measurements/*"))):
        status = path.stat()
        found.append((path, status.st_size, status.st_mtime_ns))
    return found


def _handler(page: Callable[[], str], interval_s: float) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A name that others have given this machine is how their pages would reach in.
            name = self.headers.get("Host", "").partition(":")[0]
            if self.path != "/" or name not in (HOST, "localhost"):
                self.send_error(404)
                return
            try:
                self._send(200, "html", page())
            except (JouleLabError, OSError) as error:
                self._send(500, "plain", one_line(error))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Refresh", f"{interval_s:g}")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Keep the terminal quiet."""

    return Handler


HOST = "127.0.0.1"
_WORKFLOW = "workflowType=machine_learning"
"""Experiments as runs; MLflow's pages otherwise open on traces of language models."""
_MOST_LINKS = 5
ENVIRONMENT = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ui:
    """Serve the MLflow pages of a results folder until Ctrl-C."""

    # Folder with the embedded store, mlflow.db.
    results_dir: tyro.conf.Positional[Path] = DEFAULT_RESULTS
    port: int = 5000  # Port to listen on; the next free one if it is taken.
    # Open the newest experiment in the browser of this desktop, if there is one.
    browse: bool = True

    def run(self) -> int:
        """Print the addresses of the pages, and become the server.

        Raises ConfigError if MLflow is not installed, or there is no store or no free port.
        """
        require("mlflow")
        port, results_dir = free_port(self.port), self.results_dir.expanduser()
        command = server_command(results_dir, port)
        address = f"http://{HOST}:{port}"
        found = pages(results_dir, address)
        sys.stdout.write("MLflow is ready in some seconds; Ctrl-C ends it.\n")
        for name, page in found[:_MOST_LINKS]:
            sys.stdout.write(f"  {page}  {name}\n")
        sys.stdout.write(f"  {address}/#/experiments?{_WORKFLOW}  all {len(found)} experiments\n")
        sys.stdout.flush()
        if self.browse and found and has_desktop(os.environ):
            browser = [sys.executable, "-m", __name__, address, found[0][1]]
            subprocess.Popen(browser, stdin=subprocess.DEVNULL)
        os.execve(command[0], command, {**os.environ, **ENVIRONMENT})  # noqa: S606 - no shell


def server_command(results_dir: Path, port: int) -> list[str]:
    """Return the command that serves ``results_dir``.

    Raises ConfigError if the folder has no MLflow store.
    """
    database = results_dir / "mlflow.db"
    if not database.is_file():
        raise ConfigError(
            f"{results_dir} must hold an MLflow store, but {database} does not exist; "
            f"run a study first, or deliver one with `joulelab sync {typed(results_dir)}`."
        )
    uri = embedded_uri(results_dir)
    server = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    artifacts = (results_dir / "mlflow-artifacts").absolute().as_uri()
    where = ["--default-artifact-root", artifacts, "--host", HOST, "--port", str(port)]
    return [*server, *where, "--workers", "1"]


def pages(results_dir: Path, address: str) -> list[tuple[str, str]]:
    """Return name and address of every experiment's runs, the newest study first.

    The address opens them with the columns of :mod:`joulelab.tracking.vocabulary`, but for
    experiments that were made without them.
    """
    database = (results_dir / "mlflow.db").absolute().as_uri()
    with closing(sqlite3.connect(f"{database}?mode=ro", uri=True)) as connection:
        found = connection.execute(
            "SELECT experiments.name, experiment_id, experiment_id IN "
            "(SELECT experiment_id FROM experiment_tags WHERE key = ?) "
            "FROM experiments JOIN runs USING (experiment_id) "
            "WHERE experiments.lifecycle_stage = 'active' "
            "GROUP BY experiment_id ORDER BY MAX(start_time) DESC",
            (VIEW_TAG,),
        ).fetchall()
    view = {True: f"{_WORKFLOW}&viewStateShareKey={VIEW}", False: _WORKFLOW}
    return [(name, f"{address}/#/experiments/{n}/runs?{view[bool(has)]}") for name, n, has in found]


def has_desktop(environment: Mapping[str, str]) -> bool:
    """Whether a browser can be shown; one of a terminal would take the terminal."""
    return sys.platform == "darwin" or bool(
        environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    )


def free_port(first: int) -> int:
    """Return the first free port of this machine from ``first`` up.

    Raises ConfigError if ``first`` and the 20 after it are taken or out of range.
    """
    for port in range(first, min(first + 21, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise ConfigError(f"port must be free or have a free one soon after it, got {first}.")


PATIENCE_S = 60.0
_LOOK_S = 0.5


def open_when_ready(
    address: str, page: str, *, show: Callable[[str], bool], patience_s: float = PATIENCE_S
) -> bool:
    """Open a page with ``show`` as soon as its server answers; return whether it was opened."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        try:
            urlopen(address, timeout=5).close()  # noqa: S310 - our own server
        except (URLError, TimeoutError):
            time.sleep(_LOOK_S)
        else:
            return show(page)
    return False


if __name__ == "__main__":
    open_when_ready(sys.argv[1], sys.argv[2], show=webbrowser.open)
