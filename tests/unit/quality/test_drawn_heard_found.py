"""Diffusion, Whisper and detectors as something to be scored, and the data they are scored on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.base import Boxes, Detects
from joulelab.quality.image_sets import read_detection_images, read_prompts
from joulelab.quality.recognition import BoxAgreement
from joulelab.quality.text_data import RATE_HZ, read_speech
from joulelab.workloads import WORKLOADS

TINY = {
    "detection": {"model": "tiny", "image_size": 64, "confidence": 0.05},
    "diffusion": {"model": "tiny", "steps": 2},
    "whisper": {"model": "toy"},
}


def subject(name, **knobs):
    return SUBJECTS[name](WORKLOADS[name].from_knobs({**TINY[name], "precision": "fp32", **knobs}))


def save(path, size=(40, 30)):
    Image.new("RGB", size, (200, 100, 0)).save(path)


# Drawn


def drawn(prompts, **knobs):
    with subject("diffusion", **knobs).open() as network:
        return network.make_images(prompts)


def test_images_depend_on_their_prompt_place_and_seed_and_not_on_the_batch():
    prompts = ["a cat", "a dog", "a cat"]

    images = drawn(prompts)

    assert images.shape == (3, 3, 16, 16)
    assert np.allclose(images, drawn(prompts, batch=2), atol=1e-5)
    assert np.abs(images[0] - images[2]).max() > 0.01
    assert np.abs(images - drawn(prompts, seed=1)).max() > 0.01


def test_random_images_of_two_precisions_differ_by_rounding_alone():
    exact, rounded = drawn(["a cat"]), drawn(["a cat"], precision="bf16")

    assert 0 < np.abs(exact - rounded).max() < 0.1 * np.ptp(exact)


def test_a_pipeline_is_freed_when_it_has_been_asked():
    diffusion = subject("diffusion")
    with diffusion.open():
        pass

    with pytest.raises(ConfigError, match="prepared"):
        diffusion.workload.images(["a cat"])


def test_prompts_and_real_images_come_from_a_folder(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "a cat"}\n{"prompt": "a dog"}\n')
    (tmp_path / "b.txt").write_text("a bird\n\n")
    save(tmp_path / "real.png")

    data = read_prompts(str(tmp_path))

    assert data.prompts == ("a cat", "a dog", "a bird")
    assert [image.shape for image in data.images] == [(3, 30, 40)]
    assert read_prompts(str(tmp_path / "b.txt")).prompts == ("a bird",)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"text": "a cat"}', "a.jsonl:1 must be an object with a prompt"),
        ("a.md", "", "has none"),
    ],
)
def test_a_file_without_prompts_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)

    with pytest.raises(ConfigError, match=said):
        read_prompts(str(tmp_path))


# Heard


def test_what_is_said_next_depends_on_what_was_heard():
    data = read_speech(None)

    with subject("whisper").open() as network:
        one, again, other = (
            network.hearing(data.recordings[index]).logits([127, 97, 98]) for index in (0, 0, 1)
        )

    assert one.shape == (3, 128)
    assert np.array_equal(one, again)
    assert np.abs(one - other).max() > 1e-6


def test_a_random_listener_reads_the_bytes_of_a_text_after_its_start():
    with subject("whisper").open() as network:
        heard = network.hearing(read_speech(None).recordings[0])

    assert heard.token_ids("ab") == [127, 97, 98]


def test_every_recording_makes_one_sample_of_its_own_tokens():
    data = read_speech(None)
    data = replace(data, recordings=data.recordings[:2], texts=("ab", "abcd"))
    metric = METRICS["kl_divergence"].from_knobs({})

    with subject("whisper").open() as network:
        observed = metric.observe(network, data)

    score = metric.score(observed, data, observed)
    assert [len(each) for each in observed] == [3, 5]
    assert (score.value, score.n, score.counted) == (0, 8, "token")


def test_recordings_and_their_texts_come_from_a_folder(tmp_path):
    wave = (np.sin(np.arange(800)) * 16383).astype(np.int16)
    wavfile.write(tmp_path / "a.wav", RATE_HZ, wave)
    with pytest.raises(ConfigError, match=r"a\.txt beside it"):
        read_speech(str(tmp_path))
    (tmp_path / "a.txt").write_text("a tone\n")

    data = read_speech(str(tmp_path))

    assert data.texts == ("a tone",)
    assert np.abs(data.recordings[0]).max() == pytest.approx(0.5, abs=0.01)
    wavfile.write(tmp_path / "a.wav", 8000, wave)
    with pytest.raises(ConfigError, match="16000 samples a second"):
        read_speech(str(tmp_path))


# Found


def test_objects_are_found_in_the_pixels_of_images_of_several_sizes():
    images = [
        np.random.default_rng(0).random((3, *size), np.float32) for size in ((80, 40), (9, 99))
    ]

    with subject("detection").open() as network:
        wide_and_high = network.detect(images, {})

    for boxes, image in zip(wide_and_high, images, strict=True):
        assert len(boxes.labels)
        assert boxes.scores.min() >= 0.05
        centres = (boxes.corners_px[:, :2] + boxes.corners_px[:, 2:]) / 2
        assert (centres > 0).all()
        assert (centres < np.array(image.shape[:0:-1])).all()


def test_a_detector_whose_outputs_are_no_numbers_finds_nothing_that_is_scored():
    """What is no number is below every confidence: a broken network scored like a blind one."""
    images = read_detection_images(None).images[:1]
    with subject("detection").open() as network:
        for weights in network.network.parameters():
            weights.data[:] = np.nan

        with pytest.raises(MeasurementError, match="are not numbers"):
            network.detect(images, {})


def boxes(offset_px=0.0, scored=True):
    corners = np.array([[10.0, 10, 50, 50], [60, 60, 90, 95]]) + offset_px
    return Boxes(
        corners_px=corners, labels=np.array([0, 1]), scores=np.array([0.9, 0.8]) if scored else None
    )


def test_boxes_agree_with_themselves_and_not_with_those_elsewhere():
    pytest.importorskip("faster_coco_eval")
    data, metric = read_detection_images(None), BoxAgreement()

    assert metric.score([boxes()], data, [boxes()]).value == pytest.approx(1)
    assert metric.score([boxes(500.0)], data, [boxes()]).value == 0
    nothing = Boxes(corners_px=np.empty((0, 4)), labels=np.empty(0, int), scores=np.empty(0))
    with pytest.raises(MeasurementError, match="lower confidence"):
        metric.score([boxes()], data, [nothing])


@pytest.fixture
def scenes(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    described = {
        "images": [{"id": 7, "file_name": "b.png"}, {"id": 8, "file_name": "a.png"}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"image_id": 8, "category_id": 3, "bbox": [1, 2, 10, 20]},
            {"image_id": 8, "category_id": 3, "bbox": [0, 0, 40, 30], "iscrowd": 1},
        ],
    }
    (tmp_path / "instances.json").write_text(json.dumps(described))
    return tmp_path


def test_objects_are_read_as_coco_describes_them(scenes):
    data = read_detection_images(str(scenes))

    assert [each.has_objects for each in data.objects] == [False, True]
    assert data.objects[1].corners_px.tolist() == [[1, 2, 11, 22], [0, 0, 40, 30]]
    assert data.objects[1].labels.tolist() == [3, 3]
    assert data.objects[1].crowds.tolist() == [0, 1]
    assert data.classes == {"cat": 3}


def test_classes_are_those_of_the_data_set_by_name(scenes):
    with subject("detection").open() as network:
        assert isinstance(network, Detects)
        with pytest.raises(MeasurementError, match=r"none of the classes .*cat"):
            network.detect(read_detection_images(str(scenes)).images, {"cat": 3})
        found = network.detect(read_detection_images(None).images[:2], {"LABEL_1": 90})

    labels = np.concatenate([each.labels for each in found])
    assert set(labels) <= {90, 91, 93, 94}  # of labels 0 to 3, the one that is known, and others


def test_a_folder_that_is_no_data_set_is_refused(scenes):
    (scenes / "instances.json").write_text("{}")

    with pytest.raises(ConfigError, match=r"COCO's form"):
        read_detection_images(str(scenes))
    with pytest.raises(ConfigError, match="folder with images"):
        read_detection_images("nowhere")
    with pytest.raises(ConfigError, match="networks of transformers"):
        subject("detection", model="yolov8n").open().__enter__()


def test_an_image_that_breaks_off_is_named(tmp_path):
    """A copy that was not complete ended in an OSError when its turn to be read came."""
    for name in ("a.png", "b.png"):
        save(tmp_path / name)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:-30])

    images = read_detection_images(str(tmp_path)).images

    with pytest.raises(ConfigError, match="Image 2 of 2 of the data set cannot be read"):
        images[1]
