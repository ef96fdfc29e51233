"""Perplexity, divergence and agreement against closed forms."""

from dataclasses import dataclass
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulelab.core.statistics import mean_u
from joulelab.errors import ConfigError, MeasurementError
from joulelab.quality.predictions import (
    KlDivergence,
    Perplexity,
    Surprise,
    TokenAgreement,
    divergence,
    log_softmax,
    sliding_windows,
    split_windows,
)
from joulelab.quality.text_data import TextData
from joulelab.quality.uncertainty import pooled_mean

DATA = TextData(name="two", texts=("abcabcabc" * 10, "cabcab"))
VOCABULARY = 256


@dataclass
class Reader:
    """Predicts bytes by a table of the log-probabilities of each byte's successors."""

    table: np.ndarray
    max_tokens: int = 64

    def token_ids(self, text):
        return list(text.encode())

    def logits(self, token_ids):
        assert len(token_ids) <= self.max_tokens
        return self.table[np.asarray(token_ids)].astype(np.float32)


def uniform(shift=0.0):
    return np.full((VOCABULARY, VOCABULARY), shift)


def successor(probability):
    """After a comes b, after b c, after c a, with ``probability``; the rest is equally likely."""
    table = np.full((VOCABULARY, VOCABULARY), log((1 - probability) / (VOCABULARY - 1)))
    for before, after in ("ab", "bc", "ca"):
        table[ord(before), ord(after)] = log(probability)
    return table


def scored(metric, table, reference=None):
    theirs = None if reference is None else metric.observe(Reader(reference), DATA)
    return metric.score(metric.observe(Reader(table), DATA), DATA, theirs)


@pytest.mark.parametrize("logit", [-5000.0, 0.0, 5000.0])
def test_equal_logits_share_the_probability_however_large_they_are(logit):
    assert log_softmax(np.full((1, 4), logit)) == pytest.approx(-log(4))


@pytest.mark.parametrize("stride", [1, 7, 31])
def test_a_network_without_opinion_has_its_vocabulary_as_perplexity(stride):
    score = scored(Perplexity(window_tokens=32, stride_tokens=stride), uniform(shift=3.0))

    assert score.value == pytest.approx(VOCABULARY)
    assert score.u == pytest.approx(0.0, abs=1e-4)
    assert score.n == 89 + 5


def test_perplexity_is_the_inverse_of_the_probability_of_what_comes():
    assert scored(Perplexity(), successor(0.8)).value == pytest.approx(1 / 0.8)


def test_a_perplexity_beyond_all_numbers_is_refused():
    """A network of large logits that is sure of the wrong token ended in an OverflowError."""
    with pytest.raises(MeasurementError, match="finite, got inf"):
        scored(Perplexity(), 2000 * np.eye(VOCABULARY))
    assert Perplexity().pooled([(800.0, 1)]) == np.inf


def test_perplexity_is_that_of_torchmetrics():
    from joulelab.tracing.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    import torch
    from torchmetrics.functional.text import perplexity

    table = np.random.default_rng(1).normal(size=(VOCABULARY, VOCABULARY))
    data = TextData(name="one", texts=("a text of some forty characters, no more",))
    metric = Perplexity()
    token_ids = torch.tensor([list(data.texts[0].encode())])
    logits = torch.tensor(table)[token_ids]

    score = metric.score(metric.observe(Reader(table), data), data, None)

    assert score.value == pytest.approx(float(perplexity(logits[:, :-1], token_ids[:, 1:])))
    assert score.u is None  # of one window


@given(st.integers(0, 200), st.integers(2, 50), st.data())
def test_windows_reach_every_token_but_the_first_once_and_with_context(num, window, data):
    stride = data.draw(st.integers(1, window - 1))

    windows = list(sliding_windows(num, window, stride))

    reached = [i for _, stop, scored in windows for i in range(stop - scored, stop)]
    assert reached == list(range(1, num))
    assert all(stop - start <= window for start, stop, _ in windows)
    assert all(stop - scored - start >= min(window - stride, 1) for start, stop, scored in windows)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(0, 50))
