"""What ``pip install joulelab`` costs without any extra: disk, and the time of ``import joulelab``.

Usage: python benchmarks/core_install.py
"""

import subprocess
import tempfile
import time
import venv
from pathlib import Path
from statistics import median

from figures import Figure, print_figures

ROOT = Path(__file__).parents[1]
NUM_IMPORTS = 11


def installed(folder: Path) -> Path:
    """Install the core into a new environment; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(ROOT)], check=True)
    return python


def size_b(folder: Path) -> int:
    """Bytes that a folder takes on disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def import_s(python: Path, code: str) -> float:
    """Median time of a new process that runs ``code``, less that of one that runs nothing."""
    return median(_run_s(python, code) - _run_s(python, "pass") for _ in range(NUM_IMPORTS))


def _run_s(python: Path, code: str) -> float:
    start_s = time.monotonic()
    subprocess.run([str(python), "-c", code], check=True, cwd="/")
    return time.monotonic() - start_s


def figures() -> list[Figure]:
    """Install the core, and return what it costs."""
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder))
        size_mb = size_b(Path(folder)) / 1e6
        own_s = import_s(python, "import joulelab")
        monitor_s = import_s(python, "import joulelab; joulelab.Monitor")
    return [
        figure("disk that the core takes, pip included", size_mb, 200.0, "MB"),
        figure("time of import joulelab", own_s, 0.3, "s"),
        figure("time of import joulelab with its Monitor", monitor_s, 0.3, "s"),
    ]


def figure(name: str, measured: float, promised: float, unit: str) -> Figure:
    """Return a figure of a new environment."""
    how = f"new environment; times are medians of {NUM_IMPORTS} processes"
    return Figure(name=name, measured=measured, promised=promised, unit=unit, how=how)


if __name__ == "__main__":
    print_figures(figures())
