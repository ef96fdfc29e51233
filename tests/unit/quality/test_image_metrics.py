"""Scores of images, classes and objects against closed forms."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from joulelab.core.quality import retention
from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality import METRICS
from joulelab.quality.base import Boxes
from joulelab.quality.image_data import DetectionData, ImageData, LabelledData
from joulelab.quality.images import ClipScore, Fid, FrechetDistance, Lpips, Ssim
from joulelab.quality.recognition import (
    Accuracy,
    ClassAgreement,
    ClassDivergence,
    MeanAveragePrecision,
)

IMAGE_METRICS = ("clip_score", "fid", "frechet_distance", "lpips", "ssim")


def random_images(n=3, side=32, channels=1, seed=0):
    draw = np.random.default_rng(seed)
    return draw.random((n, channels, side, side), dtype=np.float32)


def image_data(**fields):
    return ImageData(**{"name": "some", "prompts": ("a cat", "a dog"), **fields})


class Plain:
    """Takes pixels themselves for features."""

    name = "plain"

    def features(self, images):
        return images.reshape(len(images), -1)


# SSIM


@pytest.mark.parametrize("side", [8, 12, 32])
def test_the_ssim_of_an_image_with_itself_is_one(side):
    images = random_images(side=side)

    score = Ssim().score(images, image_data(), images)

    assert score.value == pytest.approx(1, abs=1e-6)
    assert (score.n, score.counted) == (3, "image")


def test_the_ssim_of_two_even_greys_is_that_of_their_luminances():
    grey, darker = (np.full((2, 1, 32, 32), level, np.float32) for level in (0.8, 0.2))
    c1 = 0.01**2

    score = Ssim().score(grey, image_data(), darker)

    assert score.value == pytest.approx((2 * 0.8 * 0.2 + c1) / (0.8**2 + 0.2**2 + c1), rel=1e-3)


def test_more_noise_means_less_ssim():
    images = random_images()
    noise = random_images(seed=1)

    scores = [
        Ssim().score((1 - share) * images + share * noise, image_data(), images).value
        for share in (0.1, 0.3, 0.9)
    ]

    assert scores == sorted(scores, reverse=True)


def test_images_of_two_sizes_or_without_numbers_have_no_ssim():
    images = random_images()

    with pytest.raises(MeasurementError, match="one size"):
        Ssim().score(images, image_data(), random_images(side=16))
    with pytest.raises(MeasurementError, match="not numbers"):
        Ssim().score(images * np.nan, image_data(), images)


# Frechet distance


def features_data(real):
    return image_data(images=tuple(real), judge=Plain())


def test_the_frechet_distance_of_a_set_to_itself_is_nothing():
    real = random_images(n=50, side=2)

    score = FrechetDistance().score(real, features_data(real), None)

    assert score.value == pytest.approx(0, abs=1e-6)


@settings(max_examples=10, deadline=None)
@given(shift=st.floats(-2, 2), seed=st.integers(0, 100))
def test_the_frechet_distance_of_a_shifted_set_is_the_square_of_the_shift(shift, seed):
    real = random_images(n=40, side=2, seed=seed)  # four features
    metric = FrechetDistance(num_resamples=2)

    score = metric.score(real + np.float32(shift), features_data(real), None)

    assert score.value == pytest.approx(4 * shift**2, rel=1e-3, abs=1e-5)


def test_the_frechet_distance_of_a_scaled_set_is_that_of_its_widths():
    """With equal means and s times the width: the trace of (1 - s)^2 of the covariance."""
    real = random_images(n=200, side=2)
    centred = real - real.mean(axis=0)
    spread = np.trace(np.cov(centred.reshape(200, -1), rowvar=False))

    score = FrechetDistance().score(3 * centred, features_data(centred), None)

    assert score.value == pytest.approx(4 * spread, rel=1e-4)
    assert score.u is not None
    assert 0 < score.u < score.value


def test_a_frechet_distance_needs_real_images_and_a_judge():
    with pytest.raises(ConfigError, match=r"real ones.*ssim needs none"):
        FrechetDistance().check(image_data(judge=Plain()))
    with pytest.raises(ConfigError, match="network trained on it"):
        FrechetDistance().check(image_data(images=tuple(random_images())))


# Judges with weights


@pytest.mark.parametrize("metric", [ClipScore, Fid, Lpips], ids=lambda metric: metric.name)
def test_a_metric_without_its_weights_says_so_and_names_those_that_need_none(metric):
    with pytest.raises(ConfigError, match=rf"{metric.name}\.weights.* need none") as refused:
        metric().check(image_data(images=tuple(random_images())))

    named = [name for name in IMAGE_METRICS if name in str(refused.value).split("such as")[1]]
    assert {"ssim", "frechet_distance"} <= set(named)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("metric", [Fid, Lpips], ids=lambda metric: metric.name)
def test_weights_that_are_no_file_are_refused(metric, tmp_path):
    pytest.importorskip("torch_fidelity")
    with pytest.raises(ConfigError, match="must be a file"):
        metric(weights=str(tmp_path / "none.pth")).check(image_data())


@pytest.fixture
def alexnet(tmp_path):
    from joulelab.tracing.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    from torchvision.models import alexnet

    path = tmp_path / "alexnet.pth"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.save(alexnet(weights=None).state_dict(), path)
    return str(path)


@pytest.mark.slow
def test_lpips_is_nothing_between_equals_and_grows_with_the_difference(alexnet):
    images, noise = random_images(n=2, side=64), random_images(n=2, side=64, seed=1)
    metric = Lpips(weights=alexnet)
    metric.check(image_data())

    scores = [
        metric.score((1 - share) * images + share * noise, image_data(), images).value
        for share in (0.0, 0.1, 0.5)
    ]

    assert scores[0] == 0
    assert scores == sorted(scores)


def test_lpips_refuses_images_that_are_too_small_for_its_network(alexnet):
    images = random_images(side=8)

    with pytest.raises(MeasurementError, match="ssim takes smaller ones"):
        Lpips(weights=alexnet).score(images, image_data(), images)


def test_lpips_refuses_a_file_of_something_else(tmp_path):
    path = tmp_path / "other.pth"
    torch.save({"nothing": torch.zeros(1)}, path)
    images = random_images(side=32)

    with pytest.raises(ConfigError, match="AlexNet"):
        Lpips(weights=str(path)).score(images, image_data(), images)


@pytest.fixture
def inception(tmp_path, monkeypatch):
    """Random weights of the network of FID, in a file."""
    from joulelab.tracing.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    pytest.importorskip("torch_fidelity")
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    path = tmp_path / "inception.pth"
    torch.save({}, path)
    with monkeypatch.context() as patch, torch.random.fork_rng():
        torch.manual_seed(0)
        patch.setattr(FeatureExtractorInceptionV3, "load_state_dict", lambda *_, **__: None)
        network = FeatureExtractorInceptionV3("random", ["2048"], str(path))
    torch.save(network.state_dict(), path)
    return str(path)


@pytest.mark.slow
def test_fid_is_least_for_the_real_images_themselves(inception):
    real, others = random_images(n=2, side=16), random_images(n=2, side=16, seed=1) / 2
    data = image_data(images=tuple(real))
    metric = Fid(weights=inception)
    metric.check(data)

    same, different = (metric.score(images, data, None).value for images in (real, others))

    assert same == pytest.approx(0, abs=1e-3 * different)
    assert different > 0


@pytest.fixture
def clip(tmp_path):
    """A small CLIP with random weights that reads three words, in a folder."""
    from joulelab.tracing.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    import transformers

    words = ["<|startoftext|>", "<|endoftext|>", "a</w>", "cat</w>", "dog</w>"]
    letters = [*"actdog", *(letter + "</w>" for letter in "actdog" if letter != "a")]
    merges = [("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>")]
    tokens = [*words, *letters, "ca", "do"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={token: index for index, token in enumerate(tokens)}, merges=merges
    )
    shape = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    text = {**shape, "vocab_size": len(tokens), "bos_token_id": 0, "eos_token_id": 1}
    vision = {**shape, "image_size": 32, "patch_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = transformers.CLIPModel(
            transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
        )
    network.save_pretrained(tmp_path)
    size = {"height": 32, "width": 32}
    images = transformers.CLIPImageProcessor(size=size, crop_size=size, do_resize=True)
    transformers.CLIPProcessor(image_processor=images, tokenizer=tokenizer).save_pretrained(
        tmp_path
    )
    return str(tmp_path)


@pytest.mark.slow
def test_a_clip_score_is_a_hundred_cosines_of_image_and_prompt(clip):
    import transformers

    images, data = random_images(n=2, channels=3), image_data()
    metric = ClipScore(weights=clip)
    metric.check(data)

    score = metric.score(images, data, None)

    network = transformers.CLIPModel.from_pretrained(clip)
    processor = transformers.CLIPProcessor.from_pretrained(clip)
    seen = list((torch.from_numpy(images) * 255).round().byte())
    cosines = []
    for image, prompt in zip(seen, data.prompts, strict=True):
        inputs = processor(text=[prompt], images=[image], return_tensors="pt")
        with torch.inference_mode():
            logits = network(**inputs).logits_per_image / network.logit_scale.exp()
        cosines.append(max(100 * logits.item(), 0.0))
    assert score.value == pytest.approx(np.mean(cosines), rel=1e-4, abs=1e-4)
    assert score.n == 2


def test_a_clip_score_needs_prompts():
    with pytest.raises(ConfigError, match="without"):
        ClipScore(weights="somewhere").check(image_data(prompts=("", "")))


# Classes


def labelled(labels):
    return LabelledData(name="some", inputs=np.zeros((len(labels), 1)), labels=np.array(labels))


def test_accuracy_counts_the_inputs_whose_likeliest_class_is_right():
    scores = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0]]

    score = Accuracy().score(scores, labelled([0, 1, 2, 0, 1]), None)

    assert score.value == pytest.approx(3 / 5)
    assert score.n == 5
    assert score.u == pytest.approx(np.std([1, 1, 1, 0, 0], ddof=1) / np.sqrt(5))


def test_accuracy_counts_the_second_likeliest_class_if_asked_to():
    scores = np.array([[3.0, 2.0, 1.0]] * 3)

    values = [Accuracy(top=top).score(scores, labelled([0, 1, 2]), None).value for top in (1, 2)]

    assert values == pytest.approx([1 / 3, 2 / 3])


def test_a_label_that_the_network_does_not_know_is_refused():
    with pytest.raises(MeasurementError, match="3 apart"):
        Accuracy().score(np.zeros((1, 3)), labelled([7]), None)


def test_class_agreement_is_the_share_of_equal_choices_whatever_is_right():
    ours, theirs = (np.eye(3)[choices] for choices in ([0, 1, 2, 0], [0, 1, 1, 1]))

    score = ClassAgreement().score(ours, labelled([2, 2, 2, 2]), theirs)

    assert score.value == 0.5


def test_agreeing_with_a_reference_that_sees_one_class_everywhere_says_nothing():
    """A random network that put all images into one class agreed with itself in any precision."""
    same = np.eye(3)[[1, 1, 1, 1]]

    with pytest.raises(MeasurementError, match=r"all 4 inputs into one class.*class_divergence"):
        ClassAgreement().score(same, labelled([0, 1, 2, 0]), same)


def test_class_divergence_is_that_of_the_distributions_in_nats():
    certain, even = np.log([[0.8, 0.2]] * 4), np.zeros((4, 2))

    score = ClassDivergence().score(even + 7.0, labelled([0, 0, 1, 1]), certain)

    assert score.value == pytest.approx(0.8 * np.log(0.8 / 0.5) + 0.2 * np.log(0.2 / 0.5))
    assert ClassDivergence().score(certain, labelled([0] * 4), certain).value == 0


# Boxes


def boxes(*corners, labels=None, scores=None):
    return Boxes(
        corners_px=np.array(corners, dtype=np.float32).reshape(-1, 4),
        labels=np.array(labels if labels is not None else [0] * len(corners), dtype=np.int64),
        scores=None if scores is None else np.array(scores, dtype=np.float32),
    )


def map_of(found, real, **knobs):
    pytest.importorskip("faster_coco_eval")
    data = DetectionData(name="some", images=random_images(n=1), objects=[real])
    metric = MeanAveragePrecision(**knobs)
    metric.check(data)
    return metric.score([found], data, None).value


REAL = (10, 10, 30, 30)
ELSEWHERE = (60, 60, 90, 90)


def test_boxes_that_are_all_right_have_a_precision_of_one():
    assert map_of(boxes(REAL, scores=[0.9]), boxes(REAL)) == pytest.approx(1)


def test_nothing_found_has_a_precision_of_nothing():
    assert map_of(boxes(scores=[]), boxes(REAL)) == 0


def test_a_box_of_the_wrong_class_does_not_count():
    assert map_of(boxes(REAL, labels=[1], scores=[0.9]), boxes(REAL)) == 0


def test_a_box_that_covers_six_tenths_counts_at_three_of_ten_thresholds():
    """Its overlap is 0.6 of the union, and the thresholds 0.50, 0.55 and 0.60 let it pass."""
    found = boxes((10, 10, 30, 22.01), scores=[0.9])

    assert map_of(found, boxes(REAL)) == pytest.approx(0.3)
    assert map_of(found, boxes(REAL), overlap="0.5") == pytest.approx(1)
    assert map_of(found, boxes(REAL), overlap="0.75") == 0


def test_what_is_found_in_a_crowd_is_neither_right_nor_wrong():
    """Boxes of crowds were left out, and what was found in them counted as wrong, which it does not
    in COCO's own evaluation: the precision was 0.5 here, and too low on every set with crowds."""
    crowd = (60, 60, 90, 90)
    real = replace(boxes(REAL, crowd), crowds=np.array([0, 1]))
    found = boxes((62, 62, 70, 70), REAL, scores=[0.9, 0.5])

    assert map_of(found, real) == pytest.approx(1)
    assert map_of(found, boxes(REAL)) == pytest.approx(0.5)
    with pytest.raises(ConfigError, match="known objects"):
        map_of(found, replace(boxes(crowd), crowds=np.array([1])))


