"""torchvision, and what imports it, works beside any PyTorch."""

import subprocess
import sys
from pathlib import Path

PLATFORM = Path(__file__).parents[4] / "platform"
ENSURE = (
    f"import sys; sys.path.insert(0, {str(PLATFORM)!r})\n"
    "from joulelab.tracing.torchvision_shim import ensure_torchvision\n"
)


def run_python(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ENSURE + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_torchvision_timm_and_transformers_import_after_the_shim():
    done = run_python(
        "assert ensure_torchvision() is ensure_torchvision()\n"
        "import torchvision, timm\n"
        "from transformers import ViTConfig\n"
        "assert 'resnet50' in torchvision.models.list_models()"
    )

    assert done.returncode == 0, done.stderr


def test_without_torchvision_nothing_is_declared():
    done = run_python("sys.modules['torchvision'] = None\nassert ensure_torchvision() is None\n")

    assert done.returncode == 0, done.stderr
