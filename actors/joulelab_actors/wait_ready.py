"""``python -m joulelab_actors.wait_ready``: wait until all nodes of a Ray cluster have joined."""

import argparse
import logging
import sys
import time
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
    deadline_s = time.monotonic() + options.timeout_s
    address = _await_head(options.run_dir / "head", deadline_s)
    seen = _await_nodes(address, options.nodes, deadline_s) if address else 0
    if seen >= options.nodes:
        return 0
    sys.stderr.write(f"{seen} of {options.nodes} nodes joined in {options.timeout_s:g} s.\n")
    return 1


def _await_head(path: Path, deadline_s: float) -> str | None:
    """Return the head's address once its port is open; a dead try of Ray costs a minute."""
    while time.monotonic() < deadline_s:
        address = path.read_text().strip() if path.exists() else ""
        if ":" in address and answers(address, _PROBE_S):
            return address
        time.sleep(0.5)
    return None


def _await_nodes(address: str, num_nodes: int, deadline_s: float) -> int:
    """Return how many nodes have joined, at the latest at the deadline."""
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    seen = 0
    try:
        while seen < num_nodes and time.monotonic() < deadline_s:
            nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
            seen = sum(node["Alive"] for node in nodes)
            time.sleep(0.2)
    finally:
        ray.shutdown()
    return seen


if __name__ == "__main__":
    sys.exit(main())
