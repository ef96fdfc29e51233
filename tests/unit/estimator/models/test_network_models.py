"""Networks of torchvision, timm and transformers are traced to what their geometry says."""

import sys
from pathlib import Path
from time import process_time

import pytest

from joulelab.errors import ConfigError
from joulelab.estimator.models import find_model, trace_model
from joulelab.estimator.models.image_sources import TimmSource
from joulelab.tracing.program import MATRIX_KINDS

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from estimator_speed import documented_flop

# Documented are operations on noise, with trained weights: all networks detect nothing in it but
# this one, which finds as many objects as its limit allows.
DOCUMENTED_DETECTIONS = {"maskrcnn_resnet50_fpn_v2": 100}
# These find not even proposals in noise that pass their threshold; traced are as many as allowed.
DOCUMENTED_WITHOUT_PROPOSALS = {
    "fasterrcnn_mobilenet_v3_large_fpn": 1000,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 150,
}
# One of each other family, the smallest that is quick to trace; all are checked by
# `python benchmarks/run.py estimator_speed`.
FAMILIES = (
    *("deeplabv3_mobilenet_v3_large", "densenet121", "efficientnet_b0", "googlenet", "mnasnet0_5"),
    *("fasterrcnn_mobilenet_v3_large_320_fpn", "mvit_v1_b", "quantized_mobilenet_v3_large"),
    *("regnet_y_400mf", "resnext50_32x4d", "shufflenet_v2_x0_5", "swin_t", "swin_v2_t", "vgg11"),
)
# Documented operations are rounded to thousandths of 1e9 multiply-adds.
ROUNDING_FLOP = 2 * 0.0005e9


def matrix_flop(program):
    return sum(each.flop for each in program.operators if each.kind in MATRIX_KINDS)


def traced(name, **options):
    return trace_model(name, **{"batch": 1, "precision": "fp32", **options})


def traced_and_documented_flop(name):
    knobs = find_model(name).knobs
    found = DOCUMENTED_DETECTIONS.get(name, 0)
    options = {"detections": found} if "detections" in knobs else {}
    program = traced(name, **options).phases[0].program
    return matrix_flop(program), documented_flop(name, knobs.get("image_size", 224))


@pytest.mark.parametrize(
    "name",
    ["alexnet", "resnet50", "mobilenet_v2", "vit_b_32", "r3d_18", "fcn_resnet50", "inception_v3"],
)
def test_operations_are_those_that_torchvision_documents(name):
    counted, documented = traced_and_documented_flop(name)

    assert counted == pytest.approx(documented, rel=0.01)


@pytest.mark.parametrize("name", ["fasterrcnn_resnet50_fpn", "ssd300_vgg16"])
def test_a_detection_network_is_traced_with_all_its_proposals(name):
    counted, documented = traced_and_documented_flop(name)

    assert counted == pytest.approx(documented, rel=0.01)


# Parameters in 1e6 and operations in 1e9 at 640 pixels, of the tables of Ultralytics' releases.
PUBLISHED_YOLO = {
    "yolov5n": (1.9, 4.5),
    "yolov5s": (7.2, 16.5),
    "yolov5m": (21.2, 49.0),
    "yolov8n": (3.2, 8.7),
    "yolov8s": (11.2, 28.6),
    "yolov8x": (68.2, 257.8),
}


@pytest.mark.parametrize("name", PUBLISHED_YOLO)
def test_a_yolo_has_the_parameters_and_operations_that_are_published(name):
    program = traced(name).phases[0].program
    parameters, flop = PUBLISHED_YOLO[name]

    assert program.parameter_b / 4 == pytest.approx(parameters * 1e6, rel=0.02)
    assert matrix_flop(program) == pytest.approx(flop * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "parameters"), [("detr-resnet-50", 41.5e6), ("yolos-tiny", 6.5e6)]
)
def test_a_detector_of_transformers_has_the_parameters_that_are_published(name, parameters):
    assert traced(name).phases[0].program.parameter_b / 4 == pytest.approx(parameters, rel=0.02)


def test_more_detections_cost_more_in_the_heads_that_see_them():
    few, many = (traced("maskrcnn_resnet50_fpn", detections=n).phases[0] for n in (10, 20))

    grown = matrix_flop(many.program) - matrix_flop(few.program)

    # Of one detection: 4 convolutions of 256 channels on 14 x 14, one transposed to 28 x 28,
    # and the scores of 91 classes there.
    head = 4 * 2 * 256 * 256 * 9 * 14**2 + 2 * 256 * 256 * 4 * 14**2 + 2 * 256 * 91 * 28**2
    assert grown == pytest.approx(10 * head, rel=1e-6)


def test_a_quantised_network_is_traced_before_its_conversion():
    plain, quantised = (traced(name).phases[0] for name in ("resnet18", "quantized_resnet18"))

    assert matrix_flop(quantised.program) == matrix_flop(plain.program)


