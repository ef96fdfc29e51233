"""Names become models, and wrong names become advice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.estimator.models import find_model, model_names, sources, trace_model
from joulelab.workloads import WORKLOADS

PLATFORM = Path(__file__).parents[4] / "platform"


@pytest.fixture(scope="module")
def names():
    return model_names()


def test_torchvision_and_timm_are_listed_whole(names):
    assert len(names["torchvision"]) == 121
    assert len(names["timm"]) > 1000
    assert all(name.startswith("timm:") for name in names["timm"])


def test_every_workload_is_listed_by_itself(names):
    assert names["workload"] == tuple(f"workload:{name}" for name in sorted(WORKLOADS))


def test_advice_on_a_wrong_name_needs_no_library_once_names_are_kept(tmp_path, monkeypatch):
    """Listing them takes torchvision, transformers and timm, 5 s of the processor."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sources._listed.cache_clear()
    model_names()
    code = (
        "import sys\n"
        "from joulelab.errors import UnknownNameError\n"
        "from joulelab.estimator.models import find_model\n"
        "try: find_model('resnt50')\n"
        "except UnknownNameError as error: print('resnet50' in str(error), 'torch' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PLATFORM)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "True False\n"


def test_a_plain_name_that_two_sources_know_is_that_of_torchvision():
    assert find_model("resnet18").trace is not None
    assert find_model("resnet18").title == "resnet18"
    assert find_model("timm:resnet18").title == "timm:resnet18"


def test_a_plain_name_that_only_timm_knows_is_found():
    assert find_model("mobilevit_s").title == "timm:mobilevit_s"


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("resnet5", "resnet50"),
        ("lama-2-7b", "llama-2-7b"),
        ("yolov8", "yolov8x"),
        ("workload:gem", "gemm"),
    ],
)
def test_a_misspelt_name_is_answered_with_close_ones(name, close):
    with pytest.raises(UnknownNameError, match=f"Did you mean .*{close}"):
        find_model(name)


def test_an_unknown_source_is_answered_with_those_that_exist():
    with pytest.raises(UnknownNameError, match="timm"):
        find_model("tim:resnet18")


def test_an_unknown_knob_is_answered_with_those_of_the_model():
    with pytest.raises(UnknownNameError, match="image_size"):
        trace_model("resnet18", batch=1, precision="fp32", imagesize=128)


@pytest.mark.parametrize("size", [-1, 1.5, "large", True])
def test_a_knob_that_counts_takes_whole_numbers_only(size):
    with pytest.raises(ConfigError, match="whole number"):
        trace_model("resnet18", batch=1, precision="fp32", image_size=size)


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="batch must be at least 1"):
        trace_model("resnet18", batch=0, precision="fp32")


def test_an_unknown_precision_is_refused_before_anything_is_built():
    with pytest.raises(UnknownNameError, match="fp16"):
        trace_model("resnet18", batch=1, precision="fp17")


def test_naming_models_imports_no_framework():
    code = (
        f"import sys; sys.path.insert(0, {str(PLATFORM)!r})\n"
        "import joulelab.estimator.models\n"
        "sys.exit(bool({'torch', 'transformers', 'torchvision', 'timm'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
