"""What submissions to MLPerf ran, by rows of the table of published measurements."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import mlperf
from openimages_retinanet import OpenImagesRetinaNet, example_inputs


def row(model="resnet50", batch="Offline", device="8x NVIDIA A100-PCIe-80GB", **others):
    names = {"model": model, "batch": batch, "device": device}
    return {"url": "", "energy_j_per_item": "", **names, **others}


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        (row("bert-99"), 177),
        (row("bert-99", "SingleStream"), 270),
        (row("bert-99", "SingleStream", energy_j_per_item="0.7"), 177),
    ],
)
def test_a_latency_is_of_a_long_question_and_an_energy_of_the_mean_one(asked, tokens):
    assert mlperf.submitted(asked).knobs == {"tokens": tokens}


@pytest.mark.parametrize(
    ("device", "precision"), [("1x NVIDIA A100-PCIe-80GB", "fp16"), ("1x NVIDIA L4", "fp8")]
)
def test_full_accuracy_of_bert_runs_in_fp8_where_there_is_fp8(device, precision):
    assert mlperf.submitted(row("bert-99.9", device=device)).precision == precision


def test_what_the_estimator_has_no_program_for_is_said():
    assert mlperf.submitted(row("gptj-99")) is None


def test_the_mean_question_takes_its_share_of_the_latency():
    assert mlperf.mean_time_share(row("bert-99", "SingleStream")) == pytest.approx(177 / 270)
    assert mlperf.mean_time_share(row("bert-99")) == 1
    assert mlperf.mean_time_share(row(batch="SingleStream")) == 1


@pytest.mark.parametrize(
    ("batch", "device", "waits"),
    [
        ("MultiStream", "1x NVIDIA A100-PCIe-80GB", True),
        ("SingleStream", "1x NVIDIA L4", True),
        ("Offline", "1x NVIDIA L4", False),
        ("MultiStream", "1x NVIDIA A100-SXM-80GB", False),
        ("MultiStream", "1x NVIDIA Jetson AGX Orin", False),
    ],
)
def test_only_queries_to_boards_on_pcie_wait_for_their_inputs(batch, device, waits):
    assert (mlperf.host_link_b_per_s(row(batch=batch, device=device)) is not None) == waits


@pytest.mark.parametrize(
    ("url", "clock_mhz"),
    [
        ("inference_results_v2.1/tree/x/NVIDIA/results/Orin_TRT_MaxQ/resnet50/Offline", 625),
        ("inference_results_v3.0/tree/x/NVIDIA/results/Orin_TRT_MaxQ/retinanet/Offline", 523),
        ("inference_results_v3.0/tree/x/NVIDIA/results/Orin_TRT/resnet50/Offline", 1300),
        ("inference_results_v2.1/tree/x/NVIDIA/results/Orin_TRT_MaxQ/retinanet/Offline", None),
        ("inference_results_v3.0/tree/x/NVIDIA/results/Orin_TRT_MaxQ/bert-99/Offline", None),
        ("inference_results_v3.0/tree/x/NVIDIA/results/Orin_TRT/resnet50/SingleStream", None),
    ],
)
def test_accelerators_of_an_orin_share_in_large_images_offline(url, clock_mhz):
    assert mlperf.accelerated_clock_mhz(row(url=url)) == clock_mhz


def test_the_detector_tells_264_classes_apart_on_five_levels():
    with torch.device("meta"):
        network = OpenImagesRetinaNet()
        levels = network(example_inputs(2))

    assert [scores.shape for scores, _ in levels] == [(2, 1000)] * 5
    assert [boxes.shape for _, boxes in levels] == [(2, 1000, 4)] * 5
    logits = network.head.classification_head.cls_logits
    assert logits.out_channels == 9 * 264
    assert sum(one.numel() for one in network.parameters()) == pytest.approx(37.1e6, rel=0.01)
