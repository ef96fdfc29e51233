import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.cost import PIPES, KernelCost, PhaseCost, WorkloadCost
from joulelab.workloads import disk_cache
from joulelab.workloads.base import Workload
from joulelab.workloads.disk_cache import (
    cached_cost,
    cost_from_json,
    cost_key,
    cost_to_json,
    user_folder,
)

AMOUNTS = st.floats(0, 1e30) | st.integers(0, 2**60)
KERNELS = st.builds(
    KernelCost,
    name=st.text(max_size=5),
    pipe=st.sampled_from(PIPES),
    flop=AMOUNTS,
    dram_b=AMOUNTS,
    count=st.integers(1, 10**9),
)
PHASES = st.builds(
    PhaseCost,
    phase=st.text(max_size=5),
    work=st.floats(1e-9, 1e9),
    kernels=st.lists(KERNELS, max_size=4).map(tuple),
    wait_s=st.floats(1e-9, 1e9),
)
COSTS = st.builds(
    WorkloadCost,
    unit=st.text(max_size=5),
    phases=st.lists(PHASES, max_size=3).map(tuple),
    resident_b=AMOUNTS,
    data=st.sampled_from(["random", "zeros"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSettings:
    size: int = 1


class Counted(Workload[CountedSettings]):
    """A workload that counts how often its cost was counted."""

    settings_type: ClassVar = CountedSettings
    unit: ClassVar = "step"
    num_counts: ClassVar = 0
    phases = ("step",)

    def prepare(self):
        pass

    def run(self, phase):
        return 1.0

    def close(self):
        pass

    def cost(self):
        type(self).num_counts += 1
        kernel = KernelCost(name="copy", pipe="fp32", flop=0.1, dram_b=float(self.settings.size))
        phase = PhaseCost(phase="step", work=1.0, kernels=(kernel,))
        return WorkloadCost(unit="step", phases=(phase,), resident_b=1 / 3)


@pytest.fixture(autouse=True)
def _fresh_count():
    Counted.num_counts = 0


@given(COSTS)
def test_a_cost_survives_the_trip_through_json_to_the_last_bit(cost):
    assert cost_from_json(cost_to_json(cost)) == cost


def test_a_cost_is_counted_once(tmp_path):
    first = cached_cost(Counted(CountedSettings()), tmp_path)

    second = cached_cost(Counted(CountedSettings()), tmp_path)

    assert first == second == Counted(CountedSettings()).cost()
    assert Counted.num_counts == 2  # one of them above


def test_other_knobs_are_another_entry(tmp_path):
    small = cached_cost(Counted(CountedSettings(size=1)), tmp_path)

    large = cached_cost(Counted(CountedSettings(size=2)), tmp_path)

    assert small.phases[0].dram_b == 1
    assert large.phases[0].dram_b == 2


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "null", '{"unit": "step"}', '{"phases": [], "unit": 1, "extra": 2}']
)
def test_a_damaged_entry_is_counted_anew_and_mended(tmp_path, damage, caplog):
    workload = Counted(CountedSettings())
    expected = cached_cost(workload, tmp_path)
    path = tmp_path / f"{cost_key(workload)}.json"
    path.write_text(damage)

    with caplog.at_level(logging.WARNING):
        assert cached_cost(workload, tmp_path) == expected

    assert "cannot be read" in caplog.text
    assert cost_from_json(path.read_bytes()) == expected


def test_only_whole_entries_are_ever_in_the_folder(tmp_path):
    cached_cost(Counted(CountedSettings()), tmp_path)

    entries = [path for path in tmp_path.iterdir() if path.suffix != ".lock"]

    assert [path.suffix for path in entries] == [".json"]
    assert cost_from_json(entries[0].read_bytes())


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path, caplog):
    (tmp_path / "file").touch()

    with caplog.at_level(logging.WARNING):
        cost = cached_cost(Counted(CountedSettings()), tmp_path / "file" / "costs")

    assert cost == Counted(CountedSettings()).cost()
    assert "not kept" in caplog.text


def test_another_version_of_the_source_is_another_entry(tmp_path, monkeypatch):
    before = cost_key(Counted(CountedSettings()))
    (tmp_path / "tracing").mkdir()
    (tmp_path / "tracing" / "trace.py").write_text("# changed")

    monkeypatch.setattr(disk_cache, "__file__", str(tmp_path / "workloads" / "disk_cache.py"))

    assert cost_key(Counted(CountedSettings())) != before


def test_the_default_folder_follows_the_xdg_rule(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_folder("costs") == tmp_path / "cache/joulelab/costs"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the rule
    assert user_folder("costs") == tmp_path / ".cache/joulelab/costs"

    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_folder("costs") == tmp_path / ".cache/joulelab/costs"


def test_a_hit_imports_no_framework(tmp_path):
    from joulelab.workloads.launch_loop import Gemm, GemmSettings

    expected = cached_cost(Gemm(GemmSettings()), tmp_path)
    code = (
        "import sys, pathlib\n"
        "from joulelab.workloads.launch_loop import Gemm, GemmSettings\n"
        "from joulelab.workloads.disk_cache import cached_cost\n"
        "print(repr(cached_cost(Gemm(GemmSettings()), pathlib.Path(sys.argv[1]))))\n"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(disk_cache.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr(expected)
