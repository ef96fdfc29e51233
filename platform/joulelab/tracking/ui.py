"""``python -m joulelab.tracking.ui RESULTS_DIR``: serve the MLflow pages of a results folder.

The server listens on this machine alone, runs one worker, and leaves MLflow's job runner off: that
starts eight more processes and an interface that runs code.
"""

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from joulelab.errors import ConfigError, JouleLabError
from joulelab.tracking.base import embedded_uri

HOST = "127.0.0.1"
_PAGE = "#/experiments?workflowType=machine_learning"
"""Experiments as runs; MLflow's pages otherwise open on traces of language models."""
ENVIRONMENT = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ui:
    """Serve the MLflow pages of a results folder until Ctrl-C.

    Attributes:
        results_dir: Folder with the embedded store, mlflow.db.
        port: Port to listen on; the next free one if it is taken.
    """

    results_dir: tyro.conf.Positional[Path] = Path("results")
    port: int = 5000


def server_command(results_dir: Path, port: int) -> list[str]:
    """Return the command that serves ``results_dir``.

    Raises:
        ConfigError: If the folder has no MLflow store.
    """
    database = results_dir / "mlflow.db"
    if not database.is_file():
        raise ConfigError(
            f"{results_dir} must hold an MLflow store, but {database} does not exist; "
            f"run a study first, or deliver one with 'joulelab sync {results_dir}'."
        )
    uri = embedded_uri(results_dir)
    server = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    artifacts = (results_dir / "mlflow-artifacts").absolute().as_uri()
    where = ["--default-artifact-root", artifacts, "--host", HOST, "--port", str(port)]
    return [*server, *where, "--workers", "1"]


def free_port(first: int) -> int:
    """Return the first free port of this machine from ``first`` up.

    Raises:
        ConfigError: If ``first`` and the 20 after it are taken or out of range.
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


def main() -> None:
    """Print the address and become the server."""
    ui = tyro.cli(Ui)
    try:
        port = free_port(ui.port)
        command = server_command(ui.results_dir, port)
    except JouleLabError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    sys.stdout.write(
        f"MLflow: http://{HOST}:{port}/{_PAGE}  (ready in some seconds; Ctrl-C ends it)\n"
    )
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **ENVIRONMENT})  # noqa: S606 - no shell


if __name__ == "__main__":
    main()