def test_a_surer_wrong_box_halves_the_precision():
    """Of two boxes the surer is wrong: at the only recall that is reached, half are right."""
    found = boxes(ELSEWHERE, REAL, scores=[0.9, 0.5])

    assert map_of(found, boxes(REAL)) == pytest.approx(0.5)


def test_images_without_known_objects_are_refused():
    with pytest.raises(ConfigError, match="known objects"):
        map_of(boxes(scores=[]), boxes())


# What all have in common


@pytest.mark.parametrize("name", ["fid", "frechet_distance", "lpips"])
def test_of_distances_less_is_better(name):
    assert METRICS[name].direction == "lower"
    assert retention(2.0, 1.0, METRICS[name].direction) == 0.5


def test_data_sets_that_differ_have_other_digests():
    images = random_images()
    sets = [
        image_data(),
        image_data(prompts=("a cat", "a cow")),
        image_data(images=tuple(images)),
        image_data(images=tuple(images + 1)),
        image_data(images=tuple(images), judge=Plain()),
        labelled([0, 1]),
        labelled([1, 0]),
        DetectionData(name="one", images=images[:1], objects=[boxes(REAL)]),
        DetectionData(name="one", images=images[:1], objects=[boxes(ELSEWHERE)]),
    ]

    assert len({each.digest for each in sets}) == len(sets)
    assert image_data().digest == image_data(name="another").digest


def test_torchmetrics_is_used_without_warnings():
    images = random_images()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ssim().score(images, image_data(), images)
