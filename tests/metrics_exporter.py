"""The exporter of metrics as a process of a test's own."""

import os
import subprocess
import sys
from contextlib import contextmanager


@contextmanager
def exporting(*words, **environment):
    """Run the command, and yield it and the address it names."""
    command = [sys.executable, "-m", "joulelab.cli.main", "export-metrics", "--port", "0"]
    with subprocess.Popen(
        [*command, *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        try:
            first = process.stderr.readline()
            assert "Serving metrics at" in first, first + process.stderr.read()
            yield process, first.split()[-1]
        finally:
            process.kill()
