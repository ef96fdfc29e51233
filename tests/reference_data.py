"""Where tests find the measured data that the project does not ship."""

import csv
from pathlib import Path

import pytest

_DATA = Path(__file__).parents[2] / "shared" / "data"


def reference_csv(name: str) -> Path:
    """Return the path of a reference table, or skip the test that asks for it."""
    path = _DATA / name
    if not path.is_file():
        pytest.skip(f"reference data {name} is not at ../shared/data beside the repository")
    return path


def reference_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a reference table, or skip the test that asks for them."""
    return list(csv.DictReader(reference_csv(name).read_text().splitlines()))
