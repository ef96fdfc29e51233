"""Waiting for the nodes of a cluster, where the head is slow to answer."""

import sys

import pytest
import ray

from joulelab_actors import wait_ready


@pytest.fixture
def busy(monkeypatch, tmp_path):
    """Be a head whose port is open, and which answers at the third try; return the tries."""
    tries = []

    def init(**how):
        tries.append(how["address"])
        if len(tries) < 3:
            raise ConnectionError("Failed to connect to Ray cluster.")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: len(tries) >= 3)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True}] * 2)
    monkeypatch.setattr(wait_ready, "answers", lambda address, within_s: True)
    monkeypatch.setattr(wait_ready, "_PROBE_S", 0.01)
    (tmp_path / "head").write_text("10.0.0.1:6379")
    return tries


def waited(monkeypatch, folder, timeout_s):
    options = ["--run-dir", str(folder), "--nodes", "2", "--timeout-s", str(timeout_s)]
    monkeypatch.setattr(sys, "argv", ["wait_ready", *options])
    return wait_ready.main()


def test_a_head_that_is_slow_to_answer_is_tried_again(busy, monkeypatch, tmp_path):
    """On a busy machine a job ended with a traceback, although Ray started."""
    assert waited(monkeypatch, tmp_path, timeout_s=60.0) == 0
    assert len(busy) == 3


def test_a_head_that_never_answers_is_said_in_time(busy, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    assert waited(monkeypatch, tmp_path, timeout_s=0.2) == 1

    assert capsys.readouterr().err == "0 of 2 nodes joined in 0.2 s.\n"
