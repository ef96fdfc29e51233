import os
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

import joulelab
from joulelab.errors import ConfigError
from joulelab.workloads import WORKLOADS

WRONG = [
    ("gemm", {"n": 0}, "n must be a whole number of at least 1, got 0"),
    ("gemm", {"n": 16.0}, "n must be a whole number"),
    ("gemm", {"n": "16"}, "n must be a whole number"),
    ("gemm", {"batch": True}, "batch must be a whole number"),
    ("gemm", {"precision": "bf61"}, "precision 'bf61'. Did you mean 'bf16'"),
    ("gemm", {"data": "ones"}, "data 'ones'"),
    ("gemm", {"precision": "fp8", "n": 24}, "multiple of 16"),
    ("gemm", {"precisoin": "fp8"}, "Did you mean 'precision'"),
    ("stream", {"size_gb": -1.0}, "size_gb must be a positive number, got -1.0"),
    ("stream", {"size_gb": float("nan")}, "size_gb must be a positive number"),
    ("stream", {"size_gb": "big"}, "size_gb must be a positive number, got 'big'"),
    ("stream", {"size_gb": 1e-9}, "at least one number"),
    ("stream", {"kernel": "tirad"}, "Did you mean 'triad'"),
    ("idle", {"duration_s": 0}, "duration_s must be a positive number, got 0"),
    ("llama", {"model": "llama2-7b"}, "Did you mean .*'llama-2-7b'"),
    ("llama", {"new_tokens": 0}, "new_tokens must be a whole number of at least 1"),
    ("llama", {"kv_cache": "paged"}, "kv_cache 'paged'"),
    ("llama", {"prompt_tokens": 4096}, "at most 4096 for llama-2-7b, got 4096 \\+ 64"),
]


@pytest.mark.parametrize(("name", "knobs", "message"), WRONG)
def test_a_wrong_knob_is_refused_by_name_with_what_is_allowed(name, knobs, message):
    with pytest.raises(ConfigError, match=message):
        WORKLOADS[name].from_knobs(knobs)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_settings_make_a_command_line_with_a_line_of_help_for_each_knob(name, capsys):
    settings_type = WORKLOADS[name].settings_type

    with pytest.raises(SystemExit) as done:
        tyro.cli(settings_type, args=["--help"])

    assert done.value.code == 0
    text = capsys.readouterr().out
    for field in settings_type.__dataclass_fields__:
        assert f"--{field.replace('_', '-')}" in text
    assert "default" in text


def test_a_literal_knob_is_a_choice_on_the_command_line():
    settings = tyro.cli(WORKLOADS["llama"].settings_type, args=["--model", "tinyllama"])

    assert settings.model == "tinyllama"


def test_making_a_workload_imports_no_framework():
    code = (
        "import sys\n"
        "from joulelab.workloads import WORKLOADS\n"
        "import joulelab.workloads.disk_cache\n"
        "for name in WORKLOADS: WORKLOADS[name].from_knobs({})\n"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(joulelab.__file__).parents[1])},
        capture_output=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr.decode()
