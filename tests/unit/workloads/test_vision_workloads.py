"""Vision workloads run published networks, and cost what counting by hand says."""

import inspect
import sys
from pathlib import Path

import pytest
import torch

from joulelab.core.cost import PIPES
from joulelab.errors import ConfigError
from joulelab.tracing.program import MATRIX_KINDS
from joulelab.tracing.trace import fake_tensors
from joulelab.workloads import WORKLOADS, accelerator
from joulelab.workloads.detection import DETECTORS
from joulelab.workloads.disk_cache import cached_cost
from joulelab.workloads.vision_network import settle_norms

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from estimator_speed import documented_flop

CPU = torch.device("cpu")


def workload(name, **knobs):
    return WORKLOADS[name].from_knobs(knobs)


def matrix_flop(phase):
    return sum(each.flop * each.count for each in phase.kernels if each.name in MATRIX_KINDS)


def num_parameters(subject):
    with fake_tensors():
        network, _ = subject.load(CPU)
    return sum(each.numel() for each in network.parameters())


def encoder_flop(tokens, width, inner, layers):
    """Four projections, scores and their sum, two layers of a perceptron."""
    return layers * (8 * tokens * width**2 + 4 * tokens**2 * width + 4 * tokens * width * inner)


# arXiv:2010.11929, table 1, rounded there; exact in the checkpoints of the hub.
@pytest.mark.parametrize(("model", "count"), [("vit-base", 86_567_656), ("vit-large", 304_326_632)])
def test_a_vision_transformer_has_the_parameters_of_the_published_one(model, count):
    assert num_parameters(workload("vit", model=model, batch=1)) == count


