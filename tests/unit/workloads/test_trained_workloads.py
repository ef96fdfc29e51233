"""The small networks that are trained here: their data, their knobs, what they draw."""

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
import torch

from joulelab.errors import ConfigError, UnknownNameError
from joulelab.quality import SUBJECTS
from joulelab.quality.vision_subjects import noisy_held_out_digits
from joulelab.workloads import WORKLOADS, char_lm
from joulelab.workloads.char_lm import CharLmSettings
from joulelab.workloads.digits import (
    DigitsDiffusion,
    DigitsDiffusionSettings,
    DigitsLstmSettings,
)
from joulelab.workloads.digits_data import all_digits, held_out_digits, training_digits
from joulelab.workloads.digits_networks import noisy_batch, some_digits

TRAINED = ("char-lm", "digits-diffusion", "digits-lstm", "digits-vit")


def test_no_classifier_sees_the_digits_that_it_is_scored_on():
    seen, held_out = (
        {image.tobytes() for image in digits.images}
        for digits in (training_digits(), held_out_digits())
    )

    assert not seen & held_out
    assert len(training_digits().labels) + len(held_out_digits().labels) == 1797


def test_digits_are_images_from_zero_to_one_of_all_ten_kinds():
    digits = all_digits()

    assert digits.images.shape == (1797, 1, 8, 8)
    assert (digits.images.min(), digits.images.max()) == (0, 1)
    assert sorted(set(digits.labels.tolist())) == list(range(10))


def test_scored_digits_are_noisy_alike_each_time():
    first, second = noisy_held_out_digits(), noisy_held_out_digits()

    assert first.digest == second.digest
    noise = first.inputs - np.concatenate([held_out_digits().images] * 4)
    assert noise.std() == pytest.approx(0.2, rel=0.01)


def test_a_batch_of_more_digits_than_there_are_repeats_them():
    digits = some_digits(1300, "fp32", torch.device("cpu"))

    assert torch.equal(digits[1197:], digits[:103])


def test_noise_of_no_strength_leaves_digits_as_they_are():
    images = torch.from_numpy(all_digits().images)

    noisy, chosen = noisy_batch(images, 5, 0.0, torch.Generator().manual_seed(0))

    assert torch.equal(noisy, images[chosen])


# The generated language


def test_every_word_has_four_successors_and_follows_four_others():
    words, successors = char_lm.language()

    assert len(set(words)) == len(words) == 64
    assert all(len(set(row)) == 4 for row in successors.tolist())
    assert all(sorted(column) == list(range(64)) for column in successors.T.tolist())


def test_a_text_is_words_that_may_follow_each_other_as_often_as_they_should():
    words, successors = char_lm.language()
    place = {word: index for index, word in enumerate(words)}
    said = [place[word] for word in char_lm.generated_text(20_000, seed=3).split(" ")]

    choices = [successors[before].tolist().index(after) for before, after in pairwise(said)]

    shares = np.bincount(choices, minlength=4) / len(choices)
    assert shares == pytest.approx([0.5, 0.25, 0.15, 0.1], abs=0.015)


def test_who_knows_the_language_finds_a_text_as_surprising_as_its_entropy():
    """The probabilities of a text's choices, spread over its letters, give the perplexity."""
    words, successors = char_lm.language()
    probability = dict(zip(range(4), (0.5, 0.25, 0.15, 0.1), strict=True))
    text = char_lm.generated_text(20_000, seed=4)
    said = [words.index(word) for word in text.split(" ")]

    nats = -sum(
        log(probability[successors[before].tolist().index(after)])
        for before, after in pairwise(said)
    )

    assert exp(nats / len(text)) == pytest.approx(char_lm.least_perplexity(), rel=0.01)


# Knobs


@pytest.mark.parametrize("name", TRAINED)
def test_weights_are_trained_here_or_random_and_nothing_else(name):
    assert WORKLOADS[name].from_knobs({}).settings.weights == "trained"
    with pytest.raises(UnknownNameError, match="weights"):
        WORKLOADS[name].from_knobs({"weights": "somewhere/else"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DigitsLstmSettings(rows=9), "rows must be at most 8"),
        (lambda: DigitsDiffusionSettings(steps=1001), "steps must be at most 1000"),
        (lambda: CharLmSettings(prompt_tokens=120), "at most 128"),
    ],
)
def test_a_knob_beyond_what_the_network_can_do_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_network_has_its_own_data_and_takes_no_other(name):
    with pytest.raises(ConfigError, match="its own data set"):
        SUBJECTS[name].read_data("elsewhere")


# Drawing


def drawn(num_images, **knobs):
    settings = DigitsDiffusionSettings(weights=None, **knobs)
    with SUBJECTS["digits-diffusion"](DigitsDiffusion(settings)).open() as outputs:
        return outputs.make_images([""] * num_images)


@pytest.mark.parametrize("scheduler", ["ddim", "dpm++"])
def test_images_are_the_same_whenever_they_are_drawn_and_lie_from_zero_to_one(scheduler):
    first, second = (drawn(3, steps=3, scheduler=scheduler) for _ in range(2))

    assert np.array_equal(first, second)
    assert first.shape == (3, 1, 8, 8)
    assert first.min() >= 0
    assert first.max() <= 1
    assert not np.array_equal(first[0], first[1])


def test_random_weights_are_the_same_in_every_precision_but_for_rounding():
    exact, rounded = drawn(3, steps=2), drawn(3, steps=2, precision="bf16")

    assert not np.array_equal(exact, rounded)
    assert np.median(np.abs(exact - rounded)) < 0.02


def test_steps_cost_in_proportion():
    def flop(steps):
        cost = DigitsDiffusion(DigitsDiffusionSettings(weights=None, steps=steps)).cost()
        return sum(kernel.flop * kernel.count for kernel in cost.phases[0].kernels)

    assert flop(20) == pytest.approx(2 * flop(10))
