"""A PostgreSQL server of a test's own: real, on a free port of this machine, gone afterwards."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from joulelab.serving.deployment import free_port

USER = "ann"
_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_ACCOUNT = "postgres"


def binary(name):
    """The path of a program of PostgreSQL's, or None where it is not installed."""
    return shutil.which(name, path=os.pathsep.join([*map(str, _FOLDERS), os.environ["PATH"]]))


class PostgresqlServer:
    """Started as another account where this one is root, which PostgreSQL refuses."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="jl-pg-"))
        self._as = {}
        if os.geteuid() == 0:
            shutil.chown(self.folder, _ACCOUNT, _ACCOUNT)
            self._as = {"user": _ACCOUNT, "group": _ACCOUNT, "extra_groups": []}
        self.port = free_port()
        asked = [
            "-D",
            self._data,
            "-U",
            USER,
            "--auth=trust",
            "--no-sync",
            "--locale=C",
            "--encoding=UTF8",
        ]
        subprocess.run(
            [binary("initdb"), *asked], check=True, capture_output=True, cwd=self.folder, **self._as
        )
        self.start()

    @property
    def _data(self):
        return self.folder / "data"

    @property
    def _listening(self):
        return "-h", "127.0.0.1", "-p", f"{self.port}"

    def start(self):
        log = (self.folder / "log").open("a")
        self._process = subprocess.Popen(
            [binary("postgres"), *("-D", self._data, "-k", self.folder), *self._listening],
            cwd=self.folder,
            stdout=log,
            stderr=log,
            **self._as,
        )
        give_up_s = time.monotonic() + 60
        while not self.asked("SELECT 1"):
            assert time.monotonic() < give_up_s, (self.folder / "log").read_text()
            time.sleep(0.1)

    def kill(self):
        """End it and its sessions as a power cut would."""
        children = subprocess.run(
            ["pgrep", "-P", f"{self._process.pid}"], capture_output=True, text=True, check=False
        )
        for pid in [self._process.pid, *map(int, children.stdout.split())]:
            with suppress(ProcessLookupError):  # a session may have ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self):
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        shutil.rmtree(self.folder)

    def asked(self, statement):
        """The rows of a statement; none while the server does not answer."""
        import psycopg

        where = f"host=127.0.0.1 port={self.port} user={USER} dbname=postgres"
        try:
            with psycopg.connect(where, connect_timeout=30) as connection:
                return connection.execute(statement).fetchall()
        except psycopg.OperationalError:
            return []

    def address(self, artifacts):
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres?artifacts={artifacts}"
