"""Folders for what is watched."""

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def folder():
    """A folder with a short name: a Unix socket's path holds a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="live"))
    yield folder
    shutil.rmtree(folder)
