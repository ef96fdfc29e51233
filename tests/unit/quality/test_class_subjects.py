"""Classifiers as something to be scored, and the inputs that they are scored on."""

import numpy as np
import pytest
from PIL import Image

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality import METRICS, SUBJECTS
from joulelab.quality.image_data import pink_images
from joulelab.quality.image_sets import read_class_images, read_tokens
from joulelab.quality.recognition import Accuracy
from joulelab.workloads import WORKLOADS

TINY = {
    "bert": {"model": "tiny"},
    "lstm": {"model": "tiny"},
    "resnet50": {"image_size": 32},
    "vit": {"model": "tiny"},
}


def subject(name, **knobs):
    return SUBJECTS[name](WORKLOADS[name].from_knobs({**TINY[name], "precision": "fp32", **knobs}))


def class_scores(name, inputs, **knobs):
    with subject(name, **knobs).open() as network:
        return network.class_scores(inputs)


def some_inputs(name, num):
    """The first inputs of the data set that a subject brings; of images, smaller ones."""
    is_image = name in ("resnet50", "vit")
    return pink_images(num, 64) if is_image else read_tokens(None).inputs[:num]


@pytest.mark.parametrize("name", TINY)
def test_random_classifiers_differ_in_two_precisions_by_rounding_alone(name):
    inputs = some_inputs(name, 4)

    exact, again, rounded = (
        class_scores(name, inputs, **knobs) for knobs in ({}, {"batch": 3}, {"precision": "bf16"})
    )

    assert np.array_equal(exact, again)
    assert exact.shape[0] == 4
    spread = np.abs(exact - exact.mean(axis=1, keepdims=True)).max()
    assert 0 < np.abs(rounded - exact).max() < 0.3 * spread
    assert "batch" not in subject(name).identity
    assert "weights read" in subject(name).identity


@pytest.mark.parametrize("name", TINY)
def test_inputs_of_one_kind_are_told_apart(name):
    """Else nothing that a metric says of them would mean anything."""
    scores = class_scores(name, some_inputs(name, 8))

    assert len(np.unique(scores.round(6), axis=0)) == 8


def test_the_class_of_a_span_is_its_start_times_the_tokens_plus_its_end():
    inputs = read_tokens(None).inputs[:2]

    scores = class_scores("bert", inputs).reshape(2, 128, 128)

    crossed = scores[:, 3, 5] + scores[:, 7, 9]
    assert crossed == pytest.approx(scores[:, 3, 9] + scores[:, 7, 5], abs=1e-6)


# Data


def save(path, level=100, size=(20, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (level, 0, 255)).save(path)


def test_folders_are_classes_in_the_order_of_their_names(tmp_path):
    for name in ("b/1.png", "a/2.png", "a/1.png"):
        save(tmp_path / name)

    data = read_class_images(str(tmp_path))

    assert data.labels.tolist() == [0, 0, 1]
    assert data.inputs[0].shape == (3, 30, 20)
    assert data.inputs[0][:, 0, 0] == pytest.approx([100 / 255, 0, 1])


def test_folders_that_are_numbers_are_those_classes(tmp_path):
    for name in ("10/1.png", "9/1.png"):
        save(tmp_path / name)

    assert read_class_images(str(tmp_path)).labels.tolist() == [10, 9]


def test_images_without_classes_have_no_accuracy_and_it_says_what_to_do(tmp_path):
    save(tmp_path / "1.png")
    data = read_class_images(str(tmp_path))

    assert data.labels is None
    with pytest.raises(ConfigError, match=r"folder of images for each class.* need none"):
        Accuracy().check(data)


def test_another_image_is_another_data_set(tmp_path):
    digests = []
    for level in (100, 101, 100):
        save(tmp_path / "1.png", level)
        digests.append(read_class_images(str(tmp_path)).digest)

    assert digests[0] == digests[2] != digests[1]


def test_images_of_several_sizes_are_scored_for_accuracy(tmp_path):
    for index in range(3):
        save(tmp_path / str(index) / "1.png", 80 * index, (20 + index, 40))
    data = read_class_images(str(tmp_path))
    with subject("vit").open() as network:
        observed = network.class_scores(data.inputs)

    score = Accuracy().score(observed, data, None)

    assert score.value in {0, 1 / 3, 2 / 3, 1}
    assert score.n == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: (path / "a.txt").write_text("none"), "has none"),
        (lambda path: (path / "a.png").write_text("none"), "is none"),
        (lambda path: [save(path / "1.png"), save(path / "a" / "1.png")], "images elsewhere"),
    ],
)
def test_a_folder_that_is_no_data_set_is_one_clear_line(tmp_path, make, said):
    make(tmp_path)

    with pytest.raises(ConfigError, match=said):
        read_class_images(str(tmp_path))


def test_token_ids_and_labels_come_from_a_file_of_numpy(tmp_path):
    np.savez(tmp_path / "some.npz", inputs=np.arange(20).reshape(4, 5), labels=np.arange(4) % 2)
    data = read_tokens(str(tmp_path / "some.npz"))

    scores = class_scores("lstm", data.inputs)

    assert METRICS["accuracy"].from_knobs({}).score(scores, data, None).counted == "sequence"
    np.savez(tmp_path / "other.npz", inputs=np.ones((4, 5)))
    with pytest.raises(ConfigError, match="whole numbers"):
        read_tokens(str(tmp_path / "other.npz"))
    with pytest.raises(ConfigError, match=r"\.npz file with inputs"):
        read_tokens("nowhere")


def test_generated_images_have_the_spectrum_of_photographs_and_are_independent():
    first, second = pink_images(2, 128)

    assert 0 <= first.min() < first.max() <= 1
    assert abs(np.corrcoef(first[0].ravel(), second[0].ravel())[0, 1]) < 0.3
    power = np.abs(np.fft.rfft2(first[0] - first[0].mean())) ** 2
    low, high = power[2:6, 2:6].mean(), power[20:24, 20:24].mean()
    assert 20 < low / high < 200  # frequencies in the ratio of 5.5, squared: 30


def test_scores_that_are_no_numbers_agree_with_nothing():
    with pytest.raises(MeasurementError, match="not numbers"):
        METRICS["class_divergence"].from_knobs({}).score(
            np.full((2, 3), np.nan), read_tokens(None), np.zeros((2, 3))
        )