@pytest.mark.parametrize(
    ("model", "width", "layers"), [("vit-base", 768, 12), ("vit-large", 1024, 24)]
)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_vision_transformer_costs_its_encoder_its_patches_and_its_head(
    model, width, layers, batch
):
    subject = workload("vit", model=model, batch=batch)
    patches = (224 // 16) ** 2

    (phase,) = cached_cost(subject).phases

    patching, head = 2 * patches * 3 * 16**2 * width, 2 * width * 1000
    image_flop = encoder_flop(patches + 1, width, 4 * width, layers) + patching + head
    assert matrix_flop(phase) == phase.work * image_flop
    assert phase.work == batch * subject.executions("forward")


def test_resnet50_has_the_published_parameters_and_the_documented_operations():
    subject = workload("resnet50", batch=2)

    (phase,) = cached_cost(subject).phases

    assert num_parameters(subject) == 25_557_032
    assert matrix_flop(phase) / phase.work == pytest.approx(
        documented_flop("resnet50", 224), rel=1e-3
    )


@pytest.mark.parametrize("channels_last", [True, False])
def test_resnet50_stores_images_and_weights_in_the_layout_that_was_asked_for(channels_last):
    subject = workload("resnet50", batch=1, image_size=32, channels_last=channels_last)

    with fake_tensors():
        network, _ = subject.load(CPU)

    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert network.layer4[0].conv2.weight.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("name", ["resnet50", "detection"])
@pytest.mark.parametrize(
    ("precision", "pipe"), [("fp32", "fp32"), ("tf32", "tensor_tf32"), ("fp16", "tensor_fp16")]
)
def test_convolutions_run_in_the_precision_that_was_asked_for_fp32_too(name, precision, pipe):
    assert pipe in PIPES

    (phase,) = cached_cost(workload(name, precision=precision, batch=1, image_size=128)).phases

    assert {each.pipe for each in phase.kernels if each.name in ("gemm", "conv")} == {pipe}


# arXiv:2304.08069, table 2, and the table of the authors' repository for R18, at 640 by 640.
@pytest.mark.parametrize(
    ("model", "gflop", "millions"), [("rtdetr-r18", 60, 20), ("rtdetr-r50", 136, 42)]
)
def test_rt_detr_has_the_published_operations_and_parameters(model, gflop, millions):
    subject = workload("detection", model=model)

    (phase,) = cached_cost(subject).phases

    assert matrix_flop(phase) / 1e9 == pytest.approx(gflop, rel=0.04)
    assert num_parameters(subject) / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.parametrize(
    ("model", "width", "size"), [("yolos-tiny", 192, 640), ("yolos-small", 384, 512)]
)
def test_yolos_costs_an_encoder_of_patches_and_objects_and_two_heads(model, width, size):
    (phase,) = cached_cost(workload("detection", model=model, image_size=size)).phases

    patches, objects, classes = (size // 16) ** 2, 100, 91 + 1
    patching = 2 * patches * 3 * 16**2 * width
    heads = 2 * objects * width * (2 * width + classes) + 2 * objects * width * (2 * width + 4)
    encoder = encoder_flop(patches + objects + 1, width, 4 * width, 12)
    assert matrix_flop(phase) == encoder + patching + heads


@pytest.mark.parametrize(("confidence", "kept"), [(0.0, 10), (1.0, 0)])
def test_boxes_below_the_confidence_are_dropped(confidence, kept):
    subject = workload(
        "detection", model="tiny", precision="fp32", image_size=32, batch=2, confidence=confidence
    )
    with accelerator.seeded(0, CPU):
        _, programs = subject.load(CPU)

    with accelerator.computing("fp32"):
        found = programs["forward"]()

    assert [len(image["scores"]) for image in found] == [kept, kept]
    assert all(image["boxes"].shape == (kept, 4) for image in found)


def test_settled_norms_keep_a_deep_random_network_in_range():
    torch.manual_seed(0)
    layers = [
        layer
        for _ in range(12)
        for layer in (torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8))
    ]
    for layer in layers[::2]:
        torch.nn.init.normal_(layer.weight, std=10.0)
    network = torch.nn.Sequential(*layers).eval()
    images = torch.randn(2, 3 + 5, 16, 16)
    with torch.no_grad():
        assert not torch.isfinite(network(images).half()).all()

        settle_norms(network, lambda: network(images))

        assert network(images).std().item() == pytest.approx(1, rel=0.01)


def test_yolov8_says_its_licence_in_its_help_and_on_its_results():
    help_text = inspect.getdoc(WORKLOADS["detection"].settings_type)

    assert "AGPL-3.0" in help_text
    assert "joulelab[detection]" in help_text
    assert "AGPL-3.0" in workload("detection", model="yolov8n").licence
    assert all(workload("detection", model=model).licence is None for model in DETECTORS)


def test_yolov8_without_its_library_names_the_licence_the_extra_and_what_needs_neither(
    monkeypatch,
):
    monkeypatch.setitem(sys.modules, "ultralytics", None)

    with pytest.raises(ConfigError, match=r"AGPL-3.0.*joulelab\[detection\].*rtdetr-r18") as said:
        workload("detection", model="yolov8n").cost()

    assert "\n" not in str(said.value)


# The table of ultralytics' documentation, at 640 by 640.
@pytest.mark.parametrize(("model", "gflop"), [("yolov8n", 8.7), ("yolov8s", 28.6)])
def test_yolov8_has_the_published_operations(model, gflop):
    pytest.importorskip("ultralytics", reason="ultralytics is an optional extra")

    (phase,) = cached_cost(workload("detection", model=model)).phases

    assert matrix_flop(phase) / 1e9 == pytest.approx(gflop, rel=0.03)


@pytest.mark.parametrize(
    ("name", "knobs", "message"),
    [
        ("vit", {"model": "vit-huge"}, "model 'vit-huge'"),
        ("vit", {"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ("resnet50", {"image_size": 100}, "image_size must be a multiple of 32, got 100"),
        ("resnet50", {"precision": "int8"}, "precision 'int8'"),
        ("resnet50", {"channels_last": "yes"}, "channels_last must be true or false, got 'yes'"),
        ("detection", {"image_size": 650}, "image_size must be a multiple of 32, got 650"),
        ("detection", {"model": "yolos-tiny", "image_size": 40}, "multiple of 16, got 40"),
        ("detection", {"image_size": 96}, "image_size must give rtdetr-r50 at least 300 .* got 96"),
        ("detection", {"confidence": 1.5}, "confidence must be a number from 0 to 1, got 1.5"),
        ("detection", {"model": "yolov8x"}, "Did you mean .*'yolov8"),
    ],
)
def test_a_wrong_knob_of_a_vision_workload_is_refused(name, knobs, message):
    with pytest.raises(ConfigError, match=message):
        workload(name, **knobs)


def test_weights_of_another_geometry_are_refused(tmp_path):
    from transformers import ViTConfig, ViTForImageClassification

    other = ViTConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        image_size=32,
    )
    ViTForImageClassification(other).save_pretrained(tmp_path)

    with pytest.raises(
        ConfigError, match=r"geometry that model names, but .* hidden_size 16 \(not 32\)"
    ):
        workload("vit", model="tiny", precision="fp32", weights=str(tmp_path)).prepare()


@pytest.mark.parametrize("content", [None, b"no state"])
def test_a_file_that_holds_no_weights_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "resnet50.pth"
    if content is not None:
        path.write_bytes(content)
    subject = workload("resnet50", precision="fp32", batch=1, image_size=32, weights=str(path))

    with pytest.raises(ConfigError, match="weights must be") as refused:
        subject.prepare()

    assert "\n" not in str(refused.value)
