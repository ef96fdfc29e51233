"""Programs of several processes, one a GPU: shared layers, copies, and what goes wrong."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from rank_answers import logits_of

from joulelab.core.energy import EnergyWindow
from joulelab.errors import ConfigError, MeasurementError
from joulelab.workloads.launch_loop import Gemm, GemmSettings
from joulelab.workloads.llama import Llama, LlamaSettings
from joulelab.workloads.ranks import Ranks
from joulelab.workloads.sums import EVERY

TINY = {"model": "tiny", "precision": "fp32", "batch": 2, "prompt_tokens": 8, "new_tokens": 4}
"""Two heads for keys and values, so that two ranks have one each."""
UUIDS = ("", "")
"""No GPU."""


PATHS = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}


@pytest.fixture(scope="module")
def sharing():
    """Two ranks that share every layer, of all tests: each takes seconds to import its network."""
    ranks = Ranks(Llama(LlamaSettings(**TINY, tensor_parallel=2)), UUIDS)
    try:
        ranks.prepare()
        yield ranks
    finally:
        ranks.close()


def test_shared_work_counts_once_and_what_ranks_wait_for_each_other_is_told(sharing):
    start_s = time.monotonic()
    assert sharing.run("prefill") == 16
    for _ in range(EVERY):
        sharing.run("prefill")
    run = EnergyWindow(
        start_s=start_s,
        duration_s=time.monotonic() - start_s,
        energy_j=1.0,
        energy_u_j=0.1,
        source="counter",
    )

    waits_s = sharing.figures([run])

    assert waits_s.keys() == {"gpu0.waiting_per_unit_s", "gpu1.waiting_per_unit_s"}
    assert sum(waits_s.values()) > 0  # no two processes come at the same instant


def test_two_ranks_that_share_every_layer_compute_what_the_whole_network_does(sharing):
    whole = Llama(LlamaSettings(**TINY))
    whole.prepare()

    first, second = sharing.on_each(logits_of)

    for shared in (first, second):
        np.testing.assert_allclose(shared, logits_of(whole), rtol=1e-4, atol=1e-5)


def test_a_rank_that_dies_is_named_and_takes_the_others_with_it(sharing):
    """The last of these tests, for it ends them."""
    first, second = map(psutil.Process, sharing.processes)
    second.kill()

    with pytest.raises(MeasurementError, match=r"Rank \d on .* failed"):
        sharing.run("decode")

    assert psutil.wait_procs([first, second], timeout=60)[1] == []


def test_the_work_of_copies_adds_up():
    copy = Gemm(GemmSettings(n=64))
    copy.prepare()
    ranks = Ranks(copy, UUIDS)
    try:
        ranks.prepare()

        assert ranks.run("gemm") == 2 * copy.run("gemm")
        assert len(ranks.processes) == 2
    finally:
        ranks.close()


HOLDER = """
import time
from test_ranks import UUIDS, Gemm, GemmSettings, Ranks
ranks = Ranks(Gemm(GemmSettings(n=64)), UUIDS)  # it starts fast
ranks.prepare()
print(*ranks.processes, flush=True)
while True:
    ranks.run("gemm")
"""


def test_ranks_end_with_the_process_that_measures_them_even_if_it_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=os.environ | PATHS, stdout=subprocess.PIPE, text=True
    ) as holder:
        ranks = [psutil.Process(int(pid)) for pid in holder.stdout.readline().split()]
        holder.kill()

    assert len(ranks) == 2
    assert psutil.wait_procs(ranks, timeout=60)[1] == []


def test_a_network_that_its_ranks_cannot_share_equally_is_refused():
    with pytest.raises(ConfigError, match="num_key_value_heads"):
        LlamaSettings(**TINY, tensor_parallel=4)


def test_another_degree_than_there_are_gpus_is_refused():
    with pytest.raises(ConfigError, match="tensor_parallel must be 1"):
        Ranks(Llama(LlamaSettings(**TINY, tensor_parallel=2)), ("", "", ""))


def test_sharing_without_a_group_is_refused():
    with pytest.raises(ConfigError, match="group of 2 processes"):
        Llama(LlamaSettings(**TINY, tensor_parallel=2)).prepare()
