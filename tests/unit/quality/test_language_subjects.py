import numpy as np
import pytest

from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.language_subjects import LanguageSubject
from joulelab.quality.subject import weights_digest
from joulelab.workloads.llama import Llama


def subject(**knobs):
    return LanguageSubject(Llama.from_knobs({"model": "tiny", "precision": "fp32", **knobs}))


def logits(**knobs):
    with subject(**knobs).open() as network:
        return network.logits(network.token_ids("a text of its own"))


def test_random_weights_are_the_same_in_every_precision_but_for_rounding():
    exact = logits(precision="fp32")

    rounded = logits(precision="bf16")

    assert exact.dtype == rounded.dtype == np.float32
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


def test_outputs_are_the_same_each_time_and_whatever_the_batch():
    assert np.array_equal(logits(batch=1), logits(batch=8))


def test_the_prediction_of_a_token_depends_on_those_before_it_alone():
    with subject().open() as network:
        whole = network.logits(network.token_ids("abcdef"))
        part = network.logits(network.token_ids("abc"))

    assert whole.shape == (6, 256)
    assert np.allclose(whole[:3], part, atol=1e-5)


def test_a_continuation_is_that_of_the_likeliest_tokens():
    with subject().open() as network:
        text = "The river"
        (written,) = network.generate([text], new_tokens=1)
        likeliest = int(network.logits(network.token_ids(text))[-1].argmax())

    assert written == bytes([likeliest]).decode(errors="replace")


def test_a_network_whose_predictions_are_no_numbers_writes_nothing():
    """An overflow in fp16 leaves logits that are not numbers, of which argmax takes the first: the
    text was scored as if the network had chosen it."""
    with subject().open() as network:
        network._network.lm_head.weight.data[:] = np.nan

        with pytest.raises(MeasurementError, match="are not numbers"):
            network.generate(["a"], new_tokens=1)


def test_a_network_without_a_tokenizer_writes_nothing_beyond_bytes():
    with subject().open() as network:
        network._vocabulary = 32000
        with pytest.raises(ConfigError, match="give weights"):
            network.generate(["a"], new_tokens=1)


def test_the_outputs_depend_on_precision_and_weights_but_not_on_batch_or_length():
    one = subject().identity

    assert subject(batch=4, prompt_tokens=7, new_tokens=3).identity == one
    assert subject(precision="bf16").identity != one
    assert subject(attention="eager").identity != one


def test_weights_are_known_by_their_content(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = weights_digest(str(tmp_path))

    (tmp_path / "config.json").write_text("[]")

    assert weights_digest(str(tmp_path)) != before
    assert weights_digest(None) == "random"
    assert weights_digest("owner/name") == "owner/name"
