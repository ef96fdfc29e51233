import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path():
    """A folder with a short name: a Unix socket's path holds a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="guard", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
