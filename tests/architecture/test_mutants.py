"""Mutants that `benchmarks/mutants.py` plants can still be planted."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUSPECTS = tomllib.loads((ROOT / "benchmarks/mutants.toml").read_text())["suspect"]


@pytest.mark.parametrize("file", sorted({each["file"] for each in SUSPECTS}))
def test_what_a_mutant_replaces_stands_once_in_its_file(file):
    text = (ROOT / file).read_text()
    mutants = [each["mutants"] for each in SUSPECTS if each["file"] == file]

    counts = {
        name: text.count(old)
        for some in mutants
        for name, (old, _) in some.items()
        if text.count(old) != 1
    }

    assert counts == {}
