"""Traces that a later process finds on disk."""

import os
import subprocess
import sys
import zlib

import pytest

from joulelab.estimator import estimate
from joulelab.estimator.models import trace_model
from joulelab.estimator.models.sources import _model_at, decoded, encoded, kept_trace

ASKED = {"name": "resnet18", "batch": 2}


@pytest.fixture
def traced():
    return trace_model("resnet18", batch=2, precision="int8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "joulelab" / "traces"


def never():
    raise AssertionError("was traced again")


def test_what_is_read_is_what_was_written(traced):
    assert decoded(encoded(traced)) == traced


def test_a_language_model_with_its_cache_is_read_as_it_was():
    traced = trace_model("hf:llama?num_hidden_layers=1", batch=1, precision="fp16", new_tokens=2)

    assert decoded(encoded(traced)) == traced


@pytest.mark.parametrize("text", [b"", b"{}", zlib.compress(b"{}"), zlib.compress(b"[1]")])
def test_what_is_no_trace_is_refused(text):
    with pytest.raises(ValueError, match="not a trace"):
        decoded(text)


def test_a_kept_trace_is_not_made_again(traced, folder):
    kept_trace(ASKED, lambda: traced, is_own=lambda: True)

    assert kept_trace(ASKED, never, is_own=lambda: True) == traced


def test_another_question_has_another_entry(traced, folder):
    kept_trace(ASKED, lambda: traced, is_own=lambda: True)

    with pytest.raises(AssertionError, match="traced again"):
        kept_trace(ASKED | {"batch": 3}, never, is_own=lambda: True)


def test_a_broken_entry_is_made_anew(traced, folder):
    kept_trace(ASKED, lambda: traced, is_own=lambda: True)
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-9])

    assert kept_trace(ASKED, lambda: traced, is_own=lambda: True) == traced


def test_what_code_of_others_made_is_not_kept(traced, folder):
    kept_trace(ASKED, lambda: traced, is_own=lambda: False)

    assert not folder.exists()


@pytest.mark.usefixtures("folder")
def test_a_second_process_needs_no_pytorch():
    code = (
        "import sys; from joulelab.estimator import estimate;"
        "print(estimate('resnet18', device='h100').energy_j, 'torch' in sys.modules)"
    )
    _model_at.cache_clear()  # what this process remembers is on no disk

    first = estimate("resnet18", device="h100")
    second = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert second == [str(first.energy_j), "False"]
