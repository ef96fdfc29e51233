"""Distinct kernels of a trace, streams and gaps, and the command that lists them."""

import json

import numpy as np
import pandas as pd
import pytest
from kineto_traces import EVENTS, host, kernel, write_trace

from joulelab.analysis.attributed.kernel_page import gantt_figure
from joulelab.analysis.attributed.kernels import KernelProfile, answer
from joulelab.attribution.kineto import OperatorCall, read_trace
from joulelab.attribution.launch_summary import covered, kernels_in, tier_of
from joulelab.cli.main import main

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GIVEN = {"Input Dims": [[8, 4096], [[4096, 64], [4]], []],
         "Input type": ["c10::BFloat16", "TensorList", "Scalar"]}  # fmt: skip
TWO_GPUS = [
    host("cpu_op", "aten::mm", 0.0, 10.0, **GIVEN),
    host("cuda_runtime", "cudaLaunchKernel", 1.0, 2.0, correlation=1),
    host("cpu_op", "aten::mm", 10.0, 10.0, **GIVEN),
    host("cuda_runtime", "cudaLaunchKernel", 11.0, 2.0, correlation=4),
    kernel("nvjet_sm90_tst_192x192", 10.0, 30.0, 1),
    kernel(NCCL, 30.0, 20.0, 2, stream=20),
    kernel("triton_poi_fused_add_0", 60.0, 5.0, 3),
    kernel("nvjet_sm90_tst_192x192", 80.0, 20.0, 4),
    kernel("Memset (Device)", 12.0, 1.0, 5, device=1),
]


@pytest.fixture
def trace(tmp_path):
    return write_trace(tmp_path / "trace.json", TWO_GPUS)


@pytest.fixture
def profile(trace):
    return KernelProfile.of(read_trace(trace))


def test_kernels_are_counted_and_timed_most_time_first(profile):
    first = profile.kernels[0]

    assert [one.signature.name for one in profile.kernels][:2] == ["nvjet_sm90_tst_192x192", NCCL]
    assert first.num_launches == 2
    assert first.total_s == pytest.approx(50e-6)
    assert (first.shortest_s, first.longest_s) == (pytest.approx(20e-6), pytest.approx(30e-6))
    assert first.mean_s == pytest.approx(25e-6)
    assert first.operator == OperatorCall("aten::mm", "bf16[8, 4096] [[4096, 64], [4]]")
    assert profile.kernels[1].operator == OperatorCall("")


def test_kernels_that_work_on_other_shapes_are_others(tmp_path):
    wider = {**GIVEN, "Input Dims": [[9, 4096], [], []]}
    others = [host("cpu_op", "aten::mm", 10.0, 10.0, **wider) if event is TWO_GPUS[2] else event
              for event in TWO_GPUS]  # fmt: skip

    found = kernels_in(read_trace(write_trace(tmp_path / "trace.json", others)))

    inputs = [one.operator.inputs for one in found if one.signature.name.startswith("nvjet")]
    assert inputs == ["bf16[8, 4096] [[4096, 64], [4]]", "bf16[9, 4096]"]


def test_a_gpu_is_busy_where_anything_runs_and_communication_counts_alone(profile):
    first, second = profile.devices

    assert first.span_s == pytest.approx(90e-6)
    assert first.busy_s == pytest.approx(65e-6)  # 10 to 50, 60 to 65, 80 to 100
    assert first.kernel_s == pytest.approx(75e-6)
    assert first.communication_s == pytest.approx(10e-6)
    assert (first.num_gaps, first.num_streams) == (2, 2)
    assert first.longest_gap_s == pytest.approx(15e-6)
    assert (second.device, second.busy_s) == (1, pytest.approx(1e-6))


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        (NCCL, "communication"),
        ("Memcpy HtoD (Pageable -> Device)", "runtime copies"),
        ("ampere_fp16_s16816gemm_fp16_128x64", "matrix libraries"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16>", "matrix libraries"),
        ("void gemv2T_kernel_val<int, int, float>", "matrix libraries"),
        ("flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", "attention libraries"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention libraries"),
        ("void at::native::vectorized_elementwise_kernel<4>", "framework kernels"),
        ("triton_poi_fused_add_0", "compiled kernels"),
        ("my_own_kernel", "others"),
    ],
)
def test_a_kernel_says_where_it_comes_from(name, tier):
    assert tier_of(name) == tier


def test_intervals_within_others_cover_nothing_more():
    busy_s, gaps_s = covered(np.array([0.0, 1.0, 6.0]), np.array([5.0, 2.0, 7.0]))

    assert busy_s == 6.0
    assert gaps_s == pytest.approx([0.0, 1.0])
    assert covered(np.empty(0), np.empty(0))[0] == 0.0


def test_the_chart_shows_a_bar_for_each_launch_of_its_part(profile):
    above, below = gantt_figure(profile, 0.0, 55e-6).axes

    assert sum(len(bars.get_paths()) for bars in below.collections) == 4
    assert below.get_title(loc="left") == "4 launches, stream by stream"
    assert [label.get_text() for label in below.get_yticklabels()] == [
        "GPU 0, stream 7",
        "GPU 0, stream 20",
        "GPU 1, stream 7",
    ]
    assert above.get_ylim() == (0, 100)


def test_lost_launches_are_named(tmp_path):
    events = [event for event in EVENTS if event["name"] != "add"]
    profile = KernelProfile.of(read_trace(write_trace(tmp_path / "t.json", events)))

    assert "1 launches have no kernel" in answer(profile)


@pytest.mark.parametrize("kind", ["html", "csv", "parquet"])
def test_the_command_prints_and_writes(trace, tmp_path, capsys, kind):
    out = tmp_path / f"kernels.{kind}"

    assert main(["kernels", str(trace), "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "5 launches of 4 distinct kernels on 2 GPUs" in told
    assert "communication" in told
    if kind == "html":
        assert NCCL[:40] in out.read_text()
    else:
        read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[kind](out)
        assert read["num_launches"].sum() == 5
        assert read["total_s"].sum() == pytest.approx(76e-6)


def test_the_command_answers_in_json(trace, capsys):
    assert main(["kernels", str(trace), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kernels"]) == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--out", "x.txt"], "must end in"),
        (["--for-s", "0"], "for_s"),
        (["--from-s", "-1"], "from_s"),
    ],
)
def test_what_cannot_be_shown_is_refused(trace, capsys, words, why):
    assert main(["kernels", str(trace), *words]) == 2
    assert why in capsys.readouterr().err
