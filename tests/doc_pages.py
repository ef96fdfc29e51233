"""What README and documentation hold: blocks of code, and words within lines."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "cluster/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROGRAM = """
import time

from joulelab.core.cost import KernelCost, PhaseCost


def step(batch=1):
    time.sleep(0.2)


def cost(batch):
    kernel = KernelCost(name="gemm", pipe="tensor_bf16", flop=1e12 * batch, dram_b=1e9)
    return PhaseCost(phase="run", work=batch, kernels=(kernel,))


step.cost = cost
"""
"""Somebody's program: it takes time, and says what it would cost a GPU."""
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WORDS = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")


def name_of(path):
    return str(path.relative_to(ROOT))


def blocks(text, language=""):
    return [code for found, code in _FENCED.findall(text) if found == language]


def write_files(text, folder):
    """Write the examples that begin with the name of their file, and ``train.py`` in any case."""
    (folder / "train.py").write_text(PROGRAM)
    for code in blocks(text, "python"):
        if found := re.match(r"# ([\w./-]+\.py)", code):
            path = folder / found[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)


def commands(text):
    """Commands on lines of their own, as words, without comments."""
    lines = "".join(blocks(text)).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def mentions(text):
    """What stands between backticks within lines, but for headings."""
    text = re.sub(r"^#.*$", "", _FENCED.sub("", text), flags=re.MULTILINE)
    return [" ".join(found.split()) for found in _WORDS.findall(text)]