def test_windows_of_a_text_hold_its_first_tokens_in_order(length, window, most):
    windows = split_windows(range(length), window, most)

    assert [t for each in windows for t in each] == [*range(length)][:most]
    assert all(0 < len(each) <= window for each in windows)


@pytest.mark.parametrize("metric", [TokenAgreement(), KlDivergence()])
@pytest.mark.parametrize("whose", ["the", "the reference's"])
def test_predictions_that_are_no_numbers_have_no_agreement(metric, whose):
    """Of logits that are not numbers, as fp16 leaves where it overflows, argmax says the first
    token: a broken network agreed with a sound one by 0, and with a broken one by 1."""
    sound, broken = uniform(), uniform()
    broken[ord("a")] = np.nan
    ours, reference = (broken, sound) if whose == "the" else (sound, broken)

    with pytest.raises(MeasurementError, match=f"some of {whose} outputs are not numbers"):
        scored(metric, ours, reference)


def test_a_token_without_any_probability_is_no_overflow():
    masked = successor(0.8)
    masked[:, 0] = -np.inf

    assert scored(TokenAgreement(), masked, successor(0.8)).value == 1.0


def test_divergence_of_two_coins_is_the_closed_form():
    p, q = 0.7, 0.4
    expected = p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))

    found = divergence(np.log([[q, 1 - q]]), np.log([[p, 1 - p]]))

    assert found == pytest.approx([expected])


def test_divergence_of_a_guess_from_a_certain_answer_is_the_surprise():
    metric = KlDivergence(max_tokens=32, window_tokens=16)

    score = scored(metric, uniform(), successor(1 - 1e-9))

    assert score.value == pytest.approx(log(VOCABULARY), rel=1e-5)
    assert score.n == 32


@given(st.floats(1e-4, 1.0))
def test_a_small_divergence_is_never_negative(size):
    noise = np.random.default_rng(0).normal(size=(3, 50))
    theirs = np.log(np.full((3, 50), 1 / 50))
    ours = theirs + size * 1e-6 * noise
    ours -= np.log(np.exp(ours).sum(axis=1, keepdims=True))

    found = divergence(ours.astype(np.float32), theirs.astype(np.float32))

    assert (found >= 0).all()


def test_the_reference_agrees_with_itself():
    table = successor(0.6)

    assert scored(KlDivergence(), table, table).value == 0
    assert scored(TokenAgreement(), table, table).value == 1


def test_agreement_is_the_share_of_equal_favourites():
    changed = successor(0.6)
    changed[ord("a")] = np.roll(changed[ord("a")], 1)  # after a third of the tokens

    score = scored(TokenAgreement(), changed, successor(0.6))

    assert score.value == pytest.approx(2 / 3)
    assert score.counted == "token"


def test_the_uncertainty_of_equal_clusters_is_that_of_their_mean():
    means = [1.0, 2.0, 4.5]

    mean, u = pooled_mean([10 * each for each in means], [10] * 3)

    assert mean == pytest.approx(2.5)
    assert u == pytest.approx(mean_u(means))


def test_a_single_cluster_has_no_uncertainty_and_none_no_mean():
    assert pooled_mean([6.0], [3]) == (2.0, None)
    with pytest.raises(MeasurementError):
        pooled_mean([], [])


def test_perplexity_carries_the_uncertainty_of_its_exponent():
    score = Perplexity().score([Surprise(2.0, 2), Surprise(6.0, 2)], DATA, None)

    assert score.value == pytest.approx(exp(2.0))
    assert score.u == pytest.approx(exp(2.0) * 1.0)  # means 1 and 3


@pytest.mark.parametrize("metric", [Perplexity(), KlDivergence(), TokenAgreement()])
def test_data_without_texts_is_refused_before_anything_is_loaded(metric):
    with pytest.raises(ConfigError, match="needs running texts"):
        metric.check(TextData(name="prompts", prompts=("a",)))


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"stride_tokens": 4, "window_tokens": 4}, "stride_tokens must be less"),
        ({"window_tokens": 1}, "window_tokens must be"),
        ({"strid_tokens": 1}, "Did you mean 'stride_tokens'"),
    ],
)
def test_a_bad_knob_is_one_clear_line(knobs, said):
    with pytest.raises(ConfigError, match=said):
        Perplexity.from_knobs(knobs)
