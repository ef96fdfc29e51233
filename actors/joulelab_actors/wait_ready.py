"""``python -m joulelab_actors.wait_ready``: wait until all nodes of a Ray cluster have joined."""

import argparse
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from joulelab_actors.session import answers

_PROBE_S = 2.0


def main() -> int:
    """Return 0 once the nodes are there, 1 if they are not in time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--timeout-s", type=float, default=300.0)
    options = parser.parse_args()
    wait = _Wait(options.run_dir / "failed", time.monotonic() + options.timeout_s)
    address = _await_head(options.run_dir / "head", wait)
    seen = _await_nodes(address, options.nodes, wait) if address else 0
    if seen >= options.nodes:
        return 0
    reason = wait.failure or f"{seen} of {options.nodes} nodes joined in {options.timeout_s:g} s."
    sys.stderr.write(f"{reason}\n")
    return 1


@dataclass(frozen=True, slots=True)
class _Wait:
    """How long to wait, and where a node says that it has failed."""

    failed: Path
    deadline_s: float

    @property
    def failure(self) -> str:
        return self.failed.read_text() if self.failed.exists() else ""

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline_s or bool(self.failure)


def _await_head(path: Path, wait: _Wait) -> str | None:
    """Return the head's address once its port is open; a dead try of Ray costs a minute."""
    while not wait.is_over:
        address = path.read_text().strip() if path.exists() else ""
        if ":" in address and answers(address, _PROBE_S):
            return address
        time.sleep(0.5)
    return None


def _await_nodes(address: str, num_nodes: int, wait: _Wait) -> int:
    """Return how many nodes have joined, at the latest when the wait is over.

    The port of a head is open before it answers, on a busy machine for longer than Ray tries.
    """
    seen = 0
    while not wait.is_over and not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError:
            time.sleep(_PROBE_S)
    try:
        while seen < num_nodes and not wait.is_over:
            nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
            seen = sum(node["Alive"] for node in nodes)
            time.sleep(0.2)
    finally:
        ray.shutdown()
    return seen


if __name__ == "__main__":
    sys.exit(main())