def test_operations_and_activations_grow_with_the_batch_and_weights_do_not():
    one, four = (traced("resnet18", batch=n).phases[0] for n in (1, 4))

    assert matrix_flop(four.program) == 4 * matrix_flop(one.program)
    assert four.program.parameter_b == one.program.parameter_b
    assert four.program.input_b == 4 * one.program.input_b
    assert four.work == 4


def test_a_half_precision_trace_moves_half_the_bytes():
    single, half = (traced("resnet18", precision=p).phases[0].program for p in ("fp32", "fp16"))

    assert half.parameter_b == pytest.approx(single.parameter_b / 2, rel=1e-4)  # less one counter
    assert half.flop == single.flop
    assert {each.dtype for each in half.operators} == {"float16"}


def test_the_image_size_scales_convolutions_by_area():
    small, large = (traced("vgg11", image_size=n).phases[0].program for n in (224, 448))

    def conv_flop(program):
        return sum(each.flop for each in program.operators if each.kind == "conv")

    assert conv_flop(large) == 4 * conv_flop(small)


def test_inputs_are_told_with_their_shapes():
    assert traced("inception_v3", batch=2).inputs == {"image": "2x3x299x299"}
    assert traced("r3d_18").inputs == {"clip": "1x3x16x112x112"}


def test_timm_networks_are_fed_images_of_their_documented_size():
    model = traced("timm:tf_efficientnet_b1")

    assert (model.unit, model.inputs) == ("image", {"image": "1x3x240x240"})
    assert matrix_flop(model.phases[0].program) > 1e9


def test_bert_costs_what_its_geometry_says():
    tokens, width, layers = 128, 768, 12
    program = traced("bert-base", tokens=tokens).phases[0].program

    products = layers * tokens * (4 * width**2 + 8 * width**2) + width**2  # and the pooler
    attention = layers * 2 * tokens**2 * width
    assert matrix_flop(program) == 2 * (products + attention)


def test_vit_of_transformers_costs_what_torchvision_documents():
    program = traced("vit-base").phases[0].program

    assert matrix_flop(program) == pytest.approx(documented_flop("vit_b_16", 224), rel=0.01)


def test_a_training_step_computes_each_product_about_three_times():
    forward = traced("resnet18").phases[0].program
    step = traced("resnet18", training=True).phases[0]

    by_stage = {
        stage: sum(
            each.flop
            for each in step.program.operators
            if each.stage == stage and each.kind in MATRIX_KINDS
        )
        for stage in ("forward", "backward", "optimizer")
    }
    stem = 2 * 64 * 3 * 49 * 112**2  # has no gradient towards the image
    assert step.phase == "train"
    assert by_stage["forward"] == matrix_flop(forward)
    assert by_stage["backward"] == pytest.approx(2 * matrix_flop(forward) - stem)
    assert by_stage["optimizer"] == 0
    weight_b = 4 * 11_689_512
    assert step.program.gradient_b == weight_b
    assert step.program.optimizer_b == pytest.approx(2 * weight_b, rel=1e-4)  # and step counters


def test_a_training_step_of_a_detection_network_is_refused():
    with pytest.raises(ConfigError, match="boxes"):
        traced("retinanet_resnet50_fpn", training=True)


def test_an_image_that_the_network_cannot_take_is_refused_with_its_words():
    with pytest.raises(ConfigError, match="cannot be traced so"):
        traced("vit_b_16", image_size=100)


def test_a_second_question_is_answered_from_memory():
    traced("resnet18", batch=3)
    start = process_time()

    again = [traced("resnet18", batch=3) for _ in range(100)]

    assert process_time() - start < 0.5
    assert all(model is again[0] for model in again)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAMILIES, *DOCUMENTED_DETECTIONS])
def test_networks_of_torchvision_are_traced_as_documented(name):
    counted, documented = traced_and_documented_flop(name)

    proposal = 2 * (256 * 7 * 7 * 1024 + 1024 * 1024 + 1024 * 91 * 5)  # of the head for boxes
    documented += DOCUMENTED_WITHOUT_PROPOSALS.get(name, 0) * proposal
    assert counted == pytest.approx(documented, rel=0.01, abs=ROUNDING_FLOP)


@pytest.mark.slow
@pytest.mark.parametrize("name", TimmSource().names()[::180])
def test_networks_of_timm_are_traced_and_every_product_is_counted(name):
    program = traced(f"timm:{name}", precision="fp16").phases[0].program

    assert matrix_flop(program) > 0
    assert all(operator.has_formula for operator in program.operators)


@pytest.mark.parametrize("name", ["resnet18", "timm:resnet18", "yolov8n"])
def test_images_may_lie_with_the_channels_of_a_pixel_adjacent(name):
    plain, last = (
        trace_model(name, batch=1, precision="bf16", channels_last=chosen)
        for chosen in (False, True)
    )

    layouts = [
        {one.layout for one in model.phases[0].program.operators if one.kind == "conv"}
        for model in (plain, last)
    ]
    assert layouts == [{"plain"}, {"channels_last"}]
